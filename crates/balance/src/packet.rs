//! What a balancer reads of a frame.
//!
//! Everything is checked against the lengths that the headers give and against the frame's end.
//! What cannot be read is none of the balancer's and goes to the host: tags, extension headers
//! other than that of fragments, protocols other than TCP, UDP and ICMP, headers that are cut.

use crate::flows::FlowKey;

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const IPV6_FRAGMENT: u8 = 44;
pub(crate) const ICMPV6: u8 = 58;

/// Whether a packet is a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// It is whole.
    No,
    /// The first, with the transport header, and the number of the packet.
    First(u32),
    /// Another one.
    Later(u32),
}

/// An IP packet in an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// 4 or 6.
    pub version: u8,
    /// Words of the addresses, as [`crate::hash::address_words`] makes them.
    pub source: [u64; 2],
    /// See `source`.
    pub destination: [u64; 2],
    /// Protocol above IP, and above a fragment header.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// From its first byte to its last, without the padding of a frame.
    pub bytes: usize,
    /// Where what `protocol` says begins, from the frame's start.
    pub transport_at: usize,
    /// Whether it is a part.
    pub fragment: Fragment,
    /// No router may cut it; always so over IPv6.
    pub dont_fragment: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Words of the IPv4 address at `at`.
fn v4_at(bytes: &[u8], at: usize) -> Option<[u64; 2]> {
    Some([0, 0xffff_0000_0000 | u64::from(u32_at(bytes, at)?)])
}

/// Words of the IPv6 address at `at`.
fn v6_at(bytes: &[u8], at: usize) -> Option<[u64; 2]> {
    Some([u64_at(bytes, at)?, u64_at(bytes, at + 8)?])
}

impl Packet {
    /// The packet of a frame; none if it cannot be read.
    pub fn read(frame: &[u8]) -> Option<Packet> {
        match u16_at(frame, 12)? {
            0x0800 => Packet::v4(frame),
            0x86dd => Packet::v6(frame),
            _ => None,
        }
    }

    fn v4(frame: &[u8]) -> Option<Packet> {
        let ip = frame.get(ETHERNET_BYTES..)?;
        let header_bytes = usize::from(ip.first()? & 15) * 4;
        let bytes = usize::from(u16_at(ip, 2)?);
        if ip[0] >> 4 != 4 || header_bytes < 20 || bytes < header_bytes || bytes > ip.len() {
            return None;
        }
        let (id, flags) = (u16_at(ip, 4)?.into(), u16_at(ip, 6)?);
        let fragment = match (flags & 0x1fff, flags & 0x2000) {
            (0, 0) => Fragment::No,
            (0, _) => Fragment::First(id),
            _ => Fragment::Later(id),
        };
        Some(Packet {
            version: 4,
            source: v4_at(ip, 12)?,
            destination: v4_at(ip, 16)?,
            protocol: ip[9],
            tos: ip[1],
            bytes,
            transport_at: ETHERNET_BYTES + header_bytes,
            fragment,
            dont_fragment: flags & 0x4000 != 0,
        })
    }

    fn v6(frame: &[u8]) -> Option<Packet> {
        let ip = frame.get(ETHERNET_BYTES..)?;
        let bytes = usize::from(u16_at(ip, 4)?) + 40;
        if ip[0] >> 4 != 6 || bytes > ip.len() {
            return None;
        }
        let mut packet = Packet {
            version: 6,
            source: v6_at(ip, 8)?,
            destination: v6_at(ip, 24)?,
            protocol: ip[6],
            tos: (u16_at(ip, 0)? >> 4) as u8,
            bytes,
            transport_at: ETHERNET_BYTES + 40,
            fragment: Fragment::No,
            dont_fragment: true,
        };
        if packet.protocol == IPV6_FRAGMENT {
            if bytes < 48 {
                return None;
            }
            let (place, id) = (u16_at(ip, 42)?, u32_at(ip, 44)?);
            packet.protocol = ip[40];
            packet.transport_at += 8;
            packet.fragment = match (place & 0xfff8, place & 1) {
                (0, 0) => Fragment::No,
                (0, _) => Fragment::First(id),
                _ => Fragment::Later(id),
            };
        }
        Some(packet)
    }

    /// What follows the IP header, up to the packet's end.
    pub fn transport<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        frame.get(self.transport_at..ETHERNET_BYTES + self.bytes).unwrap_or_default()
    }

    /// The flow of a TCP or UDP packet, of which at least the whole header must be there.
    pub fn flow(&self, frame: &[u8]) -> Option<FlowKey> {
        let transport = self.transport(frame);
        let header_bytes = match self.protocol {
            TCP => 20,
            UDP => 8,
            _ => return None,
        };
        transport.get(..header_bytes)?;
        let (source, destination) = (u16_at(transport, 0)?, u16_at(transport, 2)?);
        Some(self.key(FlowKey::rest_of(self.protocol, source, destination)))
    }

    /// The key of a fragment of a packet with this number.
    pub fn fragments(&self, id: u32) -> FlowKey {
        self.key(FlowKey::rest_of_fragments(self.protocol, id))
    }

    fn key(&self, rest: u64) -> FlowKey {
        FlowKey { source: self.source, destination: self.destination, rest }
    }

    /// True for a packet of TCP that asks for a connection.
    pub fn is_syn(&self, frame: &[u8]) -> bool {
        const SYN_AND_ACK: u8 = 0x12;
        const SYN: u8 = 0x02;
        self.transport(frame).get(13).is_some_and(|flags| flags & SYN_AND_ACK == SYN)
    }

    /// True for a message of ICMP about a packet that could not be delivered.
    pub fn is_icmp_error(&self, frame: &[u8]) -> bool {
        let Some(kind) = self.transport(frame).first() else { return false };
        match self.version {
            4 => [3, 11, 12].contains(kind),
            _ => (1..=4).contains(kind),
        }
    }

    /// Of an error, the flow whose real sent the packet that it is about, seen from the client:
    /// that packet's source is the VIP. None if it says too little, or was not sent by the address
    /// that the error goes to.
    pub fn flow_of_error(&self, frame: &[u8]) -> Option<FlowKey> {
        let inner = self.transport(frame).get(8..)?;
        let (from, to, protocol, ports_at) = match self.version {
            4 => {
                let header_bytes = usize::from(inner.first()? & 15) * 4;
                let is_later = u16_at(inner, 6)? & 0x1fff != 0;
                if inner[0] >> 4 != 4 || header_bytes < 20 || is_later {
                    return None;
                }
                (v4_at(inner, 12)?, v4_at(inner, 16)?, *inner.get(9)?, header_bytes)
            }
            _ => {
                if inner.first()? >> 4 != 6 {
                    return None;
                }
                (v6_at(inner, 8)?, v6_at(inner, 24)?, *inner.get(6)?, 40)
            }
        };
        let (source, destination) = (u16_at(inner, ports_at)?, u16_at(inner, ports_at + 2)?);
        if from != self.destination || ![TCP, UDP].contains(&protocol) {
            return None;
        }
        let rest = FlowKey::rest_of(protocol, destination, source);
        Some(FlowKey { source: to, destination: from, rest })
    }
}
