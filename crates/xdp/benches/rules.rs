//! What rules cost inside the driver: nanoseconds a frame, and frames a second of a veth pair whose
//! receiving end judges them on the sender's CPU, with one rule and with 100,000 exact and 10,000
//! wildcard rules of ClassBench's shapes, for conversations that are known and for new ones; and
//! with an address set of a million entries that nothing hits.
//!
//! `cargo bench -p ringside-xdp --bench rules` (as root) prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "../../ebpf/tests/pair/mod.rs"]
mod pair;

use pair::{Pair, ifindex, inside};
use ringside_ebpf::XdpProgram;
use ringside_ebpf::replay::{Replay, Way};
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::Random;
use ringside_testkit::classbench::{FRAME_BYTES, SHAPES, Traffic, frames, rules};
use ringside_xdp::{DriverRules, Options, Target};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::Instant;

const EXACT: u32 = 100_000;
const WILDCARDS: u32 = 10_000;
const FRAMES: usize = 400_000;
/// Test runs of a round, and frames that are sent in one.
const RUNS: u32 = 800_000;
const ROUNDS: usize = 5;
const ENTRIES: usize = 1_000_000;

fn traffic(flows: u64, hit_every: u64) -> Vec<[u8; FRAME_BYTES]> {
    frames(&Traffic { frames: FRAMES, flows, hit_every, exact: EXACT })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The network, and how it stands without rules.
struct Bench {
    pair: Pair,
    /// Nanoseconds of a run of nothing but the replay and a program that drops.
    empty_ns: f64,
}

/// Mean nanoseconds of the program, and million frames a second of the network.
#[derive(Clone, Copy)]
struct Cost {
    ns: f64,
    rate: f64,
}

impl Bench {
    fn new() -> Bench {
        let pair = Pair::new("rules");
        let mut bench = Bench { pair, empty_ns: 0.0 };
        // The sending end needs a program too, or redirected frames vanish.
        let drop = XdpProgram::drop_all().unwrap();
        bench.empty_ns = run(drop.as_fd(), &traffic(10_000, 0));
        bench
    }

    fn measure(&self, set: &RuleSet, list: &[[u8; FRAME_BYTES]]) -> (Cost, f64) {
        let unattached = DriverRules::unattached(set.clone(), &Options::default()).unwrap();
        let ns = run(unattached.program().as_fd(), list) - self.empty_ns;
        let totals = unattached.totals();
        let decided = 1.0 - totals.undecided as f64 / totals.seen() as f64;
        drop(unattached);
        (Cost { ns, rate: self.send(set, list) }, decided)
    }

    fn send(&self, set: &RuleSet, list: &[[u8; FRAME_BYTES]]) -> f64 {
        let (sender, receiver) = (&self.pair.sender, &self.pair.receiver);
        let target = Target { interface: "end", ifindex: ifindex(receiver) };
        let rules = inside(receiver, || {
            let mut rules = DriverRules::open(&target, set.clone(), &Options::default()).unwrap();
            rules.start().unwrap();
            rules
        });
        let out = ifindex(sender);
        let rate = inside(sender, || {
            pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
            let replay = Replay::load(list, Way::Interface(out)).unwrap();
            let round = || {
                let (before, start) = (rules.totals().seen(), Instant::now());
                replay.run_live(RUNS).unwrap();
                let elapsed = start.elapsed();
                (rules.totals().seen() - before) as f64 / elapsed.as_secs_f64() / 1e6
            };
            median((0..=ROUNDS).map(|_| round()).skip(1).collect())
        });
        inside(receiver, || drop(rules));
        rate
    }
}

/// Mean nanoseconds of a program with the replay in front.
fn run(program: std::os::fd::BorrowedFd<'_>, list: &[[u8; FRAME_BYTES]]) -> f64 {
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
    let replay = Replay::load(list, Way::Program(program)).unwrap();
    let round = || f64::from(replay.run(RUNS).unwrap());
    median((0..=ROUNDS).map(|_| round()).skip(1).collect())
}

/// What no rule decides about is dropped too: the host's stack is not what is measured.
fn parse(text: &str, sets: &mut Sets) -> RuleSet {
    language::parse(format!("{text}\ndefault drop\n").as_bytes(), sets).unwrap()
}

fn line(what: &str, flows: &str, hits: &str, (cost, decided): (Cost, f64), one: Cost) {
    let share = 100.0 * cost.rate / one.rate;
    println!(
        "{what:32} {flows:8} {hits:6} {:8.0} {:10.2} {share:8.0} {decided:8.2}",
        cost.ns, cost.rate
    );
}

const FLOWS: [(&str, u64); 2] = [("10,000", 10_000), ("all new", FRAMES as u64)];

fn shapes(bench: &Bench, only: Option<&str>) {
    let one = parse("1: src ip 192.0.2.1 => drop", &mut Sets::none());
    let ones = FLOWS.map(|(_, flows)| bench.measure(&one, &traffic(flows, 0)));
    for ((name, _), one) in FLOWS.into_iter().zip(ones) {
        line("one", name, "none", one, one.0);
    }
    for shape in SHAPES.iter().filter(|shape| only.is_none_or(|only| only == shape.name)) {
        let (text, combinations) = rules(shape, WILDCARDS, EXACT);
        let set = parse(&text, &mut Sets::none());
        let start = Instant::now();
        let rules = DriverRules::unattached(set.clone(), &Options::default()).unwrap();
        let (loaded, bytes) = (start.elapsed(), rules.memory_bytes());
        drop(rules);
        let label = format!("{} 10,000 + 100,000 ({combinations})", shape.name);
        for ((name, flows), one) in FLOWS.into_iter().zip(ones) {
            for (hits, every) in [("none", 0), ("1:256", 256), ("1:1", 1)] {
                line(&label, name, hits, bench.measure(&set, &traffic(flows, every)), one.0);
            }
        }
        let each = bytes as f64 / f64::from(EXACT + WILDCARDS);
        println!("{label:32} loaded in {loaded:.1?}, {bytes} bytes, {each:.0} a rule");
    }
}

/// A set whose addresses are all from 11.0.0.0 to 171.255.255.255, where no frame comes from.
fn sets(bench: &Bench) {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(4);
    let mut list = String::new();
    for _ in 0..ENTRIES {
        let address = 0x0b00_0000 + random.next_u64() as u32 % 0xa100_0000;
        let _ = writeln!(list, "{}", Ipv4Addr::from_bits(address));
    }
    std::fs::write(folder.path().join("large"), &list).unwrap();
    std::fs::write(folder.path().join("small"), "192.0.2.1\n").unwrap();
    let read = |name: &str| {
        let text = format!("1: src ip @{name} => drop");
        parse(&text, &mut Sets::in_folder(folder.path()))
    };
    let (small, large) = (read("small"), read("large"));
    for (name, flows) in FLOWS {
        let mut frames = traffic(flows, 0);
        let mut random = Random::new(6);
        let sources: Vec<u32> =
            (0..flows).map(|_| 0xb000_0000 | random.next_u64() as u32 >> 4).collect();
        for (at, frame) in frames.iter_mut().enumerate() {
            let source = sources[at % sources.len()];
            frame[26..30].copy_from_slice(&source.to_be_bytes());
        }
        let one = bench.measure(&small, &frames);
        line("set of 1", name, "none", one, one.0);
        line("set of 1,000,000", name, "none", bench.measure(&large, &frames), one.0);
    }
}

fn main() {
    let bench = Bench::new();
    println!("replay and drop: {:.0} ns a run", bench.empty_ns);
    println!(
        "rules                            flows    exact  ns/frame  Mframes/s    % of one  decided"
    );
    let only = std::env::var("RINGSIDE_BENCH_SHAPE").ok();
    shapes(&bench, only.as_deref());
    sets(&bench);
}
