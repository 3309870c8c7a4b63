//! Whether the host itself uses an interface: then taking all of its frames away does harm.

use super::NetDevice;
use crate::netlink::Connection;
use crate::netlink::message::{Attribute, Message, Request, attributes, damaged, u16_at, u32_at};
use ringside_sys::SysError;
use std::fmt;
use std::io;
use std::net::IpAddr;

/// Addresses and routes of one interface that are reported: one is enough to know.
const TOLD_MAX: usize = 64;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
const ADDRESS_HEADER_BYTES: usize = 8;
/// `struct rtmsg`: family, two prefix lengths, TOS, table, protocol, scope, type, flags.
const ROUTE_HEADER_BYTES: usize = 12;
/// `struct rtnexthop`: length, flags, hops, index.
const NEXT_HOP_BYTES: usize = 8;
/// Kinds whose `link` is the other end of a pair, not what they stand on.
const PAIRS: [&str; 2] = ["veth", "netkit"];

/// One way in which the host uses an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Programs of this host talk to each other through it.
    Loopback,
    /// It has an address. The link-local ones of IPv6, which every interface gets by itself, do
    /// not count.
    Address {
        /// The address.
        address: IpAddr,
        /// Bits of its prefix.
        prefix_bits: u8,
    },
    /// A route leads out of it, other than to the networks of its own addresses.
    Route {
        /// Network and bits of its prefix; none for the default route.
        destination: Option<(IpAddr, u8)>,
    },
    /// It is a member of a bridge, a bond or the like.
    Member {
        /// Name of that.
        of: String,
        /// `bridge`, `bond`, `vrf`; empty if unknown.
        kind: String,
    },
    /// Another interface stands on it.
    Carries {
        /// Name of that.
        name: String,
        /// `vlan`, `macvlan`; empty if unknown.
        kind: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Loopback => write!(f, "it is the loopback interface"),
            Use::Address { address, prefix_bits } => {
                write!(f, "it has the address {address}/{prefix_bits}")
            }
            Use::Route { destination: None } => write!(f, "the default route leads out of it"),
            Use::Route { destination: Some((network, bits)) } => {
                write!(f, "the route to {network}/{bits} leads out of it")
            }
            Use::Member { of, kind } if kind.is_empty() => write!(f, "it is a member of {of}"),
            Use::Member { of, kind } => write!(f, "it is a member of the {kind} {of}"),
            Use::Carries { name, kind } if kind.is_empty() => {
                write!(f, "the interface {name} stands on it")
            }
            Use::Carries { name, kind } => write!(f, "the {kind} {name} stands on it"),
        }
    }
}

/// How the host uses the interface called `name`; empty if it does not, or if there is no such
/// interface.
///
/// # Errors
/// Netlink is not there, or its answer is damaged.
pub fn uses(name: &str) -> Result<Vec<Use>, SysError> {
    let devices = super::list()?;
    let Some(device) = devices.iter().find(|device| device.name == name) else {
        return Ok(Vec::new());
    };
    let failed =
        |e: io::Error| SysError::io(format!("asking how the host uses interface {name}"), e);
    let mut found = uses_of_links(device, &devices);
    let mut connection = Connection::route()?;
    found.extend(addresses(&mut connection, device.ifindex).map_err(failed)?);
    found.extend(routes(&mut connection, device.ifindex).map_err(failed)?);
    // The default routes of both families are one way of use.
    found.dedup();
    Ok(found)
}

fn uses_of_links(device: &NetDevice, devices: &[NetDevice]) -> Vec<Use> {
    let mut found = Vec::new();
    if device.flags & libc::IFF_LOOPBACK as u32 != 0 {
        found.push(Use::Loopback);
    }
    let name = |ifindex: u32| {
        let found = devices.iter().find(|device| device.ifindex == ifindex);
        found.map_or_else(|| format!("interface {ifindex}"), |device| device.name.clone())
    };
    found.extend(device.master.map(|master| Use::Member {
        of: name(master),
        kind: device.member_kind.clone().unwrap_or_default(),
    }));
    let stands_on_it = |other: &&NetDevice| {
        let is_pair = other.kind.as_deref().is_some_and(|kind| PAIRS.contains(&kind));
        other.link == Some(device.ifindex)
            && other.ifindex != device.ifindex
            && !other.link_is_elsewhere
            && !is_pair
    };
    found.extend(devices.iter().filter(stands_on_it).map(|other| Use::Carries {
        name: other.name.clone(),
        kind: other.kind.clone().unwrap_or_default(),
    }));
    found
}

fn addresses(connection: &mut Connection, ifindex: u32) -> io::Result<Vec<Use>> {
    let mut body = [0; ADDRESS_HEADER_BYTES];
    // Kernels that filter list this interface only; all others are sorted out here.
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let request = Request::new(libc::RTM_GETADDR, &body);
    connection.dump(request, TOLD_MAX, |message| read_address(message, ifindex))
}

fn read_address(message: &Message<'_>, ifindex: u32) -> io::Result<Option<Use>> {
    let body = message.body;
    if message.kind != libc::RTM_NEWADDR || u32_at(body, 4).ok_or_else(damaged)? != ifindex {
        return Ok(None);
    }
    let prefix_bits = body[1];
    let found = attributes(body.get(ADDRESS_HEADER_BYTES..).ok_or_else(damaged)?)?;
    // IFA_LOCAL is the own address where IFA_ADDRESS is that of the other end.
    let of = |kind: u16| found.iter().find(|attribute| attribute.kind == kind);
    let attribute = of(libc::IFA_LOCAL).or_else(|| of(libc::IFA_ADDRESS));
    let address = attribute.and_then(|attribute| ip_address(attribute.value));
    let by_itself = |address: &IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let address = address.filter(|address| !by_itself(address));
    Ok(address.map(|address| Use::Address { address, prefix_bits }))
}

fn routes(connection: &mut Connection, ifindex: u32) -> io::Result<Vec<Use>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut body = [0; ROUTE_HEADER_BYTES];
        body[0] = family as u8;
        let request = Request::new(libc::RTM_GETROUTE, &body)
            .attribute(libc::RTA_OIF, &ifindex.to_ne_bytes());
        let read = |message: &Message<'_>| read_route(message, ifindex);
        found.extend(connection.dump(request, TOLD_MAX, read)?);
    }
    Ok(found)
}

fn read_route(message: &Message<'_>, ifindex: u32) -> io::Result<Option<Use>> {
    if message.kind != libc::RTM_NEWROUTE {
        return Ok(None);
    }
    let (header, rest) = message.body.split_at_checked(ROUTE_HEADER_BYTES).ok_or_else(damaged)?;
    let (destination_bits, protocol, kind) = (header[1], header[5], header[7]);
    // What follows from an address is reported with the address.
    if kind != libc::RTN_UNICAST || protocol == libc::RTPROT_KERNEL {
        return Ok(None);
    }
    let found = attributes(rest)?;
    let leads_out = found.iter().any(|attribute| match attribute.kind {
        libc::RTA_OIF => attribute.word() == ifindex,
        libc::RTA_MULTIPATH => next_hops(*attribute).any(|hop| hop == ifindex),
        _ => false,
    });
    let network = found.iter().find(|attribute| attribute.kind == libc::RTA_DST);
    let network = network.and_then(|attribute| ip_address(attribute.value));
    let destination = network.map(|network| (network, destination_bits));
    Ok(leads_out.then_some(Use::Route { destination }))
}

/// Indexes of the interfaces of a route with several.
fn next_hops(attribute: Attribute<'_>) -> impl Iterator<Item = u32> {
    let mut rest = attribute.value;
    std::iter::from_fn(move || {
        let (length, index) = (usize::from(u16_at(rest, 0)?), u32_at(rest, 4)?);
        // A length below that of its own header would not lead on.
        let length = length.max(NEXT_HOP_BYTES).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or_default();
        Some(index)
    })
}

pub(super) fn ip_address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
