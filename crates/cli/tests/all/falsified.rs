//! Counters that the kernel keeps for a capture are falsified while it runs: the ledger notices.

use crate::common::*;
use ringside_testkit::{by_run, need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::collections::BTreeSet;

/// A counter in a map of a program: a word of a per-CPU array's first value.
#[derive(Clone, Copy)]
struct Counter {
    value_bytes: u64,
    word: usize,
    name: &'static str,
}

/// A word of `struct capture_counters` (bpf/abi.h) that feeds the ledger.
const fn leaf(word: usize, name: &'static str) -> Counter {
    Counter { value_bytes: 48, word, name }
}

/// A word of the counters of a filter on a socket. How many frames it saw is counted nowhere else:
/// what it rejects leaves no other trace in the kernel (docs/LEDGER.md).
const fn filter(word: usize, name: &'static str) -> Counter {
    Counter { value_bytes: 32, word, name }
}

/// The process's map with such values.
fn map(pid: u32, counter: Counter) -> String {
    const PER_CPU_ARRAY: u64 = 6;
    let folder = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let found = folder.filter_map(|entry| {
        let text = std::fs::read_to_string(entry.ok()?.path()).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        let is_such = field("map_type:") == Some(PER_CPU_ARRAY)
            && field("value_size:") == Some(counter.value_bytes);
        field("map_id:").filter(|_| is_such)
    });
    let found: BTreeSet<u64> = found.collect();
    assert_eq!(found.len(), 1, "{}", counter.name);
    found.first().unwrap().to_string()
}

const KEY: [&str; 5] = ["key", "0", "0", "0", "0"];

/// The words of the map's first value, by CPU.
fn words(map: &str) -> Vec<Vec<u64>> {
    let text = run_clean("bpftool", &[&["-j", "map", "lookup", "id", map], &KEY[..]].concat());
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of_cpu = |value: &serde_json::Value| {
        let bytes = value["value"].as_array().unwrap().iter().map(|byte| {
            u8::from_str_radix(byte.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
        });
        let bytes: Vec<u8> = bytes.collect();
        bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    };
    entry["values"].as_array().unwrap().iter().map(of_cpu).collect()
}

/// Adds a frame a CPU to one counter. bpftool gives all CPUs the same value: so they get a part of
/// each sum, which must be a multiple of their number.
fn falsify(map: &str, counter: Counter) {
    let by_cpu = words(map);
    let cpus = by_cpu.len() as u64;
    let mut new = vec![0; by_cpu[0].len()];
    for (at, word) in new.iter_mut().enumerate() {
        let sum: u64 = by_cpu.iter().map(|words| words[at]).sum();
        assert_eq!(sum % cpus, 0, "{}: {by_cpu:?}", counter.name);
        *word = sum / cpus;
    }
    new[counter.word] += 1;
    let bytes = new.iter().flat_map(|word| word.to_ne_bytes()).map(|byte| byte.to_string());
    let bytes: Vec<String> = bytes.collect();
    let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
    let update = ["map", "update", "id", map];
    run_clean("bpftool", &[&update, &KEY[..], &["value"], &bytes].concat());
}

fn check(network: &Network, args: &[&str], counter: Option<Counter>) {
    let running = network.capture(args);
    let pid = running.worker_pid();
    let frames = match counter {
        Some(counter) => 50 * words(&map(pid, counter)).len() as u64,
        None => 100,
    };
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 1).unwrap();
    network.send(SenderKind::Packet, &shape, frames, None);
    running.wait_for_stdout(&format!("\"taken\":{frames}"));
    if let Some(counter) = counter {
        falsify(&map(pid, counter), counter);
    }
    let outcome = running.stop();
    let name = counter.map_or("none", |counter| counter.name);
    let said = &outcome.stderr;
    match counter {
        None => {
            assert_eq!(outcome.code(), Some(0), "{args:?}: {said}");
            assert!(said.contains("the ledger balances"), "{args:?}: {said}");
        }
        Some(_) => {
            assert_eq!(outcome.code(), Some(2), "{args:?} {name}: {said}");
            let noticed = said.contains("does not balance") || said.contains("were found");
            assert!(noticed, "{args:?} {name}: {said}");
        }
    }
}

#[test]
fn a_counter_of_a_program_that_says_too_much_is_noticed() {
    let test = "a_counter_of_a_program_that_says_too_much";
    if !need_root(test) || !need_tool(test, "bpftool") {
        return;
    }
    let network = Network::up();
    let af_xdp = ["-i", "rx0", "--backend", "af-xdp"];
    let counters = [leaf(0, "seen"), leaf(1, "passed"), leaf(2, "steered")];
    for counter in counters.map(Some).into_iter().chain([None]) {
        check(&network, &af_xdp, counter);
    }
    let xdp_ring = ["-i", "rx0", "--backend", "xdp-ring"];
    // The first three are the other backend's too.
    let own = [leaf(4, "no room"), leaf(5, "too long")];
    for counter in by_run(own.to_vec(), [&counters[..], &own].concat()) {
        check(&network, &xdp_ring, Some(counter));
    }
    check(&network, &xdp_ring, None);
    let filtered = ["-i", "rx0", "--backend", "af-packet", "udp"];
    for counter in [filter(1, "accepted"), filter(2, "turned away")] {
        check(&network, &filtered, Some(counter));
    }
    check(&network, &filtered, None);
}
