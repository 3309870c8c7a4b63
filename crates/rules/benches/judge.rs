//! What judging a frame costs in user space, dissection with it: nanoseconds a frame with one rule
//! and with 100,000 exact and 10,000 wildcard rules of ClassBench's shapes (Taylor and Turner, "A
//! packet classification benchmark", 2007), for conversations that are known and for new ones.
//!
//! `cargo bench -p ringside-rules --bench judge` prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_rules::engine::Engine;
use ringside_rules::language::{self, Sets};
use ringside_rules::sight::Sight;
use std::collections::HashSet;
use std::fmt::Write;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

const EXACT: u32 = 100_000;
const WILDCARDS: u32 = 10_000;
const FRAMES: usize = 400_000;
const ROUNDS: usize = 5;

/// Repeatable numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 32) % end
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// How the rules of a kind of device look: prefix lengths by frequency, and of ten rules how many
/// leave the ports open.
struct Shape {
    name: &'static str,
    sources: &'static [u8],
    destinations: &'static [u8],
    open_source_ports: u64,
    open_destination_ports: u64,
}

const SHAPES: [Shape; 3] = [
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

/// Addresses that rules and frames have in common.
fn addresses(random: &mut Random) -> Vec<u32> {
    (0..3000).map(|_| random.next() as u32).collect()
}

/// A port list, and its kind for the count of combinations.
fn ports(random: &mut Random, open: u64, text: &mut String, side: &str) -> &'static str {
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
            let port = random.one_of(&[80, 443, 53, 25, 22, 1433, 3306, 8080, 5060, 123]);
            let _ = write!(text, "{side} port {port} ");
            "exact"
        }
    }
}

/// The rules as text, and how many different combinations of fields and lengths they have.
fn rules(shape: &Shape, wildcards: u32, exact: u32) -> (String, usize) {
    let mut random = Random(7);
    let pool = addresses(&mut random);
    let mut text = String::new();
    let mut combinations = HashSet::new();
    for id in 0..wildcards {
        let _ = write!(text, "{}: ", 1_000_000 + id);
        let lengths = [random.one_of(shape.sources), random.one_of(shape.destinations)];
        for (side, length) in ["src", "dst"].into_iter().zip(lengths) {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let prefix = Ipv4Addr::from_bits(random.one_of(&pool) & mask);
            // One in a hundred says what is not meant.
            let not = if random.below(100) == 0 && length > 8 { "not " } else { "" };
            if length > 0 {
                let _ = write!(text, "{not}{side} ip {prefix}/{length} ");
            }
        }
        let from = ports(&mut random, shape.open_source_ports, &mut text, "src");
        let to = ports(&mut random, shape.open_destination_ports, &mut text, "dst");
        let protocol = random.one_of(&["tcp", "tcp", "tcp", "udp", "udp", "ip4"]);
        combinations.insert((lengths, from, to, protocol));
        let _ = writeln!(text, "{protocol} => drop");
    }
    for id in 0..exact {
        let (source, destination) = (Ipv4Addr::from_bits(0x6400_0000 | id), "10.9.8.7");
        let _ = writeln!(
            text,
            "{id}: src ip {source} dst ip {destination} udp src port {} dst port 53 => drop",
            1024 + id % 60_000
        );
    }
    (text, combinations.len())
}

/// Frames of 60 bytes: one in `hit_every` for an exact rule, the others of `flows` conversations
/// with addresses that rules know and others.
fn frames(flows: u64, hit_every: u64) -> Vec<[u8; 60]> {
    let mut random = Random(99);
    let pool = addresses(&mut Random(7));
    let conversation = |random: &mut Random| {
        let address = |random: &mut Random| match random.below(2) {
            0 => random.one_of(&pool) ^ random.below(256) as u32,
            _ => random.next() as u32,
        };
        let ports = [random.next() as u16, random.one_of(&[80, 443, 53, 4711])];
        (address(random), address(random), ports, random.one_of(&[6u8, 17]))
    };
    let known: Vec<_> = (0..flows).map(|_| conversation(&mut random)).collect();
    let frame = |n: usize| {
        let (source, destination, ports, protocol) = match n as u64 {
            n if hit_every > 0 && n % hit_every == 0 => {
                let id = (n % flows.min(EXACT.into())) as u32;
                let ports = [(1024 + id % 60_000) as u16, 53];
                (0x6400_0000 | id, 0x0a09_0807, ports, 17)
            }
            n => known[(n % flows) as usize],
        };
        let mut frame = [0; 60];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 1, 0, 0, 64, protocol]);
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        frame[30..34].copy_from_slice(&destination.to_be_bytes());
        frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
        frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
        let transport: [u8; 9] = if protocol == 6 {
            [0, 0, 0, 0, 0, 0, 0, 0, 0x50]
        } else {
            [0, 26, 0, 0, 0, 0, 0, 0, 0]
        };
        frame[38..47].copy_from_slice(&transport);
        frame
    };
    (0..FRAMES).map(frame).collect()
}

fn engine(text: &str) -> Engine {
    let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    Engine::new(set, LinkType::ETHERNET, &Compiler::InProcess { optimise: true }).unwrap()
}

/// Nanoseconds a frame, the median of the rounds behind the first; and the share that rules
/// decided about.
fn measure(text: &str, frames: &[[u8; 60]]) -> (f64, f64) {
    let mut engine = engine(text);
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for bytes in frames {
                black_box(engine.judge(&Sight::new(bytes, 60, LinkType::ETHERNET)));
            }
            start.elapsed().as_nanos() as f64 / frames.len() as f64
        })
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (_, undecided) = engine.default_counts();
    let all = ((ROUNDS + 1) * frames.len()) as f64;
    (rounds[rounds.len() / 2], 1.0 - undecided.frames as f64 / all)
}

fn main() {
    println!("rules                            flows    exact hits  ns/frame  decided");
    let one = "1: src ip 192.0.2.1 => drop";
    for (name, flows) in [("10,000", 10_000), ("all new", FRAMES as u64)] {
        let (ns, decided) = measure(one, &frames(flows, 0));
        println!("one                              {name:8} none        {ns:8.0}  {decided:.2}");
    }
    for shape in &SHAPES {
        let start = Instant::now();
        let (text, combinations) = rules(shape, WILDCARDS, EXACT);
        drop(engine(&text));
        let built = start.elapsed();
        let label = format!("{} 10,000 + 100,000 ({combinations})", shape.name);
        for (name, flows) in [("10,000", 10_000), ("all new", FRAMES as u64)] {
            for (hits, every) in [("none", 0), ("1:256", 256), ("1:1", 1)] {
                let (ns, decided) = measure(&text, &frames(flows, every));
                println!("{label:32} {name:8} {hits:10}  {ns:8.0}  {decided:.2}");
            }
        }
        println!("{label:32} loaded in {built:.1?}");
    }
}
