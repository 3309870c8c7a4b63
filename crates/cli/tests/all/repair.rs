//! `ringside repair`: what it says and returns. No root.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, FrameNumber, SourceInterface, Timestamp};
use ringside_store::block::{BlockHeader, write_block_header, write_packet_block};
use ringside_store::recording::{FileHeader, RunLock, SeriesFile, file_name};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const RUN: &str = "20261121T053000Z-1234";

/// A file of a recording with three frames, of which the last is torn.
fn torn_recording(dir: &Path) -> PathBuf {
    let header = FileHeader { run: RUN.into(), ..FileHeader::default() };
    let interface = SourceInterface::ethernet("eth1");
    let path = dir.join(file_name(Timestamp(0), "eth1", header.lane, 0));
    let file = SeriesFile::create(&path, &header, &[interface]).unwrap();
    let mut block = vec![0; 1000];
    let opened = BlockHeader { number: 0, first_frame: FrameNumber(0), opened: Timestamp(0) };
    let mut at = write_block_header(&mut block, &opened);
    for number in 1..=3 {
        let timestamp = Timestamp(number * 1_000_000_000);
        let meta = FrameMeta { timestamp, wire_bytes: 60, ..FrameMeta::default() };
        at += write_packet_block(&mut block[at..], &Frame { bytes: &[0; 60], meta }, 0);
    }
    // The last three bytes are missing.
    file.file().write_all_at(&block[..at - 3], file.block_offset(0)).unwrap();
    path
}

/// Exit status, standard output and standard error of `ringside repair`.
fn repair(arguments: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(ringside()).arg("repair").args(arguments).arg(dir).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_torn_recording_is_looked_at_repaired_and_then_needs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = torn_recording(dir.path());
    let torn = std::fs::read(&path).unwrap();

    let (status, said, _) = repair(&["--dry-run"], dir.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(&format!("run {RUN}: to be repaired")), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), torn);

    let (status, said, _) = repair(&["--dry-run", "--json"], dir.path());
    let run: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &run["state"], &run["run"]), (Some(1), &"broken".into(), &RUN.into()));
    assert_eq!(run["files"][0]["frames"], 2);
    assert_eq!(run["files"][0]["changes"][0]["change"], "cut");
    assert_eq!(run["lanes"][0]["unknown_after_ns"], 2_000_000_000);

    let (status, said, _) = repair(&[], dir.path());
    assert_eq!(status, Some(0), "{said}");
    let expected = [
        "repaired",
        "0 complete ring blocks, 2 frames kept",
        "bytes of a torn end",
        "lane 0: unknown: what was in memory after 1970-01-01T00:00:02.000000000Z",
    ];
    for part in expected {
        assert!(said.contains(part), "{part}: {said}");
    }
    let read = Command::new(ringside()).args(["read", "-r"]).arg(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(read.stderr).unwrap(), "");
    assert_eq!(String::from_utf8(read.stdout).unwrap().lines().count(), 2);

    let (status, said, _) = repair(&[], dir.path());
    assert_eq!(status, Some(0));
    assert!(
        said.starts_with(&format!("run {RUN}: nothing to repair\n  lane 0: unknown")),
        "{said}"
    );
}

#[test]
fn what_is_recorded_or_cannot_be_repaired_is_said_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = torn_recording(dir.path());
    let lock = RunLock::create(dir.path(), RUN).unwrap();
    let (status, said, _) = repair(&[], dir.path());
    assert_eq!((status, said), (Some(0), format!("run {RUN}: is being recorded: left alone\n")));
    lock.remove().unwrap();

    std::fs::write(&path, vec![0; 10_000]).unwrap();
    let (status, said, complaint) = repair(&[], dir.path());
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(complaint.contains("its header page cannot be read"), "{complaint}");
    assert_eq!(repair(&[], &dir.path().join("none")).0, Some(2));
}
