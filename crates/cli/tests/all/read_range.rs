//! `ringside read --from --to --last`: packets of a span of time, by their own stamps.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, SourceInterface, Timestamp};
use ringside_store::Format;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000;

/// A hundred packets, a second apart from [`START`] on.
fn write_capture(path: &Path) {
    let format = Format::of_path(path).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = format.writer(file, &[SourceInterface::ethernet("eth1")]).unwrap();
    for number in 0..100 {
        let timestamp = Timestamp::from_parts(START + number, 0);
        let meta = FrameMeta { wire_bytes: 60, timestamp, ..FrameMeta::default() };
        writer.write(&Frame { bytes: &[7; 60], meta }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

fn read(path: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(ringside());
    command.args(["read", "-tt", "-r"]).arg(path).args(args);
    Running::start(command).finish()
}

/// The seconds after [`START`] of the packets that were printed.
fn seconds(outcome: &Outcome) -> Vec<u64> {
    let text = String::from_utf8(outcome.stdout.clone()).unwrap();
    let stamp = |line: &str| line.split('.').next().unwrap().parse::<u64>().unwrap() - START;
    packet_lines(&text).map(stamp).collect()
}

#[test]
fn packets_are_chosen_by_their_time_with_the_beginning_and_without_the_end() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.pcap", "a.pcapng"] {
        let path = dir.path().join(name);
        write_capture(&path);
        let from = "2023-11-14T22:13:30Z";
        let cases: [(&[&str], std::ops::Range<u64>); 6] = [
            (&["--from", from, "--to", "2023-11-14T23:13:40+01:00"], 10..20),
            (&["--from", "1700000095"], 95..100),
            (&["--to", "1700000003"], 0..3),
            (&["--last", "10s"], 89..100),
            (&["--from", "-10s", "--to", "-5s"], 89..94),
            (&["--last", "1h"], 0..100),
        ];
        for (args, expected) in cases {
            let outcome = read(&path, args);
            assert_eq!(outcome.code(), Some(0), "{args:?}: {outcome:?}");
            assert_eq!(seconds(&outcome), expected.clone().collect::<Vec<_>>(), "{args:?}");
            let (inside, outside) =
                (expected.end - expected.start, 100 + expected.start - expected.end);
            let said = format!("{inside} packets of the range, {outside} outside; ");
            assert!(outcome.stderr.contains(&said), "{args:?}: {}", outcome.stderr);
        }
        assert_eq!(read(&path, &["--from", "1800000000"]).code(), Some(1), "nothing is found");
        assert_eq!(read(&path, &[]).stderr, "", "without a range nothing is said");
    }
}

#[test]
fn what_was_read_is_told_as_json_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    write_capture(&path);
    let outcome = read(&path, &["--json", "--last", "9s"]);
    let said: serde_json::Value = serde_json::from_str(outcome.stderr.trim()).unwrap();
    let said = &said["read"];
    assert_eq!((&said["packets"], &said["packets_outside"]), (&10.into(), &90.into()));
    assert!(said["bytes_read"].as_u64().unwrap() >= path.metadata().unwrap().len());
    let lines = String::from_utf8(outcome.stdout).unwrap();
    assert_eq!(lines.lines().count(), 10, "only packets are data");
}

#[test]
fn times_that_cannot_be_meant_are_refused_with_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    write_capture(&path);
    let cases: [(&[&str], &str); 6] = [
        (&["--from", "noon"], "2026-03-01T12:00:00Z"),
        (&["--to", "10m"], "-10m"),
        (&["--last", "soon"], "10s, 5m or 1h 30m"),
        (&["--last", "1m", "--from", "-2m"], "cannot be used with"),
        (&["--from", "1700000050", "--to", "1700000050"], "as 2026-03-01T12:05:00Z after"),
        (&["--from", "-5s", "--to", "-10s"], "nothing lies between"),
    ];
    for (args, part) in cases {
        let outcome = read(&path, args);
        assert_eq!(outcome.code(), Some(2), "{args:?}");
        assert!(outcome.stderr.contains(part), "{args:?}: {}", outcome.stderr);
    }
    let outcome = read(Path::new("-"), &["--last", "1m"]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("of a stream is known only at its end"), "{}", outcome.stderr);
}
