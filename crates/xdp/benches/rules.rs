//! What rules cost inside the driver: nanoseconds a frame, and frames a second of a veth pair whose
//! receiving end judges them on the sender's CPU, with one rule and with 100,000 exact and 10,000
//! wildcard rules of ClassBench's shapes, for conversations that are known and for new ones; and
//! with an address set of a million entries that nothing hits. And what the fast path takes of a
//! flood, next to the general program.
//!
//! `cargo bench -p ringside-xdp --bench rules` (as root) prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "../../ebpf/tests/all/pair/mod.rs"]
mod pair;

use pair::{Pair, ifindex, inside};
use ringside_ebpf::XdpProgram;
use ringside_ebpf::replay::{Replay, Way};
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::Random;
use ringside_testkit::classbench::{FRAME_BYTES, SHAPES, Shape, Traffic, frames, rules};
use ringside_xdp::{DriverRules, Options, Target};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::Instant;

const EXACT: u32 = 100_000;
const WILDCARDS: u32 = 10_000;
const FRAMES: usize = 400_000;
/// Test runs of a round, and frames that are sent in one.
const RUNS: u32 = 500_000;
const ROUNDS: usize = 4;
const ENTRIES: usize = 1_000_000;

fn traffic(flows: u64, hit_every: u64) -> Vec<[u8; FRAME_BYTES]> {
    frames(&Traffic { frames: FRAMES, flows, hit_every, exact: EXACT })
}

/// The network, and how it stands without rules.
struct Bench {
    pair: Pair,
    /// Nanoseconds of a run of nothing but the replay and a program that drops.
    empty_ns: f64,
}

/// Of one rule, and of the set: nanoseconds of the program, million frames a second of the network;
/// and the share of frames that rules of the set decided about.
struct Costs {
    ns: [f64; 2],
    rate: [f64; 2],
    decided: f64,
}

impl Bench {
    fn new() -> Bench {
        let pair = Pair::new("rules");
        let drop = XdpProgram::drop_all().unwrap();
        let empty = Replay::load(&traffic(10_000, 0), Way::Program(drop.as_fd())).unwrap();
        pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
        let empty_ns = (0..ROUNDS).map(|_| empty.run(RUNS).unwrap()).min().unwrap().into();
        Bench { pair, empty_ns }
    }

    /// Both sets take turns; of each the best round counts, since what else runs on the machine
    /// only ever slows a round down.
    fn measure(&self, sets: [&RuleSet; 2], list: &[[u8; FRAME_BYTES]]) -> Costs {
        let load =
            |set: &RuleSet| DriverRules::unattached(set.clone(), &Options::default()).unwrap();
        let drivers = sets.map(load);
        let replays = drivers
            .each_ref()
            .map(|driver| Replay::load(list, Way::Program(driver.program().as_fd())).unwrap());
        let mut costs = Costs { ns: [f64::MAX; 2], rate: [0.0; 2], decided: 0.0 };
        for _ in 0..ROUNDS {
            for (replay, best) in replays.iter().zip(&mut costs.ns) {
                *best = best.min(f64::from(replay.run(RUNS).unwrap()) - self.empty_ns);
            }
        }
        let totals = drivers[1].totals();
        costs.decided = 1.0 - totals.undecided as f64 / totals.seen() as f64;
        drop((replays, drivers));
        costs.rate = self.send(sets, list);
        costs
    }

    fn send(&self, sets: [&RuleSet; 2], list: &[[u8; FRAME_BYTES]]) -> [f64; 2] {
        let (sender, receiver) = (&self.pair.sender, &self.pair.receiver);
        let target = Target { interface: "end", ifindex: ifindex(receiver) };
        let out = ifindex(sender);
        let mut rules = inside(receiver, || {
            let none = RuleSet::default();
            let mut rules = DriverRules::open(&target, none, &Options::default()).unwrap();
            rules.start().unwrap();
            rules
        });
        let rates = inside(sender, || {
            pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
            let replay = Replay::load(list, Way::Interface(out)).unwrap();
            let mut rates = [0.0f64; 2];
            for _ in 0..ROUNDS {
                for (set, best) in sets.iter().zip(&mut rates) {
                    rules.load((*set).clone()).unwrap();
                    // What was not there yet is remembered.
                    replay.run_live(list.len() as u32 / 4).unwrap();
                    let (before, start) = (rules.totals().seen(), Instant::now());
                    replay.run_live(RUNS).unwrap();
                    let seen = rules.totals().seen() - before;
                    *best = best.max(seen as f64 / start.elapsed().as_secs_f64() / 1e6);
                }
            }
            rates
        });
        inside(receiver, || drop(rules));
        rates
    }
}

/// What no rule decides about is dropped too: the host's stack is not what is measured.
fn parse(text: &str, sets: &mut Sets) -> RuleSet {
    language::parse(format!("{text}\ndefault drop\n").as_bytes(), sets).unwrap()
}

fn line(what: &str, flows: &str, hits: &str, costs: &Costs) {
    let Costs { ns: [one_ns, ns], rate: [one, rate], decided } = costs;
    let share = 100.0 * rate / one;
    println!(
        "{what:30} {flows:8} {hits:6} {one_ns:6.0} {ns:6.0} {one:7.2} {rate:7.2} {share:6.0} \
         {decided:6.2}"
    );
}

const FLOWS: [(&str, u64); 2] = [("10,000", 10_000), ("all new", FRAMES as u64)];

fn shape(bench: &Bench, shape: &Shape) {
    let one = parse("1: src ip 192.0.2.1 => drop", &mut Sets::none());
    let (text, combinations) = rules(shape, WILDCARDS, EXACT);
    let set = parse(&text, &mut Sets::none());
    let start = Instant::now();
    let driver = DriverRules::unattached(set.clone(), &Options::default()).unwrap();
    let (loaded, bytes) = (start.elapsed(), driver.memory_bytes());
    drop(driver);
    let label = format!("{}, {combinations} combinations", shape.name);
    for (name, flows) in FLOWS {
        for (hits, every) in [("none", 0), ("1:256", 256), ("1:1", 1)] {
            line(&label, name, hits, &bench.measure([&one, &set], &traffic(flows, every)));
        }
    }
    let each = bytes as f64 / f64::from(EXACT + WILDCARDS);
    println!("{label:30} loaded in {loaded:.1?}, {bytes} bytes, {each:.0} a rule");
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
        line("set of 1,000,000 addresses", name, "none", &bench.measure([&small, &large], &frames));
    }
}

/// The same flood by what it has in common, with the fast path and without it.
fn fast(bench: &Bench) {
    let folder = tempfile::tempdir().unwrap();
    let sources = |count: u32| (0..count).map(|at| Ipv4Addr::from_bits(0x0a10_0000 + at));
    let others = (0..90_000u32).map(|at| Ipv4Addr::from_bits(0x6400_0000 + 257 * at));
    let list: String = sources(10_000).chain(others).map(|ip| format!("{ip}\n")).collect();
    std::fs::write(folder.path().join("many"), list).unwrap();
    let address = |last: u32| format!("dst ip 198.18.0.{last} => drop\n");
    let sets = [
        ("1 port", "udp dst port 9 => drop".to_owned()),
        ("1 address", address(1)),
        ("100 addresses", (1..=100).rev().map(address).collect()),
        ("100,000 addresses", "src ip @many => drop".to_owned()),
    ];
    println!("flood of 10,000 sources       general  fast path, ns a frame");
    for (name, text) in sets {
        let set = parse(&text, &mut Sets::in_folder(folder.path()));
        let driver = DriverRules::unattached(set, &Options::default()).unwrap();
        assert_eq!(driver.fast_rules(), driver.len());
        let frames: Vec<[u8; FRAME_BYTES]> = sources(10_000).map(flood_frame).collect();
        let programs = [driver.program().as_fd(), driver.in_front()];
        let replays = programs.map(|it| Replay::load(&frames, Way::Program(it)).unwrap());
        let mut ns = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            for (replay, best) in replays.iter().zip(&mut ns) {
                *best = best.min(f64::from(replay.run(RUNS).unwrap()) - bench.empty_ns);
            }
        }
        assert_eq!(driver.totals().dropped, driver.totals().seen());
        println!("{name:30}{:7.0} {:10.0}", ns[0], ns[1]);
    }
}

/// UDP from there to 198.18.0.1, port 9.
fn flood_frame(source: Ipv4Addr) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame[26..30].copy_from_slice(&source.octets());
    frame[30..34].copy_from_slice(&[198, 18, 0, 1]);
    frame[34..42].copy_from_slice(&[0x20, 0, 0, 9, 0, 26, 0, 0]);
    frame
}

fn main() {
    // One part at a time, where the machine is to be had for minutes only: a shape, `sets`, or
    // `fast`.
    let only = std::env::var("RINGSIDE_BENCH_PART").ok();
    let is_asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let bench = Bench::new();
    println!(
        "100,000 exact and {WILDCARDS} wildcard rules, and one; replay and drop: {:.0} ns",
        bench.empty_ns
    );
    println!(
        "                                               ns a frame    Mframes/s    % of\n\
         rules                          flows    exact     one    set     one     set    one  \
         decided"
    );
    for part in SHAPES.iter().filter(|part| is_asked(part.name)) {
        shape(&bench, part);
    }
    if is_asked("sets") {
        sets(&bench);
    }
    if is_asked("fast") {
        fast(&bench);
    }
}
