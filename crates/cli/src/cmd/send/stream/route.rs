//! Who sends a stream and who gets it: addresses of both layers, and the headers made of them.

use super::super::{TargetArgs, To, single, single_mac};
use super::StreamArgs;
use anyhow::{Context, bail, ensure};
use ringside_netdev::{self as netdev, NetDevice, Use};
use ringside_segment::Template;
use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port, Tcp, WireError};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How long a neighbour may take to answer.
const NEIGHBOUR_WAIT: Duration = Duration::from_secs(1);
/// First of the dynamic ports (RFC 6335): where streams come from unless another port is given.
const SOURCE_PORT: Port = Port(49_152);
/// Longest headers: Ethernet, a tag, IPv6 and TCP.
const HEADERS_BYTES_MAX: usize = 14 + 4 + 40 + 20;

/// Both ends of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    macs: [MacAddr; 2],
    /// Tag control information.
    vlan: Option<u16>,
}

impl Ends {
    /// Finds out what was not given.
    pub fn find(
        target: &TargetArgs,
        args: &StreamArgs,
        device: &NetDevice,
    ) -> anyhow::Result<Ends> {
        let what = "a stream";
        let vlan = target.vlan.map(|range| single(range, what)).transpose()?;
        let destination = destination(target, args.from_address)?;
        let mac_source = single_mac(target.mac_src, what)?;
        let mac_destination = single_mac(target.mac_dst, what)?;
        let own = || device.hardware_address.as_slice().try_into().ok().map(MacAddr);
        let mac_source = mac_source
            .or_else(own)
            .with_context(|| format!("{} has no MAC address; give one (--mac-src)", device.name))?;
        let (source, mac_destination) = match (args.from_address, mac_destination) {
            // Everything was given: nothing is looked up.
            (Some(source), Some(mac)) => (source, mac),
            (source, mac) => asked(device, destination.ip(), source, mac)?,
        };
        ensure!(
            source.is_ipv4() == destination.is_ipv4(),
            "--from-address {source} and --to {} are of different families",
            destination.ip()
        );
        let source = SocketAddr::new(source, SOURCE_PORT.0);
        let vlan = vlan.map(|id| id as u16);
        Ok(Ends { source, destination, macs: [mac_source, mac_destination], vlan })
    }

    /// The headers of the first frame: TCP that acknowledges nothing new, or UDP with a checksum.
    pub fn template(&self, is_udp: bool) -> anyhow::Result<Template> {
        let mut header = [0; HEADERS_BYTES_MAX];
        let bytes = self.write(is_udp, &mut header)?;
        Ok(Template::parse(&header[..bytes])?)
    }

    fn write(&self, is_udp: bool, out: &mut [u8]) -> Result<usize, WireError> {
        let [source_mac, destination_mac] = self.macs;
        let is_v6 = self.destination.is_ipv6();
        let ip_type = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let first_type = if self.vlan.is_some() { EtherType::VLAN } else { ip_type };
        let mut at = build::ethernet(out, destination_mac, source_mac, first_type)?;
        if let Some(tci) = self.vlan {
            at += build::vlan(&mut out[at..], tci, ip_type)?;
        }
        let payload_bytes = if is_udp { 8 } else { 20 };
        let protocol = if is_udp { IpProtocol::UDP } else { IpProtocol::TCP };
        let addresses = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (id, ttl, dont_fragment) = (0, 64, true);
                let fields = Ipv4Fields {
                    source,
                    destination,
                    protocol,
                    id,
                    ttl,
                    dont_fragment,
                    payload_bytes,
                };
                at += build::ipv4(&mut out[at..], &fields)?;
                Addresses::V4 { source, destination }
            }
            (source, destination) => {
                let v6 = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                let (source, destination) = (v6(source), v6(destination));
                let (next_header, flow_label, hop_limit) = (protocol, 0, 64);
                let fields = Ipv6Fields {
                    source,
                    destination,
                    next_header,
                    flow_label,
                    hop_limit,
                    payload_bytes,
                };
                at += build::ipv6(&mut out[at..], &fields)?;
                Addresses::V6 { source, destination }
            }
        };
        let segment = &mut out[at..at + payload_bytes];
        let (source, destination) = (Port(self.source.port()), Port(self.destination.port()));
        at += if is_udp {
            build::udp(segment, addresses, source, destination)?
        } else {
            let (sequence, acknowledgment, flags, window) = (1, 1, Tcp::ACK, u16::MAX);
            let fields = TcpFields { source, destination, sequence, acknowledgment, flags, window };
            build::tcp(segment, addresses, &fields)?
        };
        Ok(at)
    }
}

/// Where the stream goes: of a name's addresses the first, of the family of the source if one is
/// given.
fn destination(target: &TargetArgs, source: Option<IpAddr>) -> anyhow::Result<SocketAddr> {
    let (host, port) = match &target.to {
        Some(To::Place(host, port)) => (host, *port),
        Some(To::Moment(_)) => bail!("--to of a stream is a place, as 10.0.0.2:9000"),
        None => bail!("say where the stream goes: --to HOST:PORT, as --to 10.0.0.2:9000"),
    };
    let mut found = (host.as_str(), port).to_socket_addrs().with_context(|| {
        format!("no address is known for {host}; write one, as --to 10.0.0.2:{port}")
    })?;
    let fits = |address: &SocketAddr| source.is_none_or(|s| s.is_ipv4() == address.is_ipv4());
    found.find(fits).with_context(|| {
        format!("{host} has no address of the family of --from-address; give one that fits")
    })
}

/// What the kernel knows of the way to `destination`.
fn asked(
    device: &NetDevice,
    destination: IpAddr,
    source: Option<IpAddr>,
    mac: Option<MacAddr>,
) -> anyhow::Result<(IpAddr, MacAddr)> {
    let name = &device.name;
    let family = if destination.is_ipv4() { "IPv4" } else { "IPv6" };
    let route = netdev::route(device.ifindex, destination)?;
    if source.is_none() && route.is_none_or(|route| route.source.is_none()) {
        let uses = netdev::uses(name)?;
        let is_v4 = destination.is_ipv4();
        let is_of_family = |found: &Use| match found {
            Use::Address { address, .. } => address.is_ipv4() == is_v4,
            _ => false,
        };
        ensure!(
            uses.iter().any(is_of_family),
            "{name} has no {family} address to send from: `ip address add ADDRESS/BITS dev \
             {name}`, or name one (--from-address)"
        );
    }
    let route = route.with_context(|| {
        format!(
            "no route leads to {destination} out of {name}: `ip route add {destination} dev \
             {name}`, or give both ends (--from-address, --mac-dst)"
        )
    })?;
    ensure!(
        route.is_unicast() || mac.is_some(),
        "{destination} is no other host by the routes of {name} (this host, a broadcast or a group \
         of hosts); give a MAC address (--mac-dst)"
    );
    let source = source.or(route.source).with_context(|| {
        format!("the kernel names no address to send from to {destination}; use --from-address")
    })?;
    let mac = match mac {
        Some(mac) => mac,
        None => {
            let hop = route.next_hop;
            let found = netdev::neighbour(device.ifindex, hop, NEIGHBOUR_WAIT)?;
            MacAddr(found.with_context(|| {
                format!(
                    "no neighbour {hop} answers on {name} within {NEIGHBOUR_WAIT:?}; is it up? \
                     Else give its MAC address (--mac-dst)"
                )
            })?)
        }
    };
    Ok((source, mac))
}
