//! Rules that pin what they match: retention keeps the files, and deletes all others.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::path::{Path, PathBuf};

const MARKED: u16 = 1000;

fn shape(bytes: u16) -> Shape {
    Shape::new(Sizes::fixed(bytes).unwrap(), 4).unwrap()
}

/// Names of the files that the pins of a directory keep, by their notes.
fn pinned(directory: &Path) -> Vec<(String, Vec<String>)> {
    let outcome = run_ringside(&["pin", "--list", "-r", arg(directory), "--json"]);
    let lines = outcome.json_lines();
    let name = |file: &serde_json::Value| file["name"].as_str().unwrap().to_owned();
    let pin = |pin: &serde_json::Value| {
        let files = pin["files"].as_array().unwrap().iter().map(name).collect();
        (pin["note"].as_str().unwrap().to_owned(), files)
    };
    lines.iter().map(pin).collect()
}

/// How many marked frames each file holds.
fn marked(directory: &Path) -> Vec<(PathBuf, u64)> {
    let counted = files_in(directory).into_iter().map(|file| {
        let mut count = 0;
        for_each_frame(std::slice::from_ref(&file), |frame, _| {
            count += u64::from(frame.bytes.len() == usize::from(MARKED));
        });
        (file, count)
    });
    counted.collect()
}

#[test]
fn files_with_frames_that_a_rule_pins_outlive_all_others() {
    if !need_root("files_with_frames_that_a_rule_pins_outlive_all_others") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let rules = folder.add("rules", "7: udp length 1000 => take, pin\ndefault take\n");
    let recording = folder.path("recording");
    let capture = network.capture(&[
        "-i",
        "rx0",
        "--rules",
        arg(&rules),
        "-w",
        arg(&recording),
        "-C",
        "2MiB",
        "--limit-bytes",
        "32MiB",
    ]);
    network.send(SenderKind::Packet, &shape(MARKED), 5, None);
    wait_until("the pin", || !pinned(&recording).is_empty());
    let first = pinned(&recording);
    assert_eq!((first.len(), &*first[0].0, first[0].1.len()), (1, "rule 7", 1), "{first:?}");
    // Twice what may be there, so that all that is not pinned goes.
    network.send(SenderKind::Packet, &shape(1500), 48_000, Some(20_000));
    network.send(SenderKind::Packet, &shape(MARKED), 3, None);
    wait_until("the frames to come", || network.received() >= 48_008);
    capture.stop().checked_ledger(48_008);
    let held = marked(&recording);
    let with_marked: Vec<&PathBuf> =
        held.iter().filter(|(_, count)| *count > 0).map(|(file, _)| file).collect();
    assert_eq!(held.iter().map(|(_, count)| count).sum::<u64>(), 8, "{held:?}");
    let names: Vec<String> = with_marked
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(pinned(&recording), [("rule 7".to_owned(), names)]);
    // Of 70 files of a MiB; those behind the first are gone.
    let second = held[1].0.to_str().unwrap();
    assert!(held.len() < 40 && !second.ends_with("lane0-000001.pcapng"), "{held:?}");
}

#[test]
fn a_rule_that_pins_needs_a_recording_to_a_directory() {
    let folder = Folder::new();
    let rules = folder.add("rules", "7: udp => take, pin");
    let out = folder.path("out.pcapng");
    for more in [&["--count"][..], &["-w", arg(&out)]] {
        let outcome =
            run_ringside(&[&["capture", "-i", "lo", "--rules", arg(&rules)], more].concat());
        assert_eq!(outcome.code(), Some(2));
        assert!(outcome.stderr.contains("rule 7 pins files"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("-w DIR"), "{}", outcome.stderr);
    }
}
