//! What the flow cache costs: nanoseconds a packet of its program by the number of flows, for flows
//! that are known and for new ones that evict others; and how long a reading takes.
//!
//! `cargo bench -p ringside-meter --bench flow_cache` (as root) prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "../tests/all/headers/mod.rs"]
mod headers;

use headers::{headers, table};
use ringside_ebpf::XdpProgram;
use ringside_ebpf::replay::{Replay, Way};
use ringside_meter::{Hook, Meter, Options};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use std::os::fd::AsFd;

/// Test runs of a round.
const RUNS: u32 = 1_000_000;
const ROUNDS: usize = 5;

/// The least of some rounds, each after the cache was read.
fn least_ns(replay: &Replay, runs: u32, mut after: impl FnMut()) -> f64 {
    let mut least = u32::MAX;
    for _ in 0..ROUNDS {
        least = least.min(replay.run(runs).unwrap());
        after();
    }
    least.into()
}

fn replay(meter: &Meter, flows: usize) -> Replay {
    let program = meter.cache().program(false).unwrap();
    Replay::load(&headers(flows), Way::Program(program)).unwrap()
}

fn main() {
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
    let drop = XdpProgram::drop_all().unwrap();
    println!("     flows   empty run   hit, ns   reading all, ms   idle reading, ms   evicted");
    for flows in [1, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let empty = Replay::load(&headers(flows), Way::Program(drop.as_fd())).unwrap();
        let empty_ns = least_ns(&empty, RUNS, || {});
        // As many entries as twice the flows take, and no less than there are unless asked.
        let entries = (2 * flows).next_power_of_two().max(Options::default().entries);
        let options = Options { entries, ..Options::default() };
        let mut meter = Meter::unattached(Hook::Xdp, &options).unwrap();
        let (replay, mut table) = (replay(&meter, flows), table());
        replay.run(RUNS.max(flows as u32)).unwrap();
        let mut readings = Vec::new();
        let hit_ns = least_ns(&replay, RUNS, || {
            meter.poll(&mut table, &mut |_| {}).unwrap();
            readings.push(meter.status().reading_ns);
        });
        meter.poll(&mut table, &mut |_| {}).unwrap();
        let idle = meter.status();
        assert_eq!(idle.no_room, 0);
        let reading = readings.iter().min().copied().unwrap_or_default() as f64 / 1e6;
        println!(
            "{flows:10} {empty_ns:11} {:9} {reading:17.3} {:18.3} {:9}",
            hit_ns - empty_ns,
            idle.reading_ns as f64 / 1e6,
            idle.evicted
        );
    }
    let flows = RUNS as usize;
    let empty = Replay::load(&headers(flows), Way::Program(drop.as_fd())).unwrap();
    let empty_ns = least_ns(&empty, RUNS, || {});
    let options = Options { entries: 1 << 16, ring_bytes: 256 << 20, ..Options::default() };
    let mut meter = Meter::unattached(Hook::Xdp, &options).unwrap();
    let (replay, mut table) = (replay(&meter, flows), table());
    replay.run(RUNS).unwrap();
    let miss_ns = least_ns(&replay, RUNS, || meter.poll(&mut table, &mut |_| {}).unwrap());
    let status = meter.status();
    println!("new flow that evicts another: {} ns; {status:?}", miss_ns - empty_ns);
}
