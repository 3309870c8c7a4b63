//! `flows --cache kernel`: the same flows as in user space, limits that change, a worker that dies.

use crate::common::flow_runs::{flow_counts, send_flows, start_flows};
use crate::common::*;
use ringside_testkit::{capture_files, need_root};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// Frames without IP in a test.
const NOT_IP: u64 = 50;

/// A frame of ARP, padded to what Ethernet wants.
fn arp() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6]);
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    frame
}

/// `ringside flows --json ARGS` of rx0, once it listens.
fn start(network: &Network, args: &[&str]) -> Running {
    start_flows(network, &[args, &["--json"]].concat())
}

/// The account of the one cache.
fn cache(lines: &[Value]) -> &Value {
    let mut caches = lines.iter().filter_map(|line| line.get("cache"));
    let cache = caches.next().expect("a cache");
    assert!(caches.next().is_none());
    cache
}

fn packets(sums: &Value) -> u64 {
    sums["packets"].as_u64().unwrap()
}

/// The run ended well, and what the cache saw is what the interface counted.
fn check(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let cache = cache(&lines);
    // Octets differ where a driver leaves the header of the link layer out.
    assert_eq!(packets(&cache["received"]), packets(&cache["interface_received"]), "{cache}");
    assert_eq!(packets(&cache["no_room"]), 0, "{cache}");
    assert!(cache.get("lost_with_worker").is_none(), "no worker died: {cache}");
    let account = &lines.last().unwrap()["account"];
    assert_eq!(account["balances"], true, "{account}");
    let seen = packets(&cache["received"]) + packets(&cache["sent"]);
    assert_eq!(packets(&account["received"]), seen);
    let exported = packets(&account["exported"]);
    assert_eq!(exported + packets(&cache["not_ip"]) + packets(&cache["unreadable"]), seen);
    lines
}

#[test]
fn flows_of_the_kernel_are_those_of_user_space() {
    if !need_root("flows_of_the_kernel_are_those_of_user_space") {
        return;
    }
    for hook in ["xdp", "tcx"] {
        let network = Network::up();
        let plain = start(&network, &["--no-control", "-Q", "in"]);
        let cached = start(&network, &["--no-control", "--cache", "kernel", "--cache-hook", hook]);
        send_flows(&network, 300, 30_000);
        let frames = capture_files("flows_of_the_kernel").into_iter().take(40);
        let frames = frames.flat_map(|path| frames_of(&path)).take(20_000).collect::<Vec<_>>();
        network.replay(&frames);
        let sent = network.received();
        let (lines, plain) = (check(&cached.stop()), plain.stop().json_lines());
        let cache = cache(&lines);
        assert_eq!(packets(&cache["received"]), sent, "{cache}");
        assert_eq!(flow_counts(&lines), flow_counts(&plain), "{hook}");
        assert!(cache["status"]["entries"].as_u64().unwrap() >= 299, "{cache}");
    }
}

/// Frames of a capture that an interface of the usual MTU takes.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return frames };
    while let Ok(Some(batch)) = source.next_batch(std::time::Duration::ZERO) {
        let ethernet = |frame: &ringside_core::Frame<'_>| {
            let interface = batch.interface_of(&frame.meta);
            interface.is_ok_and(|interface| interface.link_type.0 == 1)
        };
        let whole = |frame: &ringside_core::Frame<'_>| {
            (14..=1514).contains(&frame.bytes.len())
                && frame.bytes.len() as u32 == frame.meta.wire_bytes
        };
        let taken = batch.iter().filter(|frame| ethernet(frame) && whole(frame));
        frames.extend(taken.map(|frame| frame.bytes.to_vec()));
    }
    frames
}

#[test]
fn limits_of_the_cache_change_while_it_runs() {
    if !need_root("limits_of_the_cache_change_while_it_runs") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("control");
    let args = ["--control", arg(&socket), "--cache", "kernel", "--cache-entries", "64"];
    let running = start(&network, &args);
    let ask = |args: &[&str]| {
        let outcome = run_ringside(&[&["control", arg(&socket), "flows", "--json"], args].concat());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.json_lines().remove(0)["flows"].take()
    };
    let most = ask(&[])["caches"][0]["status"]["entries_max"].as_u64().unwrap();
    let half = (most / 2).to_string();
    ask(&["--cache-entries", &half, "--idle", "3s"]);
    wait_until("the new limits", || {
        let flows = ask(&[]);
        flows["caches"][0]["status"]["entries_max"] == most / 2 && flows["idle_ms"] == 3000
    });
    // More flows than entries.
    send_flows(&network, 500, 20_000);
    let status = run_ringside(&["status", arg(&socket), "--json"]);
    assert_eq!(status.code(), Some(0), "{}", status.stderr);
    let lines = check(&running.stop());
    assert!(cache(&lines)["status"]["evicted"].as_u64().unwrap() > 0, "{lines:?}");
    assert_eq!(packets(&cache(&lines)["received"]), network.received());
}

#[test]
fn what_is_lost_with_a_killed_worker_is_said_to_the_packet() {
    if !need_root("what_is_lost_with_a_killed_worker") {
        return;
    }
    for hook in ["xdp", "tcx"] {
        let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
        let socket = folder.path().join("control");
        let cache_args = ["--cache", "kernel", "--cache-hook", hook, "--idle", "1s"];
        let running = start(&network, &[&cache_args[..], &["--control", arg(&socket)]].concat());
        send_flows(&network, 100, 5_000);
        let first = network.received();
        // What is in no flow is lost with no process.
        network.replay(&vec![arp(); NOT_IP as usize]);
        let sum = |bytes: &[u8]| -> u64 {
            let text = String::from_utf8_lossy(bytes);
            let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            records.filter_map(|record| record["packets"].as_u64()).sum()
        };
        wait_until("records of all flows", || sum(&running.stdout_so_far()) == first);
        // From now on nothing is exported, so that what is on its way does not matter.
        let order = ["control", arg(&socket), "flows", "--idle", "2h", "--active", "2h"];
        assert_eq!(run_ringside(&order).code(), Some(0));
        send_flows(&network, 100, 5_000);
        running.signal_worker(Signal::KILL);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        let lines = outcome.json_lines();
        assert_eq!(lines.last().unwrap()["closed_by"], "keeper");
        let cache = cache(&lines);
        let exported = packets(&cache["exported_before"]);
        assert_eq!(exported, first, "{cache}");
        assert_eq!(packets(&cache["not_ip"]), NOT_IP, "{cache}");
        let lost = network.received() - first - NOT_IP;
        assert_eq!(packets(&cache["lost_with_worker"]), lost, "{cache}");
        assert!(!socket.exists());
        // Its place is free, and empty.
        let before = network.received();
        let next = start(&network, &cache_args);
        send_flows(&network, 10, 1_000);
        let lines = check(&next.stop());
        let received =
            packets(&lines.iter().find_map(|line| line.get("cache")).unwrap()["received"]);
        assert_eq!(received, network.received() - before);
    }
}

#[test]
fn what_does_not_go_with_the_cache_is_refused() {
    let wrong = [
        &["-r", "a.pcap", "--cache", "kernel"][..],
        &["-i", "rx0", "--cache", "kernel", "-w", "a.pcapng"],
        &["-i", "rx0", "--cache", "kernel", "udp"],
        &["-i", "rx0", "--cache", "kernel", "-Q", "in"],
        &["-i", "rx0", "--cache", "kernel", "--backend", "af-packet"],
        &["-i", "rx0", "--cache", "kernel", "-c", "5"],
        &["-i", "rx0", "--cache", "kernel", "-a", "packets:5"],
        &["-i", "rx0", "--cache", "kernel", "--wait", "spin"],
        &["-i", "rx0", "--cache", "user"],
        &["-i", "rx0", "--cache", "kernel", "--cache-entries", "100"],
        &["-i", "rx0", "--cache-entries", "64"],
    ];
    for args in wrong {
        let outcome = run_ringside(&[&["flows"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}");
        assert!(outcome.stderr.contains("cache"), "{args:?}: {}", outcome.stderr);
    }
    if need_root("what_does_not_go_with_the_cache_is_refused") {
        let none = run_ringside(&["flows", "-i", "none9", "--cache", "kernel"]);
        assert_eq!(none.code(), Some(2));
        assert!(none.stderr.contains("no such interface"), "{}", none.stderr);
        // Root without what this needs: every user's files are within reach.
        let less = "-net_raw,-net_admin,-bpf,-perfmon,-sys_admin";
        let program = ringside();
        let command = ["--bounding-set", less, arg(&program)];
        let args = ["flows", "-i", "lo", "--cache", "kernel", "--no-control", "--no-keeper"];
        let unprivileged = run("setpriv", &[&command[..], &args].concat());
        assert_eq!(unprivileged.code(), Some(2));
        assert!(unprivileged.stderr.contains("setcap"), "{}", unprivileged.stderr);
    }
}
