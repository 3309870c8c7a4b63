//! Frames for the testbed.

use crate::testbed::IN_MAC;
use ringside_testkit::Random;
use ringside_wire::checksum;
use std::net::IpAddr;

/// A frame to `in0`, with an Ethernet type.
pub fn ethernet(to: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 0, 1, 2]);
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A packet from `source` to `destination`, of that protocol.
pub fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [source, destination]: [IpAddr; 2] =
        [source, destination].map(|address| address.parse().unwrap());
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = (20 + payload.len()) as u16;
            let mut ip = vec![0x45, 0];
            ip.extend(length.to_be_bytes());
            ip.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            ip.extend(payload);
            fix(&mut ip);
            ip
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut ip = vec![0x60, 0, 0, 1];
            ip.extend((payload.len() as u16).to_be_bytes());
            ip.extend([protocol, 64]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            ip.extend(payload);
            ip
        }
        _ => panic!("{source} and {destination}"),
    }
}

/// Puts the checksum of IPv4 right.
pub fn fix(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let header_bytes = usize::from(ip[0] & 15) * 4;
    let sum = checksum::checksum(&ip[..header_bytes]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Bytes of UDP with these ports and a payload. Without a checksum: IPv4 allows that.
pub fn udp(ports: (u16, u16), payload_bytes: usize) -> Vec<u8> {
    let mut udp = ports.0.to_be_bytes().to_vec();
    udp.extend(ports.1.to_be_bytes());
    udp.extend(((8 + payload_bytes) as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend((0..payload_bytes).map(|at| at as u8));
    udp
}

/// A frame to `in0` with UDP from port 1000 to 2000.
pub fn plain(source: &str, destination: &str) -> Vec<u8> {
    framed(packet(source, destination, 17, &udp((1000, 2000), 40)))
}

/// A frame to `in0` around a packet.
pub fn framed(ip: Vec<u8>) -> Vec<u8> {
    let ether_type = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    ethernet(IN_MAC, ether_type, &ip)
}

/// A frame around a packet that was changed; IPv4 has the right checksum.
pub fn changed(mut ip: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut ip);
    if ip[0] >> 4 == 4 {
        fix(&mut ip);
    }
    framed(ip)
}

/// Sources of the testbed's packets, some of which may not be forwarded.
const SOURCES_V4: [&str; 5] = ["10.1.0.2", "10.1.0.77", "203.0.113.9", "198.18.7.7", "10.1.0.5"];
const SOURCES_V6: [&str; 4] = ["fd01::2", "fd01::77", "2001:db8:1::9", "fd01::5"];

/// Destinations of each kind.
const TO_V4: [&str; 14] = [
    "198.18.0.1",
    "198.18.44.3",
    "198.19.0.1",
    "198.19.3.9",
    "198.20.0.1",
    "198.51.100.1",
    "198.51.101.1",
    "198.51.102.1",
    "203.0.113.5",
    "100.64.3.3",
    "10.2.0.2",
    "10.3.0.5",
    "10.1.0.5",
    "10.2.0.1",
];
const TO_V6: [&str; 11] = [
    "2001:db8:1::1",
    "2001:db8:2::1",
    "2001:db8:2::77",
    "2001:db8:3::1",
    "2001:db8:4::1",
    "2001:db8:5::1",
    "2001:db8:6::1",
    "2001:db8:8::1",
    "fd02::2",
    "fd03::5",
    "fd01::5",
];

/// A frame of some kind: most are right, some have what only the host may handle. The kernel may
/// get it too: no answer depends on time.
pub fn any(random: &mut Random) -> Vec<u8> {
    let of = |random: &mut Random, list: &[&'static str]| list[random.below(list.len())];
    let is_v4 = random.below(5) < 3;
    let (source, destination) = match is_v4 {
        true => (of(random, &SOURCES_V4), of(random, &TO_V4)),
        false => (of(random, &SOURCES_V6), of(random, &TO_V6)),
    };
    let bytes = [0, 6, 40, 500, 700, 1400][random.below(6)];
    let ports = (random.next_u64() as u16, 1 + random.below(9) as u16);
    let protocol = [6, 17, 17, 17, 47, 50, 132][random.below(7)];
    let mut ip = packet(source, destination, protocol, &udp(ports, bytes));
    let (hops_at, class_at) = if is_v4 { (8, 1) } else { (7, 1) };
    match random.below(12) {
        0 => ip[hops_at] = random.below(4) as u8,
        1 if is_v4 => ip[class_at] = random.next_u64() as u8,
        2 if is_v4 => ip[6] = 0x20 | (random.below(2) as u8) << 4,
        3 if is_v4 => (ip[6], ip[7]) = (0, 1 + random.below(50) as u8),
        _ => {}
    }
    if is_v4 {
        // Only frames without "don't fragment" are cut on the way.
        if random.below(3) == 0 {
            ip[6] &= !0x40;
        }
        fix(&mut ip);
    }
    let mut frame = framed(ip);
    match random.below(40) {
        0 => frame[..6].fill(0xff),
        1 => frame[5] ^= 0x40,
        2 => frame[0] = 1,
        3 => frame.resize(frame.len().max(60), 0),
        _ => {}
    }
    frame
}
