//! Are the checksums of a frame right?

use crate::bytes::be16_at;
use crate::checksum::{self, Addresses, Sum};
use crate::crc32c::Crc32c;
use crate::{
    Fragment, Icmp, Icmpv6, Igmp, IpProtocol, Ipv4, Ipv6, Ipv6Extension, Layer, LayerKind, Layers,
    Level, Sctp, Tcp, Udp,
};
use std::net::Ipv6Addr;

/// What is to be said about a checksum. Frames of the sending host itself show wrong ones where
/// its interface computes them after the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is right.
    Correct,
    /// It is wrong.
    Wrong {
        /// The checksum in the header.
        found: u32,
        /// The checksum that is right.
        expected: u32,
    },
    /// The protocol has none, or the sender left it out (UDP over IPv4).
    Absent,
    /// It covers bytes that are not here: cut, or in other fragments; or there is no such header.
    Unknown,
}

/// Checks the header checksum of the IPv4 header of a level. IPv6 has none.
pub fn verify_network(bytes: &[u8], layers: &Layers, level: Level) -> Verdict {
    let Some(network) = layers.network(level) else { return Verdict::Unknown };
    if network.kind != LayerKind::Ipv4 {
        return Verdict::Absent;
    }
    match bytes.get(network.start()..network.end()) {
        Some(header) => judge(Sum::new().bytes(header), be16_at(header, 10).unwrap_or(0)),
        None => Verdict::Unknown,
    }
}

/// Checks the checksum of the transport header of a level: TCP, UDP, ICMP, ICMPv6, IGMP, SCTP.
pub fn verify_transport(bytes: &[u8], layers: &Layers, level: Level) -> Verdict {
    check_transport(bytes, layers, level).unwrap_or(Verdict::Unknown)
}

fn check_transport(bytes: &[u8], layers: &Layers, level: Level) -> Option<Verdict> {
    let (network, transport) = (layers.network(level)?, layers.transport(level)?);
    if layers.fragment(level) != Fragment::No {
        return None;
    }
    let (addresses, end) = envelope(bytes, network, layers.after_network(level))?;
    let segment = bytes.get(transport.start()..end)?;
    let length = u32::try_from(segment.len()).ok()?;
    let with_pseudo = |protocol| checksum::pseudo(addresses, protocol, length).bytes(segment);
    Some(match transport.kind {
        LayerKind::Tcp => judge(with_pseudo(IpProtocol::TCP), Tcp::new(segment).ok()?.checksum()),
        LayerKind::Udp => {
            let udp = Udp::new(segment).ok()?;
            match (udp.checksum(), addresses) {
                (0, Addresses::V4 { .. }) => Verdict::Absent,
                // The length of UDP counts, not that of IP.
                _ => {
                    let segment = segment.get(..usize::from(udp.length()))?;
                    let length = u32::from(udp.length());
                    let sum = checksum::pseudo(addresses, IpProtocol::UDP, length).bytes(segment);
                    judge(sum, udp.checksum())
                }
            }
        }
        LayerKind::Icmp => judge(Sum::new().bytes(segment), Icmp::new(segment).ok()?.checksum()),
        LayerKind::Igmp => judge(Sum::new().bytes(segment), Igmp::new(segment).ok()?.checksum()),
        LayerKind::Icmpv6 => {
            judge(with_pseudo(IpProtocol::ICMPV6), Icmpv6::new(segment).ok()?.checksum())
        }
        LayerKind::Sctp => {
            let found = Sctp::new(segment).ok()?.checksum();
            let zeroed = Crc32c::new().bytes(segment.get(..8)?).bytes(&[0; 4]);
            let expected = zeroed.bytes(segment.get(12..)?).finish();
            if found == expected { Verdict::Correct } else { Verdict::Wrong { found, expected } }
        }
        _ => return None,
    })
}

/// Addresses of an IP header and where its packet ends, if its length says so.
fn envelope(bytes: &[u8], network: Layer, after: &[Layer]) -> Option<(Addresses, usize)> {
    let addresses = pseudo_addresses(bytes, network, after)?;
    let here = bytes.get(network.start()..)?;
    let payload = match addresses {
        Addresses::V4 { .. } => Ipv4::new(here).ok()?.payload_length()?,
        Addresses::V6 { .. } => Ipv6::new(here).ok()?.payload_length()?,
    };
    Some((addresses, network.end() + payload))
}

/// The addresses that the pseudo header takes from the IP header `network` of the frame `bytes`
/// and from the layers `after` it. `None` if it is no IP header, or a source route hides its end.
pub fn pseudo_addresses(bytes: &[u8], network: Layer, after: &[Layer]) -> Option<Addresses> {
    let here = bytes.get(network.start()..)?;
    match network.kind {
        LayerKind::Ipv4 => {
            let ip = Ipv4::new(here).ok()?;
            let (source, destination) = (ip.source(), ip.destination());
            Some(Addresses::V4 { source, destination })
        }
        LayerKind::Ipv6 => {
            let ip = Ipv6::new(here).ok()?;
            let (source, mut destination) = (ip.source(), ip.destination());
            // On its way through a source route, a packet is addressed to the next stop.
            let mut own = after.iter().take_while(|layer| !layer.kind.is_network());
            if let Some(layer) = own.find(|layer| layer.kind == LayerKind::Routing) {
                let routing = bytes.get(layer.start()..)?;
                let routing = Ipv6Extension::new(routing, LayerKind::Routing).ok()?;
                destination = final_destination(&routing, destination)?;
            }
            Some(Addresses::V6 { source, destination })
        }
        _ => None,
    }
}

/// The last stop of a source route: the last address of types 0 and 2 (RFC 2460, RFC 6275), the
/// first of type 4 (RFC 8754), whose list is reversed. Others are compressed or experimental.
fn final_destination(routing: &Ipv6Extension<'_>, now: Ipv6Addr) -> Option<Ipv6Addr> {
    let list = routing.body().get(6..)?;
    let address = match routing.routing()? {
        (_, 0) => return Some(now),
        (0 | 2, _) => list.last_chunk::<16>()?,
        (4, _) => list.first_chunk::<16>()?,
        _ => return None,
    };
    Some(Ipv6Addr::from(*address))
}

/// `sum` covers the data with the checksum that was `found` in it.
fn judge(sum: Sum, found: u16) -> Verdict {
    if sum.folded() == 0xffff {
        return Verdict::Correct;
    }
    let expected = sum.add_u16(!found).checksum();
    Verdict::Wrong { found: u32::from(found), expected: u32::from(expected) }
}
