//! What would become of a frame, and why.

use crate::router::untagged;
use crate::{RouteError, interface};
use ringside_ebpf::route::{Cause, DevicePlace, Report, RouteProgram, RouteTables, egress_program};
use std::fmt::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Shortest frame that can be tried: the kernel wants a byte behind the link header.
const FRAME_BYTES_MIN: usize = 15;
/// Longest frame that is tried: the longest packet of IP behind an Ethernet header. No frame of a
/// wire is longer.
const FRAME_BYTES_MAX: usize = 65_549;

/// Tries frames in the program, as if they came in by the first of some interfaces of a router.
/// Nothing is attached, sent or changed.
#[derive(Debug)]
pub struct Explainer {
    tables: RouteTables,
    program: RouteProgram,
    /// Number, name and address of each.
    interfaces: Vec<(u32, String, [u8; 6])>,
}

/// What would become of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In a word.
    pub cause: Cause,
    /// Interface where the route leads, if the tables were asked and named one.
    pub interface: Option<String>,
    /// The next hop, if a route was found.
    pub next_hop: Option<IpAddr>,
    /// The next hop's address in the link layer, if it is known.
    pub mac: Option<[u8; 6]>,
    /// MTU of the route, if the packet is longer.
    pub mtu: Option<u32>,
    /// Name and address of the interface where it comes in.
    came_in: (String, [u8; 6]),
}

impl Explainer {
    /// For the interfaces of these names, of the calling thread's network namespace.
    ///
    /// # Errors
    /// An interface is missing or can be none of a router, or the kernel refused.
    pub fn open(names: &[String]) -> Result<Explainer, RouteError> {
        let found = interface::find(names)?;
        let tables = RouteTables::new()?;
        let mut interfaces = Vec::new();
        for (slot, one) in (0u32..).zip(&found) {
            let out = egress_program(&tables, slot)?;
            let (port, ifindex) = (interface::port(&one.interface, true), one.interface.ifindex);
            tables.set_port(slot, &port)?;
            tables.join(slot, (ifindex, one.device.ifindex), out.as_fd())?;
            // Frames come in by the device of the first.
            if one.device.ifindex == found[0].device.ifindex
                && let Some(vlan) = one.interface.vlan_id
            {
                tables.set_vlan(0, vlan, slot)?;
            }
            interfaces.push((ifindex, one.interface.name.clone(), port.mac));
        }
        let has_vlans = found.iter().any(|one| one.interface.vlan_id.is_some());
        let place = DevicePlace { device: 0, slot: untagged(&found, &found[0].device) };
        let program = RouteProgram::unattached(&tables, place, has_vlans, false)?;
        Ok(Explainer { tables, program, interfaces })
    }

    /// Tries a frame that had `wire_bytes` on the wire; those that are not there are 0.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn explain(&self, frame: &[u8], wire_bytes: usize) -> Result<Explanation, RouteError> {
        let (_, name, mac) = &self.interfaces[0];
        let came_in = (name.clone(), *mac);
        if frame.len() < FRAME_BYTES_MIN {
            // Nothing carries IP in so few bytes.
            let cause = Cause::NotIp;
            let (interface, next_hop, mac, mtu) = (None, None, None, None);
            return Ok(Explanation { cause, interface, next_hop, mac, mtu, came_in });
        }
        let mut tried = frame.to_vec();
        tried.resize(wire_bytes.max(frame.len()).min(FRAME_BYTES_MAX), 0);
        let (_, report) = self.program.explain(&self.tables, &tried)?;
        let Report { cause, ifindex, mtu, next_hop, mac } = report;
        let interface = ifindex.map(|ifindex| self.name_of(ifindex));
        Ok(Explanation { cause, interface, next_hop, mac, mtu, came_in })
    }

    fn name_of(&self, ifindex: u32) -> String {
        let known = self.interfaces.iter().find(|(number, ..)| *number == ifindex);
        let other = || {
            let all = ringside_netdev::list().unwrap_or_default();
            let found = all.into_iter().find(|device| device.ifindex == ifindex);
            found.map_or_else(|| format!("interface {ifindex}"), |device| device.name)
        };
        known.map_or_else(other, |(_, name, _)| name.clone())
    }
}

impl Explanation {
    /// Why, and what to do if that is not what was wanted.
    pub fn why(&self) -> String {
        let out = self.interface.as_deref().unwrap_or("another interface");
        let (name, own) = (&self.came_in.0, mac_text(&self.came_in.1));
        match self.cause {
            Cause::Forwarded => {
                let mac = self.mac.as_ref().map(mac_text).unwrap_or_default();
                format!("out of {out} to {}{mac}", self.hop())
            }
            Cause::Foreign => format!("its destination is not {own}, the address of {name}"),
            Cause::Group => "it is to all or to a group in the link layer".into(),
            Cause::NotIp => "it carries no IP".into(),
            Cause::Tagged => {
                "its VLAN tag, or that it has none, is of no interface of the router: name the \
                 host's VLAN interface with -i"
                    .into()
            }
            Cause::Malformed => {
                "version, lengths or checksum of IP are wrong, or there is more behind the packet \
                 than padding"
                    .into()
            }
            Cause::Options => "it has options of IPv4, which the host must look at".into(),
            Cause::Extensions => "it has IPv6 headers that the host must look at".into(),
            Cause::Addresses => {
                "no router forwards between its source and destination: one is a group, local to a \
                 link or to a host, or none"
                    .into()
            }
            Cause::HopLimit => "its TTL or hop limit ends here: the host answers".into(),
            Cause::IcmpError => {
                "an error of ICMP goes the way of the packet that it is about, which the host finds"
                    .into()
            }
            Cause::Host => format!(
                "it is for this host, or there is no route: `ip route get DST from SRC iif {name}`"
            ),
            Cause::Blackhole => "the route is a blackhole: the host drops it".into(),
            Cause::Unreachable => "the route says unreachable: the host answers".into(),
            Cause::Prohibited => "the route says prohibited: the host answers".into(),
            Cause::Off => format!(
                "forwarding is off on {name}: `sysctl -w net.ipv4.conf.{name}.forwarding=1`, or \
                 net.ipv6"
            ),
            Cause::Encapsulated => "the route puts packets into a tunnel: the host does".into(),
            Cause::NoNeighbour => format!(
                "the address of {}on {out} in the link layer is not known yet: the host asks it",
                self.hop()
            ),
            Cause::TooLong => format!(
                "it is longer than {} bytes, the MTU of its route: the host answers, or cuts it",
                self.mtu.unwrap_or_default()
            ),
            Cause::SameInterface => {
                format!("the route leads back out of {name}: the host forwards it, and says so")
            }
            Cause::NotMember => {
                format!("the route leads out of {out}, which is not of the router: add -i {out}")
            }
            Cause::ReversePath => {
                format!("by rp_filter of {name} its source may not come from there")
            }
            Cause::Refresh => "the host is to see that the next hop is used".into(),
            Cause::Unknown => "the kernel's tables gave no answer that is known".into(),
        }
    }

    fn hop(&self) -> String {
        self.next_hop.map(|hop| format!("{hop} ")).unwrap_or_default()
    }
}

fn mac_text(mac: &[u8; 6]) -> String {
    let mut text = String::new();
    for (index, byte) in mac.iter().enumerate() {
        let colon = if index > 0 { ":" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}
