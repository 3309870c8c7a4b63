//! Frames of clients and routers.

use super::{OURS, ROUTER};
use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::{Addresses, Sum, checksum, pseudo};
use ringside_wire::{EtherType, IpProtocol, Port};
use std::net::IpAddr;

pub const SYN: u16 = 0x02;
pub const ACK: u16 = 0x10;

/// An address with a port, as `192.0.2.1 80`.
#[derive(Clone, Copy, Debug)]
pub struct End(pub IpAddr, pub u16);

pub fn end(text: &str) -> End {
    let (address, port) = text.split_once(' ').unwrap();
    End(address.parse().unwrap(), port.parse().unwrap())
}

pub fn addresses(from: IpAddr, to: IpAddr) -> Addresses {
    match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => panic!("{from} to {to}"),
    }
}

/// A frame to the balancer. IPv4 is not to be cut.
pub fn ip(from: IpAddr, to: IpAddr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let payload_bytes = payload.len();
    let ether_type = match addresses(from, to) {
        Addresses::V4 { source, destination } => {
            let mut header = [0; 20];
            let (id, ttl, dont_fragment) = (0x1234, 63, true);
            let fields =
                Ipv4Fields { source, destination, protocol, id, ttl, dont_fragment, payload_bytes };
            build::ipv4(&mut header, &fields).unwrap();
            frame.extend(header);
            EtherType::IPV4
        }
        Addresses::V6 { source, destination } => {
            let mut header = [0; 40];
            let (next_header, flow_label, hop_limit) = (protocol, 0, 63);
            let fields = Ipv6Fields {
                source,
                destination,
                next_header,
                flow_label,
                hop_limit,
                payload_bytes,
            };
            build::ipv6(&mut header, &fields).unwrap();
            frame.extend(header);
            EtherType::IPV6
        }
    };
    build::ethernet(&mut frame, OURS, ROUTER, ether_type).unwrap();
    frame.extend(payload);
    frame
}

pub fn tcp(from: End, to: End, flags: u16, payload_bytes: usize) -> Vec<u8> {
    let mut segment = vec![0x5a; 20 + payload_bytes];
    let fields = TcpFields {
        source: Port(from.1),
        destination: Port(to.1),
        sequence: 7,
        acknowledgment: 8,
        flags,
        window: 9,
    };
    build::tcp(&mut segment, addresses(from.0, to.0), &fields).unwrap();
    ip(from.0, to.0, IpProtocol::TCP, &segment)
}

pub fn udp(from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 8];
    segment.extend(payload);
    build::udp(&mut segment, addresses(from.0, to.0), Port(from.1), Port(to.1)).unwrap();
    ip(from.0, to.0, IpProtocol::UDP, &segment)
}

/// A message of ICMP of the right version.
pub fn icmp(from: IpAddr, to: IpAddr, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest);
    let is_v4 = from.is_ipv4();
    let protocol = if is_v4 { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
    let sum = match is_v4 {
        true => checksum(&message),
        false => {
            let start: Sum = pseudo(addresses(from, to), protocol, message.len() as u32);
            start.bytes(&message).checksum()
        }
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(from, to, protocol, &message)
}

pub fn echo(from: &str, to: &str, payload_bytes: usize) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let kind = if from.is_ipv4() { 8 } else { 128 };
    icmp(from, to, kind, 0, &[&[0, 1, 0, 2][..], &vec![0x33; payload_bytes]].concat())
}

/// An error of a router about a packet that a VIP sent to a client; `quoted` bytes of it.
pub fn error(
    router: &str,
    vip: End,
    client: End,
    kind: u8,
    protocol: IpProtocol,
    quoted: usize,
) -> Vec<u8> {
    let about = match protocol {
        IpProtocol::TCP => tcp(vip, client, ACK, 100),
        _ => udp(vip, client, &[1; 100]),
    };
    let inner = &about[14..(14 + quoted).min(about.len())];
    let mtu = [0, 0, 0x05, 0x00];
    icmp(router.parse().unwrap(), vip.0, kind, 0, &[&mtu, inner].concat())
}

/// A packet in two fragments; the first has `cut` bytes behind the IP header, a multiple of 8.
pub fn fragments(frame: &[u8], id: u32, cut: usize) -> [Vec<u8>; 2] {
    assert!(cut.is_multiple_of(8));
    let is_v4 = frame[12] == 0x08;
    let one = |from: usize, to: usize, is_last: bool| {
        let payload = &frame[if is_v4 { 34 } else { 54 }..][from..to];
        let place = (from / 8) as u16;
        let mut out = frame[..if is_v4 { 34 } else { 54 }].to_vec();
        if is_v4 {
            out[16..18].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
            out[18..20].copy_from_slice(&(id as u16).to_be_bytes());
            let more = if is_last { 0 } else { 0x2000 };
            out[20..22].copy_from_slice(&(place | more).to_be_bytes());
            out[24..26].fill(0);
            let sum = checksum(&out[14..34]);
            out[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            out[18..20].copy_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
            let next = std::mem::replace(&mut out[20], 44);
            out.extend([next, 0]);
            out.extend((place << 3 | u16::from(!is_last)).to_be_bytes());
            out.extend(id.to_be_bytes());
        }
        out.extend(payload);
        out
    };
    let bytes = frame.len() - if is_v4 { 34 } else { 54 };
    [one(0, cut, false), one(cut, bytes, true)]
}

/// Gives an IPv4 frame a header with this many bytes of options.
pub fn with_options(frame: &[u8], option_bytes: usize) -> Vec<u8> {
    let mut out = frame[..34].to_vec();
    out.extend(vec![1; option_bytes]);
    out.extend(&frame[34..]);
    out[14] = 0x45 + (option_bytes / 4) as u8;
    let total = (out.len() - 14) as u16;
    out[16..18].copy_from_slice(&total.to_be_bytes());
    out[24..26].fill(0);
    let sum = checksum(&out[14..34 + option_bytes]);
    out[24..26].copy_from_slice(&sum.to_be_bytes());
    out
}

/// The same frame with another type of service or traffic class.
pub fn with_tos(frame: &[u8], tos: u8) -> Vec<u8> {
    let mut out = frame.to_vec();
    if out[12] == 0x08 {
        out[15] = tos;
        out[24..26].fill(0);
        let sum = checksum(&out[14..34]);
        out[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        out[14] = 0x60 | tos >> 4;
        out[15] = tos << 4 | out[15] & 15;
    }
    out
}

/// The same frame, which routers may cut.
pub fn may_be_cut(frame: &[u8]) -> Vec<u8> {
    let mut out = frame.to_vec();
    out[20] = 0;
    out[24..26].fill(0);
    let sum = checksum(&out[14..34]);
    out[24..26].copy_from_slice(&sum.to_be_bytes());
    out
}

/// The same frame with a VLAN tag.
pub fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat()
}

/// A QUIC packet with a long header.
pub fn quic_long(kind: u8, version: u32, id: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4];
    packet.extend(version.to_be_bytes());
    packet.push(id.len() as u8);
    packet.extend(id);
    packet.extend([0x77; 40]);
    packet
}

/// A QUIC packet with a short header.
pub fn quic_short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[0x77; 30]].concat()
}
