//! Captures and replays by PF_RING, end to end: with a library that plays PF_RING's.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_testkit::{fakes, need_root, skip};
use std::path::Path;
use std::process::Command;

/// Frames of a run, numbered.
const FRAMES: u32 = 2_000;

/// The folder with the library; skips `test` where it cannot be made.
fn library(test: &str) -> Option<Folder> {
    if !need_root(test) {
        return None;
    }
    let folder = Folder::new();
    match fakes::pf_ring(Path::new(arg(&folder.path("")))) {
        Ok(_) => Some(folder),
        Err(error) => {
            skip(test, &error);
            None
        }
    }
}

/// Has the linker look into `folder` first.
fn finds(mut command: Command, folder: &Folder) -> Command {
    command.env("LD_LIBRARY_PATH", folder.path(""));
    command
}

fn frames() -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let port = (1_024 + number as u16 % 10).to_be_bytes();
        let ip = [0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let udp = [port[0], port[1], 0, 9, 0, 66, 0, 0];
        [&[2; 12][..], &[8, 0], &ip, &udp, &number.to_be_bytes(), &[7; 54]].concat()
    };
    (0..FRAMES).map(frame).collect()
}

/// What is sent by PF_RING is what PF_RING receives, on two lanes, by a filter, each frame in the
/// account.
#[test]
fn what_is_replayed_is_received_and_accounted_for() {
    let Some(folder) = library("what_is_replayed_is_received_and_accounted_for") else { return };
    let network = Network::up();
    let [sent, received] = ["sent.pcap", "received.pcapng"].map(|name| folder.path(name));
    write_pcap(&sent, frames().iter().map(Vec::as_slice));
    let mut command = finds(network.capture_command(), &folder);
    command.args(["--json", "-i", "pf-ring:rx0", "--queues", "2", "-w", arg(&received)]);
    command.arg("portrange 1024-1026");
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let mut command = finds(Command::new(ringside()), &folder);
    command.args(["send", "--netns", network.sender(), "-i", "pf-ring:tx0", "-r", arg(&sent)]);
    command.args(["--speed", "100", "--sink", "pf-ring", "--json"]);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let report = &outcome.json_lines()[0];
    assert_eq!(report["sent"]["accepted"], FRAMES, "{report:#}");
    let outcome = running.stop();
    assert!(outcome.stderr.contains("PF_RING 8.9.0"), "{}", outcome.stderr);
    let ledger = outcome.checked_ledger(FRAMES.into());
    let taken = u64::from(FRAMES) * 3 / 10;
    assert_eq!((ledger.taken, ledger.filtered), (taken, Some(u64::from(FRAMES) - taken)));
    assert_eq!(ledger.lanes.len(), 2);
}

/// Without the library the error says where it is to be had.
#[test]
fn a_device_without_the_library_is_refused_with_the_fix() {
    let outcome = run_ringside(&["capture", "-i", "pf-ring:lo", "--count"]);
    if outcome.stderr.contains("PF_RING ") && !outcome.stderr.contains("packages.ntop.org") {
        return skip("pf-ring: a_device_without_the_library", "PF_RING's library is installed");
    }
    assert_eq!(outcome.code(), Some(2));
    for text in ["libpfring.so was not found", "packages.ntop.org", "ldconfig"] {
        assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
    }
}
