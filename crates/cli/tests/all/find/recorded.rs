//! Indexes that the recorder makes while it records: what is found by them, during a recording, at
//! its end, and after a kill at any moment.

use super::{Packet, Traffic, find, number, tcpdump, traffic};
use crate::common::chaos::{kills, random};
use crate::common::verifier::shape;
use crate::common::*;
use ringside_core::TimeRange;
use ringside_store::recording::read_header;
use ringside_testkit::{Random, need_root, need_tool};
use ringside_transmit::SenderKind;
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kills of a recorder, in short and in long.
const KILLS: [u64; 2] = [12, 1_000];
/// Indexes that a recorder has made before it is killed, at most: of about eight files.
const INDEXES_MAX: usize = 6;
/// Latest kill after these are there.
const KILL_AFTER_MAX_US: usize = 20_000;
/// Latest kill after a pin was begun, which takes about half of it.
const PIN_MAX_US: usize = 100_000;

/// The packets of `tcpdump -r` over each file of a recording of one lane, in order.
fn by_tcpdump(recording: &Path, expression: &str) -> Vec<Packet> {
    let files = files_in(recording);
    files.iter().flat_map(|file| tcpdump(file, expression, TimeRange::default())).collect()
}

fn indexes_in(recording: &Path) -> Vec<PathBuf> {
    let indexes = files_in(recording).into_iter().map(|file| ringside_index::path_of(&file));
    indexes.filter(|index| index.exists()).collect()
}

/// Why files are searched without an index.
fn without_index(answer: &Value) -> Vec<String> {
    let files = answer["plan"]["without_index"].as_array().unwrap();
    files.iter().map(|file| file["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_recording_of_two_lanes_has_its_indexes_at_its_end() {
    if !need_tool("find::recorded::a_recording_of_two_lanes_has_its_indexes", "tcpdump") {
        return;
    }
    let traffic = Traffic::written();
    let args = ["capture", "-r", arg(&traffic.file), "-r", arg(&traffic.file), "--json"];
    let size = ["-w", arg(&traffic.recording), "-C", "3MiB"];
    let outcome = run_ringside(&[&args[..], &size[..]].concat());
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let said = outcome.json_lines().into_iter().find_map(|line| line.get("indexes").cloned());
    let (said, files) = (said.unwrap(), files_in(&traffic.recording));
    let whole = number(&said, &["files"]);
    assert_eq!(whole + number(&said, &["left"]), files.len() as u64, "{said}: {files:?}");
    for expression in [traffic::rare_flow(), "udp port 53 and not net 10.1.0.0/16".into()] {
        let (mut found, answer, _) = find(&[&traffic.recording], &[&expression]);
        let mut expected = tcpdump(&traffic.file, &expression, TimeRange::default());
        expected.extend(expected.clone());
        let order = |packets: &mut Vec<Packet>| {
            packets.sort_by(|one, other| (one.time, &one.bytes).cmp(&(other.time, &other.bytes)));
        };
        [&mut found, &mut expected].into_iter().for_each(order);
        assert!(found == expected, "{expression}: {} {}", found.len(), expected.len());
        assert_eq!(answer["end"], "complete", "{answer}");
    }
    // What was left, if the machine had no time, is made now, and nothing else.
    let made = super::index(&[&traffic.recording]);
    assert_eq!(number(made.last().unwrap(), &["account", "files_good"]), whole, "{said}");
    // What a reader makes is the same.
    let ours: Vec<_> = indexes_in(&traffic.recording).iter().map(std::fs::read).collect();
    let again = run_ringside(&["index", "--rebuild", arg(&traffic.recording)]);
    assert_eq!(again.code(), Some(0), "{again:?}");
    for (index, ours) in indexes_in(&traffic.recording).iter().zip(ours) {
        assert!(std::fs::read(index).unwrap() == ours.unwrap(), "{}", index.display());
    }
}

#[test]
fn without_indexes_there_are_none() {
    let traffic = Traffic::written();
    let args = ["capture", "-r", arg(&traffic.file), "-w", arg(&traffic.recording), "--no-index"];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    assert_eq!(indexes_in(&traffic.recording), Vec::<PathBuf>::new());
    assert_eq!(files_in(&traffic.recording).len(), 1);
}

#[test]
fn a_search_of_what_is_being_recorded_reads_little_and_finds_what_came_just_now() {
    if !need_root("find::recorded::a_search_of_what_is_being_recorded")
        || !need_tool("find::recorded::a_search_of_what_is_being_recorded", "tcpdump")
    {
        return;
    }
    let (network, dir) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = dir.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&recording)]);
    network.send(SenderKind::Live, &shape(&[1400], 16), 8_000, None);
    let absent = || find(&[&recording], &["host 203.0.113.77"]).1;
    let share = |answer: &Value| {
        let bytes = |which| number(answer, &["plan", "bytes", which]);
        (bytes("read") as f64 / bytes("total") as f64, bytes("total"))
    };
    // All of the ring blocks but the one that is filled.
    wait_until("an index of what is there", || {
        let (share, total) = share(&absent());
        total > 10_000_000 && share < 0.2
    });
    assert_eq!(without_index(&absent()), [""; 0]);
    // One packet alone, of a size that no other has.
    network.send(SenderKind::Packet, &shape(&[300], 1), 1, None);
    let found = |expression: &str| find(&[&recording], &[expression]).0;
    wait_until("the packet", || found("udp and less 300").len() == 1);
    assert!(found("udp and less 300") == by_tcpdump(&recording, "udp and less 300"));
    running.stop().checked_ledger(8_001);
    let (packets, answer, _) = find(&[&recording], &["udp and portrange 1-30000"]);
    assert!(packets == by_tcpdump(&recording, "udp and portrange 1-30000"), "{answer}");
    assert_eq!(answer["end"], "complete", "{answer}");
}

/// Records the traffic, and kills that at some moment: as it is, with files deleted that are too
/// many, or while some of those are pinned, besides.
fn killed(traffic: &Traffic, recording: &Path, random: &mut Random) {
    let mut command = Command::new(ringside());
    command.args(["capture", "--no-keeper", "-r", arg(&traffic.file), "-w", arg(recording)]);
    command.args(["-C", "2MiB", "--ring-size", "16MiB"]);
    let kind = random.below(3);
    if kind > 0 {
        command.args(["--limit-bytes", "8MiB"]);
    }
    let running = Running::start(command);
    let indexes = random.below(INDEXES_MAX + 1);
    let is_there = || {
        let files = if recording.is_dir() { files_in(recording) } else { Vec::new() };
        let begun = files
            .first()
            .is_some_and(|file| read_header(file).is_ok_and(|header| header.is_some()));
        begun
            && files.iter().filter(|file| ringside_index::path_of(file).exists()).count() >= indexes
    };
    wait_until("files and indexes", || running.is_over() || is_there());
    let pin = (kind > 1).then(|| {
        let mut command = Command::new(ringside());
        command.args(["pin", "-r", arg(recording), "--last", "2s"]);
        Running::start(command)
    });
    let after_max = if kind > 1 { PIN_MAX_US } else { KILL_AFTER_MAX_US };
    std::thread::sleep(std::time::Duration::from_micros(random.below(after_max) as u64));
    if !running.is_over() {
        running.signal(Signal::KILL);
    }
    running.finish();
    pin.map(Running::finish);
}

/// True if a file was deleted from between others, of which the former is pinned.
fn has_hole(recording: &Path) -> bool {
    let files = files_in(recording);
    let numbers = files.iter().filter_map(|file| {
        let (_, number) = file.file_stem()?.to_str()?.rsplit_once('-')?;
        number.parse::<u64>().ok()
    });
    let numbers: Vec<u64> = numbers.collect();
    numbers.windows(2).any(|pair| pair[0] + 1 < pair[1])
}

/// Names of the files that are pinned.
fn pinned_in(recording: &Path) -> Vec<String> {
    let listed = run_ringside(&["pin", "--list", "-r", arg(recording), "--json"]);
    let pins = listed.json_lines();
    let files = pins.iter().flat_map(|pin| pin["files"].as_array().unwrap());
    files.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
}

/// Names of what is hidden, but for locks and the list of pins.
fn hidden_in(directory: &Path) -> Vec<String> {
    let names = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let is_meant = |name: &String| name.ends_with("lock") || name.ends_with("pins");
    names.filter(|name| name.starts_with('.') && !is_meant(name)).collect()
}

#[test]
fn whenever_a_recorder_is_killed_all_that_is_there_is_found_and_no_index_lies() {
    if !need_tool("find::recorded::whenever_a_recorder_is_killed", "tcpdump") {
        return;
    }
    let traffic = Traffic::written();
    let (mut random, mut incomplete, mut indexed, mut pinned) = (random(), 0, 0, 0);
    for round in 0..kills(KILLS) {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join("recording");
        killed(&traffic, &recording, &mut random);
        let expression = ["udp port 53".into(), traffic::rare_flow()][round as usize % 2].clone();
        let (before, answer, outcome) = find(&[&recording], &[&expression]);
        let has_lock = std::fs::read_dir(&recording).unwrap().any(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.starts_with(".ringside-") && name.ends_with(".lock")
        });
        let is_whole = !has_lock && !has_hole(&recording);
        let end = if is_whole { "complete" } else { "incomplete" };
        assert_eq!(answer["end"], end, "{outcome:?}");
        incomplete += u64::from(has_lock);
        let reasons = without_index(&answer);
        assert!(reasons.iter().all(|reason| reason == "no index"), "{reasons:?}");
        indexed += indexes_in(&recording).len();
        let repaired = run_ringside(&["repair", arg(&recording)]);
        assert_eq!(repaired.code(), Some(0), "{repaired:?}");
        let expected = by_tcpdump(&recording, &expression);
        assert!(before == expected, "{round}: {} {}", before.len(), expected.len());
        let (after, answer, _) = find(&[&recording], &[&expression]);
        assert!(after == expected, "{round}, repaired: {answer}");
        assert_eq!(hidden_in(&recording), [""; 0]);
        let names = pinned_in(&recording);
        assert!(names.iter().all(|name| recording.join(name).exists()), "{names:?}");
        pinned += names.len();
    }
    println!("{incomplete} kills in the midst of it; {indexed} indexes, {pinned} pinned files");
}
