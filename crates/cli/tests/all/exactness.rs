//! Exactness: what was sent is in the files, once, in order, byte by byte, and the ledger says so.

use crate::common::overload::{LOAD, Overload};
use crate::common::verifier::{SIZES, Verifier, shape};
use crate::common::*;
use ringside_lab::LabConfig;
use ringside_testkit::{by_run, need_root};
use ringside_transmit::SenderKind;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Frames of an exactness run: each lane's part of the capture ring turns over at least twice.
fn frames() -> u64 {
    by_run(60_000, 2_000_000)
}

/// Frames a second: a third of what the whole path takes with both cores busy otherwise.
const RATE: u64 = 200_000;

/// Rings that ride out stalls of a busy machine, in a short run of half a second: nothing may be
/// lost.
fn patient() -> [&'static str; 4] {
    let [kernel, ring] = by_run(["32MiB", "16MiB"], ["128MiB", "256MiB"]);
    ["--kernel-ring-size", kernel, "--ring-size", ring]
}

#[test]
fn numbered_frames_in_one_lane() {
    numbered_frames("numbered_frames_in_one_lane", 1);
}

#[test]
fn numbered_frames_in_two_lanes() {
    numbered_frames("numbered_frames_in_two_lanes", 2);
}

#[test]
fn numbered_frames_in_four_lanes() {
    numbered_frames("numbered_frames_in_four_lanes", 4);
}

fn numbered_frames(test: &str, lanes: usize) {
    if !need_root(test) {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = directory.path().join("recording");
    let queues = lanes.to_string();
    let mut args = vec!["-i", "rx0", "--queues", &queues, "-w", arg(&recording)];
    args.extend(patient());
    let running = network.capture(&args);
    let shape = shape(&SIZES, 1000);
    let before = network.received();
    let sent = network.send(SenderKind::Live, &shape, frames(), Some(RATE));
    let received = network.received() - before;
    let ledger = running.stop().checked_ledger(received);
    assert_eq!((sent.handed, received), (frames(), frames()), "{sent:?}");
    assert_eq!((ledger.taken, ledger.lost()), (frames(), 0), "{ledger:#?}");
    assert_eq!(ledger.lanes.len(), lanes);
    for lane in ledger.lanes.iter().filter(|_| lanes > 1) {
        assert!(lane.taken >= frames() / 10, "{ledger:#?}");
    }

    let mut recorded = Verifier::new(&shape, frames());
    assert_eq!(recorded.note_directory(&recording), lanes);
    let report = recorded.report(&sent.streams);
    assert!(report.is_complete() && report.flow_reordered == 0, "{report:?}");
    assert_eq!(recorded.frames, frames());

    let out = directory.path().join("merged.pcapng");
    let read = run_ringside(&["read", "-r", arg(&recording), "-w", arg(&out)]);
    assert_eq!((read.code(), read.stderr.as_str()), (Some(0), ""));
    let mut merged = Verifier::new(&shape, frames());
    merged.note_file(&out);
    let report = merged.report(&sent.streams);
    assert_eq!((report.missing, report.duplicates, report.flow_reordered), (0, 0, 0));
    assert_eq!((merged.frames, merged.digest), (frames(), recorded.digest));
    // Files are merged in the order of time, unless the clock itself went back.
    let inversions: u64 = ledger.lanes.iter().map(|lane| lane.inversions).sum();
    assert!(merged.late == 0 || inversions > 0, "{} go back in time", merged.late);
}

/// Three loads as fast as the sender goes into small rings; during the second the program stands
/// still, so that frames are lost on every machine.
#[test]
fn at_full_load_every_lost_frame_has_a_cause() {
    if !need_root("at_full_load_every_lost_frame_has_a_cause") {
        return;
    }
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = directory.path().join("recording");
    let running = network.capture(&[
        "-i",
        "rx0",
        "--queues",
        "2",
        "-w",
        arg(&recording),
        "--kernel-ring-size",
        "1MiB",
        "--ring-size",
        "4MiB",
    ]);
    let load = Overload::send(&network, &running);
    let received = load.received;
    let ledger = running.stop().checked_ledger(received);
    let dropped: u64 = ledger.dropped.values().sum();
    assert!(dropped >= LOAD / 2, "a program that stands still takes nothing: {ledger:#?}");
    assert_eq!(received, ledger.taken + dropped);
    load.check(&recording, ledger.consumers[0].delivered);
}

/// A reader of the stream that begins only after the load: the ring fills, and what it had no room
/// for is counted under that cause; the rest comes through.
#[test]
fn a_late_reader_costs_frames_with_their_cause() {
    if !need_root("a_late_reader_costs_frames_with_their_cause") {
        return;
    }
    const LOAD: u64 = 500_000;
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    let (from, to) = std::io::pipe().unwrap();
    let mut command = network.capture_command();
    command.args(["-i", "rx0", "--kernel-ring-size", "64MiB", "--ring-size", "4MiB", "-w", "-"]);
    command.stdin(Stdio::null()).stdout(to);
    let stream = Running::start_directed(command);
    stream.wait_for_stderr("listening on");
    let shape = shape(&[64], 1000);
    let sent = network.send(SenderKind::Live, &shape, LOAD, Some(RATE));
    let copy = directory.path().join("copy.pcapng");
    let mut command = Command::new(ringside());
    command.args(["read", "-r", "-", "-w", arg(&copy)]).stdin(from);
    let reader = Running::start_directed(command);
    let stream = stream.stop();
    assert_eq!(stream.code(), Some(0), "{}", stream.stderr);
    assert!(stream.stderr.contains("the ledger balances\n"), "{}", stream.stderr);
    assert_eq!(reader.finish().code(), Some(0));

    let behind = count_in(&stream.stderr, "recorder_behind");
    let lost = behind + count_in(&stream.stderr, "kernel_ring_full");
    assert!(behind > LOAD / 2, "{}", stream.stderr);
    assert_eq!(count_in(&stream.stderr, "received"), sent.handed);
    assert_eq!(count_in(&stream.stderr, "delivered"), sent.handed - lost);
    let mut copied = Verifier::new(&shape, LOAD);
    copied.note_file(&copy);
    let report = copied.report(&sent.streams);
    assert_eq!((report.missing, report.duplicates, report.lane_reordered), (lost, 0, 0));
    assert_eq!(copied.frames, sent.handed - lost);
}

/// The count on the line of a printed ledger that has this word; 0 if there is none.
fn count_in(ledger: &str, word: &str) -> u64 {
    let line = ledger.lines().find(|line| line.split_whitespace().any(|w| w == word));
    let number = |word: &str| word.replace(',', "").parse().ok();
    line.map_or(0, |line| line.split_whitespace().find_map(number).unwrap())
}

#[test]
fn several_interfaces_are_one_run_with_one_ledger() {
    if !need_root("several_interfaces_are_one_run_with_one_ledger") {
        return;
    }
    const DATAGRAMS: u64 = 500;
    let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
    run_clean("ip", &["-n", network.receiver(), "link", "set", "lo", "up"]);
    let merged = directory.path().join("both.pcapng");
    let running = network.capture(&["-i", "rx0", "-i", "lo", "-w", arg(&merged)]);
    let before = [network.received_by("rx0"), network.received_by("lo")];
    let shape = shape(&SIZES, 10);
    let sent = network.send(SenderKind::Packet, &shape, 1000, None);
    inside(network.receiver(), || {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..DATAGRAMS {
            sender.send_to(&number.to_be_bytes(), receiver.local_addr().unwrap()).unwrap();
        }
    });
    let after = [network.received_by("rx0"), network.received_by("lo")];
    let counted = [after[0] - before[0], after[1] - before[1]];
    assert_eq!((counted[0], counted[1]), (sent.handed, DATAGRAMS));
    let ledger = running.stop().checked_ledger(counted[0] + counted[1]);
    let of = |name: &str| ledger.lanes.iter().find(|lane| lane.interface == name).unwrap();
    assert_eq!([of("rx0").received, of("lo").received], counted.map(Some));
    assert_eq!((ledger.lost(), ledger.consumers.len()), (0, 1), "{ledger:#?}");

    let mut frames = [0u64; 2];
    let (mut names, mut newest, mut late) = (BTreeSet::new(), 0, 0);
    for_each_frame(std::slice::from_ref(&merged), |frame, interfaces| {
        let interface = &interfaces[frame.meta.interface.0 as usize];
        names.insert(interface.name.clone());
        frames[usize::from(interface.name == "lo")] += 1;
        let time = frame.meta.timestamp.0;
        late += u64::from(time < newest);
        newest = newest.max(time);
    });
    assert_eq!((frames, names.len()), (counted, 2), "{names:?}");
    assert_eq!(late, ledger.consumers[0].late);
    let shown =
        run_clean("tshark", &["-r", arg(&merged), "-T", "fields", "-e", "frame.interface_name"]);
    assert_eq!(shown.lines().filter(|name| *name == "lo").count() as u64, DATAGRAMS);
}

/// The same traffic by three programs at once: one set of frames, forward in time.
#[test]
fn merged_outputs_hold_the_same_frames() {
    if !need_root("merged_outputs_hold_the_same_frames") {
        return;
    }
    let count = by_run(50_000, 200_000);
    let network = Network::with(LabConfig { queues: 2, ..LabConfig::default() });
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let outputs: [PathBuf; 3] = ["merged.pcapng", "merged.pcap", "stream.pcapng"].map(path);
    let lanes = ["-i", "rx0", "--queues", "2", "--kernel-ring-size", "64MiB"];
    let files: Vec<Running> = outputs[..2]
        .iter()
        .map(|out| network.capture(&[&lanes[..], &["-w", arg(out)]].concat()))
        .collect();
    let (from, to) = std::io::pipe().unwrap();
    let mut command = network.capture_command();
    command.args(lanes).args(["-w", "-"]).stdout(to).stdin(Stdio::null());
    let stream = Running::start_directed(command);
    let mut command = Command::new(ringside());
    command.args(["read", "-r", "-", "-w", arg(&outputs[2])]).stdin(from);
    let reader = Running::start_directed(command);
    stream.wait_for_stderr("listening on");

    let shape = shape(&SIZES, 100);
    let sent = network.send(SenderKind::Live, &shape, count, Some(RATE / 4));
    let mut late = Vec::new();
    for file in files {
        let ledger = file.stop().checked_ledger(sent.handed);
        assert_eq!(ledger.lost(), 0, "{ledger:#?}");
        late.push(ledger.consumers[0].late);
    }
    let stream = stream.stop();
    assert_eq!(stream.code(), Some(0), "{stream:?}");
    assert!(stream.stderr.contains("the ledger balances\n"), "{}", stream.stderr);
    late.push(count_in(&stream.stderr, "late"));
    let reader = reader.finish();
    assert_eq!((reader.code(), reader.stderr.as_str()), (Some(0), ""));

    for (out, late) in outputs.iter().zip(late) {
        let mut merged = Verifier::new(&shape, count);
        merged.note_file(out);
        let report = merged.report(&sent.streams);
        assert_eq!((report.missing, report.duplicates, report.flow_reordered), (0, 0, 0));
        assert_eq!(merged.frames, count, "{}", out.display());
        assert_eq!(merged.late, late, "the order of time, but for what is counted as late");
    }
}
