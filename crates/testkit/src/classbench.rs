//! Rules and packets like those of real devices, for measurements: filter sets of ClassBench's
//! shapes (Taylor and Turner, "ClassBench: a packet classification benchmark", 2007), as texts of
//! Ringside's rule language, and frames that have to do with them. Always the same.

use crate::Random;
use std::collections::HashSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How the rules of a kind of device look: prefix lengths by frequency, and of ten rules how many
/// leave the ports open.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    sources: &'static [u8],
    destinations: &'static [u8],
    open_source_ports: usize,
    open_destination_ports: usize,
}

/// Access lists, firewalls, and chains of IP filters.
pub const SHAPES: [Shape; 3] = [
    Shape {
        name: "acl",
        sources: &[0, 0, 8, 16, 18, 20, 21, 22, 24, 25, 26, 27, 28, 30, 32, 32, 32],
        destinations: &[16, 18, 20, 21, 22, 23, 24, 24, 26, 27, 28, 29, 30, 31, 32, 32, 32],
        open_source_ports: 9,
        open_destination_ports: 1,
    },
    Shape {
        name: "fw",
        sources: &[0, 0, 0, 0, 0, 8, 14, 16, 20, 21, 24, 24, 28, 30, 32, 32],
        destinations: &[0, 0, 0, 0, 12, 16, 17, 20, 22, 24, 24, 27, 28, 30, 32, 32],
        open_source_ports: 6,
        open_destination_ports: 4,
    },
    Shape {
        name: "ipc",
        sources: &[0, 0, 12, 16, 19, 20, 22, 23, 24, 24, 26, 27, 29, 30, 32, 32],
        destinations: &[0, 0, 8, 14, 16, 18, 21, 24, 24, 25, 28, 29, 30, 32, 32],
        open_source_ports: 6,
        open_destination_ports: 4,
    },
];

/// One in this number of rules and conversations is of IPv6, with prefixes four times as long.
const V6_ONE_IN: usize = 8;
/// Bytes of a frame: Ethernet, IPv6 and TCP, and a little more.
pub const FRAME_BYTES: usize = 80;

/// Addresses that rules and frames have in common.
fn addresses() -> Vec<u32> {
    let mut random = Random::new(7);
    (0..3000).map(|_| random.next_u64() as u32).collect()
}

/// An address of IPv6 whose first 96 bits follow from a number, and its last 32 too.
fn v6(number: u32) -> u128 {
    let high = u128::from(number) << 96 | u128::from(number.rotate_left(8)) << 64;
    0x2000 << 112 | high >> 4 | u128::from(number)
}

fn one_of<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len())]
}

/// Rules as text, and how many different combinations of fields and lengths they have. Wildcard
/// rules come behind the exact ones by their numbers, and are judged after them in any case.
pub fn rules(shape: &Shape, wildcards: u32, exact: u32) -> (String, usize) {
    let mut random = Random::new(8);
    let pool = addresses();
    let mut text = String::new();
    let mut combinations = HashSet::new();
    for id in 0..wildcards {
        let _ = write!(text, "{}: ", 1_000_000 + id);
        let is_v6 = random.below(V6_ONE_IN) == 0;
        let lengths = [one_of(&mut random, shape.sources), one_of(&mut random, shape.destinations)];
        for (side, length) in ["src", "dst"].into_iter().zip(lengths) {
            let number = one_of(&mut random, &pool);
            // One in a hundred says what is not meant.
            let not = if random.below(100) == 0 && length > 8 { "not " } else { "" };
            if length > 0 {
                let _ = write!(text, "{not}{side} ip {} ", prefix(number, length, is_v6));
            }
        }
        let from = ports(&mut random, shape.open_source_ports, &mut text, "src");
        let to = ports(&mut random, shape.open_destination_ports, &mut text, "dst");
        let protocol = one_of(&mut random, &["tcp", "tcp", "tcp", "udp", "udp", "any"]);
        combinations.insert((is_v6, lengths, from, to, protocol));
        let version = if is_v6 { "ip6" } else { "ip4" };
        let _ = writeln!(text, "{version} {protocol} => drop");
    }
    for id in 0..exact {
        let _ = writeln!(
            text,
            "{id}: src ip {} dst ip 10.9.8.7 udp src port {} dst port 53 => drop",
            Ipv4Addr::from_bits(EXACT_SOURCES | id),
            exact_port(id),
        );
    }
    (text, combinations.len())
}

/// Sources of exact rules: 100.0.0.0 and up.
const EXACT_SOURCES: u32 = 0x6400_0000;

fn exact_port(id: u32) -> u16 {
    (1024 + id % 60_000) as u16
}

fn prefix(number: u32, length: u8, is_v6: bool) -> String {
    if is_v6 {
        let length = 4 * u32::from(length);
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        return format!("{}/{length}", Ipv6Addr::from_bits(v6(number) & mask));
    }
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    format!("{}/{length}", Ipv4Addr::from_bits(number & mask))
}

/// A port list, and its kind for the count of combinations.
fn ports(random: &mut Random, open: usize, text: &mut String, side: &str) -> &'static str {
    match random.below(10) {
        roll if roll < open => "any",
        9 => {
            let first = random.below(60_000);
            let _ = write!(text, "{side} port {first}-{} ", first + random.below(2000));
            "range"
        }
        8 => {
            let _ = write!(text, "{side} port 1024- ");
            "high"
        }
        _ => {
            let port = one_of(random, &[80, 443, 53, 25, 22, 1433, 3306, 8080, 5060, 123]);
            let _ = write!(text, "{side} port {port} ");
            "exact"
        }
    }
}

/// What packets of the frames are asked to be.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Number of frames.
    pub frames: usize,
    /// Conversations; as many as frames: each is new.
    pub flows: u64,
    /// One in this number of frames is for an exact rule; 0: none is.
    pub hit_every: u64,
    /// Exact rules that there are.
    pub exact: u32,
}

#[derive(Clone, Copy)]
struct Conversation {
    source: u32,
    destination: u32,
    ports: [u16; 2],
    protocol: u8,
    is_v6: bool,
}

/// Frames: some for an exact rule, the others of conversations with addresses that rules know, and
/// others.
pub fn frames(traffic: &Traffic) -> Vec<[u8; FRAME_BYTES]> {
    let mut random = Random::new(99);
    let pool = addresses();
    let conversation = |random: &mut Random| {
        let address = |random: &mut Random| match random.below(2) {
            0 => one_of(random, &pool) ^ random.below(256) as u32,
            _ => random.next_u64() as u32,
        };
        Conversation {
            source: address(random),
            destination: address(random),
            ports: [random.next_u64() as u16, one_of(random, &[80, 443, 53, 4711])],
            protocol: one_of(random, &[6u8, 17]),
            is_v6: random.below(V6_ONE_IN) == 0,
        }
    };
    let known: Vec<_> = (0..traffic.flows).map(|_| conversation(&mut random)).collect();
    let frame = |n: usize| match n as u64 {
        n if traffic.hit_every > 0 && n.is_multiple_of(traffic.hit_every) => {
            let id = (n / traffic.hit_every % traffic.flows.min(traffic.exact.into())) as u32;
            bytes(Conversation {
                source: EXACT_SOURCES | id,
                destination: 0x0a09_0807,
                ports: [exact_port(id), 53],
                protocol: 17,
                is_v6: false,
            })
        }
        n => bytes(known[(n % traffic.flows) as usize]),
    };
    (0..traffic.frames).map(frame).collect()
}

fn bytes(conversation: Conversation) -> [u8; FRAME_BYTES] {
    let Conversation { source, destination, ports, protocol, is_v6 } = conversation;
    let mut packet = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    if is_v6 {
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 26, protocol, 64]);
        packet.extend(v6(source).to_be_bytes());
        packet.extend(v6(destination).to_be_bytes());
    } else {
        packet.extend([8, 0, 0x45, 0, 0, 66, 0, 1, 0, 0, 64, protocol, 0, 0]);
        packet.extend(source.to_be_bytes());
        packet.extend(destination.to_be_bytes());
    }
    packet.extend(ports[0].to_be_bytes());
    packet.extend(ports[1].to_be_bytes());
    packet.extend(match protocol {
        6 => [0, 0, 0, 0, 0, 0, 0, 0, 0x50],
        _ => [0, 26, 0, 0, 0, 0, 0, 0, 0],
    });
    let mut frame = [0; FRAME_BYTES];
    frame[..packet.len()].copy_from_slice(&packet);
    frame
}
