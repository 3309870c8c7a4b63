//! What is to become of a frame that comes in by `in0` of the testbed, written a second time.

use crate::testbed::{IN_MAC, MACS};
use ringside_ebpf::route::Cause;
use ringside_wire::checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Index of an interface in `testbed::INTERFACES`.
type Interface = usize;

/// What a frame is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub cause: Cause,
    /// Of what is forwarded: each way that will do, with its interface, next hop and frame.
    pub ways: Vec<(Interface, IpAddr, Vec<u8>)>,
}

impl Decision {
    fn pass(cause: Cause) -> Decision {
        Decision { cause, ways: Vec::new() }
    }
}

/// How packets of IPv4 are to be checked that come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// rp_filter = 1.
    pub is_strict: bool,
    /// rp_filter = 2.
    pub is_loose: bool,
}

/// A packet whose headers are right.
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    bytes: usize,
}

/// Decides about a frame.
pub fn decide(frame: &[u8], settings: Settings) -> Decision {
    let packet = match read(frame) {
        Ok(packet) => packet,
        Err(cause) => return Decision::pass(cause),
    };
    if let (IpAddr::V4(source), true) = (packet.source, settings.is_strict || settings.is_loose) {
        // The way back, of a packet that goes the other way.
        let back = match route(packet.destination, source.into()) {
            Target::Hops(hops) => hops.iter().all(|hop| hop.0 == 0) || settings.is_loose,
            Target::Cause(_) => false,
        };
        if !back {
            return Decision::pass(Cause::ReversePath);
        }
    }
    let hops = match route(packet.source, packet.destination) {
        Target::Cause(cause) => return Decision::pass(cause),
        Target::Hops(hops) => hops,
    };
    let mut ways = Vec::new();
    for (interface, hop) in hops {
        if packet.bytes > mtu(packet.destination) {
            return Decision::pass(Cause::TooLong);
        }
        let Some(mac) = neighbour(hop) else { return Decision::pass(Cause::NoNeighbour) };
        match interface {
            0 => return Decision::pass(Cause::SameInterface),
            3 => return Decision::pass(Cause::NotMember),
            _ => ways.push((interface, hop, forwarded(frame, mac, MACS[interface]))),
        }
    }
    Decision { cause: Cause::Forwarded, ways }
}

fn read(frame: &[u8]) -> Result<Packet, Cause> {
    if frame[0] & 1 == 1 {
        return Err(Cause::Group);
    }
    if frame[..6] != IN_MAC {
        return Err(Cause::Foreign);
    }
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 => read_ipv4(&frame[14..]),
        0x86dd => read_ipv6(&frame[14..]),
        0x8100 | 0x88a8 | 0x9100 => Err(Cause::Tagged),
        _ => Err(Cause::NotIp),
    }
}

/// A packet may be followed by what makes the frame 60 bytes long.
fn has_right_length(bytes: usize, there: usize) -> bool {
    bytes == there || bytes < there && there <= 46
}

fn read_ipv4(ip: &[u8]) -> Result<Packet, Cause> {
    if ip.len() < 20 || ip[0] >> 4 != 4 || ip[0] & 15 < 5 {
        return Err(Cause::Malformed);
    }
    if ip[0] != 0x45 {
        return Err(Cause::Options);
    }
    let bytes = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if bytes < 20 || !has_right_length(bytes, ip.len()) || checksum::checksum(&ip[..20]) != 0 {
        return Err(Cause::Malformed);
    }
    let [source, destination] =
        [12, 16].map(|at| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]));
    let is_bad = |one: Ipv4Addr| {
        one.is_unspecified() || one.is_loopback() || one.is_multicast() || one.is_broadcast()
    };
    if is_bad(source) || is_bad(destination) {
        return Err(Cause::Addresses);
    }
    if ip[8] < 2 {
        return Err(Cause::HopLimit);
    }
    let is_later_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
    if ip[9] == 1 && !is_later_fragment && bytes > 20 && [3, 4, 5, 11, 12].contains(&ip[20]) {
        return Err(Cause::IcmpError);
    }
    Ok(Packet { source: source.into(), destination: destination.into(), bytes })
}

fn read_ipv6(ip: &[u8]) -> Result<Packet, Cause> {
    if ip.len() < 40 || ip[0] >> 4 != 6 {
        return Err(Cause::Malformed);
    }
    if [0, 43, 44, 60, 135, 139, 140].contains(&ip[6]) {
        return Err(Cause::Extensions);
    }
    let bytes = 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    if !has_right_length(bytes, ip.len()) {
        return Err(Cause::Malformed);
    }
    let [source, destination] =
        [8, 24].map(|at| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
    let is_bad = |one: Ipv6Addr| {
        one.is_unspecified()
            || one.is_loopback()
            || one.is_multicast()
            || one.is_unicast_link_local()
            || one.to_ipv4_mapped().is_some()
    };
    if is_bad(source) || is_bad(destination) {
        return Err(Cause::Addresses);
    }
    if ip[7] < 2 {
        return Err(Cause::HopLimit);
    }
    if ip[6] == 58 && bytes > 40 && ip[40] < 128 {
        return Err(Cause::IcmpError);
    }
    Ok(Packet { source: source.into(), destination: destination.into(), bytes })
}

enum Target {
    Cause(Cause),
    Hops(Vec<(Interface, IpAddr)>),
}

/// The longest prefix of the testbed's tables.
fn route(source: IpAddr, destination: IpAddr) -> Target {
    let hop = |interface: Interface, address: &str| {
        Target::Hops(vec![(interface, address.parse().unwrap())])
    };
    let either =
        |a: &str, b: &str| Target::Hops(vec![(1, a.parse().unwrap()), (2, b.parse().unwrap())]);
    match destination {
        IpAddr::V4(to) => match to.octets() {
            [198, 18, ..] if source == IpAddr::from([10, 1, 0, 77]) => hop(2, "10.3.0.2"),
            [198, 18, ..] | [203, 0, 113, _] => hop(1, "10.2.0.2"),
            [198, 19, ..] => either("10.2.0.2", "10.3.0.2"),
            [198, 20, ..] => hop(1, "fd02::2"),
            [198, 51, 100, _] => Target::Cause(Cause::Blackhole),
            [198, 51, 101, _] => Target::Cause(Cause::Unreachable),
            [198, 51, 102, _] => Target::Cause(Cause::Prohibited),
            [192, 0, 2, _] => hop(1, "10.2.0.9"),
            [100, 64..=127, ..] => hop(3, "10.4.0.2"),
            // The router's own, and the broadcast of the network.
            [10, 1..=4, 0, 1 | 255] => Target::Cause(Cause::Host),
            [10, number @ 1..=4, 0, _] => Target::Hops(vec![(usize::from(number) - 1, to.into())]),
            _ => Target::Cause(Cause::Host),
        },
        IpAddr::V6(to) => match to.segments() {
            [0x2001, 0xdb8, 1, ..] if source == "fd01::77".parse::<IpAddr>().unwrap() => {
                hop(2, "fd03::2")
            }
            [0x2001, 0xdb8, 1 | 6, ..] => hop(1, "fd02::2"),
            [0x2001, 0xdb8, 2, ..] => either("fd02::2", "fd03::2"),
            [0x2001, 0xdb8, 3, ..] => Target::Cause(Cause::Blackhole),
            [0x2001, 0xdb8, 4, ..] => Target::Cause(Cause::Unreachable),
            [0x2001, 0xdb8, 5, ..] => Target::Cause(Cause::Prohibited),
            [0x2001, 0xdb8, 7, ..] => hop(1, "fd02::9"),
            [0x2001, 0xdb8, 8, ..] => hop(3, "fd04::2"),
            // The router's own, and the anycast address of the network's routers.
            [0xfd01..=0xfd04, 0, 0, 0, 0, 0, 0, 0 | 1] => Target::Cause(Cause::Host),
            [number @ 0xfd01..=0xfd04, 0, 0, 0, ..] => {
                Target::Hops(vec![(usize::from(number) - 0xfd01, to.into())])
            }
            _ => Target::Cause(Cause::Host),
        },
    }
}

/// Longest packet on the way to an address.
fn mtu(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(to) if to.octets()[..3] == [203, 0, 113] => 600,
        IpAddr::V6(to) if to.segments()[..3] == [0x2001, 0xdb8, 6] => 1280,
        _ => 1500,
    }
}

fn neighbour(hop: IpAddr) -> Option<[u8; 6]> {
    let (network, host) = match hop {
        IpAddr::V4(hop) => (hop.octets()[1], u16::from(hop.octets()[3])),
        IpAddr::V6(hop) if hop.segments()[4..7] == [0, 0, 0] => {
            (hop.segments()[0] as u8, hop.segments()[7])
        }
        IpAddr::V6(_) => return None,
    };
    let is_known = network <= 4 && (host == 2 || host == 5);
    is_known.then_some([2, 0, 0, 0, network, host as u8])
}

/// The frame with one hop less, to its next one.
fn forwarded(frame: &[u8], to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    if frame[12..14] == [0x86, 0xdd] {
        frame[21] -= 1;
        return frame;
    }
    frame[22] -= 1;
    frame[24..26].fill(0);
    let sum = checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}
