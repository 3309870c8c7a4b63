//! `ringside repair`: what it says and returns. No root.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, FrameNumber, SourceInterface, Timestamp};
use ringside_store::Format;
use ringside_store::block::{BlockHeader, write_block_header, write_packet_block};
use ringside_store::dir::{Dir, Entry};
use ringside_store::recording::{FileHeader, RunLock, SeriesFile, file_name};
use ringside_testkit::need_root;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const RUN: &str = "20261121T053000Z-1234";

/// A file of a recording with three frames, of which the last is torn.
fn torn_recording(dir: &Path) -> PathBuf {
    let header = FileHeader { run: RUN.into(), ..FileHeader::default() };
    let interface = SourceInterface::ethernet("eth1");
    let path = dir.join(file_name(Timestamp(0), "eth1", header.lane, 0));
    let file = SeriesFile::create(Entry::at(&path).unwrap(), &header, &[interface]).unwrap();
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
    let lock = RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap();
    let (status, said, _) = repair(&[], dir.path());
    assert_eq!((status, said), (Some(0), format!("run {RUN}: is being recorded: left alone\n")));
    lock.remove().unwrap();

    std::fs::write(&path, vec![0; 10_000]).unwrap();
    let (status, said, complaint) = repair(&[], dir.path());
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(complaint.contains("its header page cannot be read"), "{complaint}");
    assert_eq!(repair(&[], &dir.path().join("none")).0, Some(2));
}

#[test]
fn reading_says_that_a_recording_was_never_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = torn_recording(dir.path());
    let read = |input: &Path| {
        let outcome = run_ringside(&["read", "-r", arg(input)]);
        assert_eq!(outcome.text().lines().count(), 2, "{outcome:?}");
        (outcome.code(), outcome.stderr)
    };
    // While it is recorded, its end may be half a record.
    let lock = RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap();
    for input in [dir.path(), &path] {
        assert_eq!(read(input), (Some(0), String::new()));
    }
    drop(lock);
    for input in [dir.path(), &path] {
        let (code, said) = read(input);
        let expected = format!("{}: run {RUN} was never ended", dir.path().display());
        assert_eq!((code, said.matches(&expected).count()), (Some(1), 1), "{said}");
        assert!(said.contains("cut short") && said.contains("ringside repair"), "{said}");
    }
    assert_eq!(repair(&[], dir.path()).0, Some(0));
    for input in [dir.path(), &path] {
        assert_eq!(read(input), (Some(0), String::new()));
    }
}

/// A capture file of two frames, of which the second is torn, as `ringside read -w` began it.
fn torn_capture(dir: &Path, name: &str) -> (PathBuf, u64) {
    let path = dir.join(name);
    let file = std::fs::File::create(&path).unwrap();
    let interface = SourceInterface::ethernet("eth1");
    let mut writer = Format::of_path(&path).unwrap().writer(file, &[interface]).unwrap();
    let meta = FrameMeta { wire_bytes: 60, ..FrameMeta::default() };
    writer.write(&Frame { bytes: &[0; 60], meta }).unwrap();
    writer.finish(&[]).unwrap();
    let whole = writer.bytes_written();
    writer.write(&Frame { bytes: &[0; 60], meta }).unwrap();
    writer.finish(&[]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(writer.bytes_written() - 5).unwrap();
    (path, whole)
}

#[test]
fn a_single_file_is_repaired_or_needs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["killed.pcapng", "killed.pcap"] {
        let (path, whole) = torn_capture(dir.path(), name);
        let bytes = || std::fs::metadata(&path).unwrap().len();
        let torn = bytes();
        let (status, said, _) = repair(&["--dry-run"], &path);
        assert_eq!((status, bytes()), (Some(1), torn), "{said}");
        assert!(said.contains(&format!("{name}: to be repaired: 1 packet")), "{said}");
        // A process that has it open may write on.
        let open = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let (status, said, complaint) = repair(&[], &path);
        assert_eq!((status, said.as_str(), bytes()), (Some(2), "", torn));
        assert!(complaint.contains("another process has it open"), "{complaint}");
        drop(open);
        let (status, said, complaint) = repair(&["--json"], &path);
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((status, complaint.as_str(), bytes()), (Some(0), "", whole));
        assert_eq!((&report["state"], &report["frames"]), (&"repaired".into(), &1.into()));
        assert_eq!(report["changes"][0]["change"], "cut");
        let (status, said, _) = repair(&[], &path);
        assert_eq!(status, Some(0));
        assert!(said.contains(&format!("{name}: nothing to repair: 1 packet")), "{said}");
        assert_eq!(run_ringside(&["read", "-r", arg(&path)]).code(), Some(0));
    }
    let text = dir.path().join("text");
    std::fs::write(&text, "Not a capture, but some words.").unwrap();
    let (status, _, complaint) = repair(&[], &text);
    assert_eq!(status, Some(2));
    assert!(complaint.contains("neither pcap nor pcapng"), "{complaint}");
}

#[test]
fn who_may_write_a_file_but_does_not_own_it_is_told_who_can_repair_it() {
    if !need_root("who_may_write_a_file_but_does_not_own_it") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    // The program may lie where that user cannot go.
    let program = dir.path().join("ringside");
    std::fs::copy(ringside(), &program).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    let (path, _) = torn_capture(dir.path(), "killed.pcap");
    mode(&path, 0o660);
    chown(&path, None, Some(NOBODY)).unwrap();
    let torn = std::fs::read(&path).unwrap();
    let mut command = Command::new(&program);
    command.arg("repair").arg(&path).uid(NOBODY).gid(NOBODY);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code(), Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("only its owner or root"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("end that process"), "{}", outcome.stderr);
    assert_eq!(std::fs::read(&path).unwrap(), torn);
}

#[test]
fn of_a_torn_compressed_file_is_said_how_to_copy_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let packed = "is compressed (gzip), and such a file is not repaired";
    // zstd gives whole blocks, and this file is one.
    let nothing = "ends early: zstd has packed no header of a capture";
    for (name, said_of_it) in [("a.pcap.gz", packed), ("a.pcapng.zst", nothing)] {
        let path = dir.path().join(name);
        let input = torn_capture(dir.path(), "in.pcap").0;
        run_ringside(&["read", "-r", arg(&input), "-w", arg(&path)]);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 2).unwrap();
        let (status, said, complaint) = repair(&[], &path);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{complaint}");
        let is_readable = complaint.contains("`ringside read -r FILE -w NEW`");
        assert!(
            complaint.contains(said_of_it) && is_readable == (said_of_it == packed),
            "{complaint}"
        );
        assert_eq!(complaint.matches(arg(&path)).count(), 1, "{complaint}");
    }
}

#[test]
fn a_directory_without_a_recording_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let (status, said, complaint) = repair(&[], dir.path());
    assert_eq!((status, said.as_str()), (Some(1), ""));
    assert!(complaint.contains("holds no file of a recording"), "{complaint}");
}

#[test]
fn what_another_user_may_not_read_is_not_said_to_be_no_recording() {
    if !need_root("what_another_user_may_not_read") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    // The program may lie where that user cannot go.
    let program = dir.path().join("ringside");
    std::fs::copy(ringside(), &program).unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    let recording = dir.path().join("recording");
    std::fs::create_dir(&recording).unwrap();
    mode(&torn_recording(&recording), 0o600);
    let refused = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).arg(&recording).uid(NOBODY).gid(NOBODY);
        let outcome = Running::start(command).finish();
        assert_eq!((outcome.code(), outcome.text().as_str()), (Some(2), ""), "{outcome:?}");
        assert!(outcome.stderr.contains("Permission denied"), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("holds no file"), "{}", outcome.stderr);
    };
    for directory_mode in [0o755, 0o700] {
        mode(&recording, directory_mode);
        refused(&["repair"]);
        refused(&["read", "-r"]);
    }
    // Neither can be done with files that are only to be read.
    mode(&recording, 0o777);
    chown(&recording, Some(NOBODY), None).unwrap();
    refused(&["repair"]);
}

#[test]
fn a_name_on_disk_tells_the_terminal_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let name = "x\u{1b}]0;owned\u{7}\nringside: all is well\u{202e}.pcapng";
    std::fs::write(dir.path().join(name), b"no capture").unwrap();
    for args in [vec!["repair", arg(dir.path())], vec!["read", "-r", arg(dir.path())]] {
        let outcome = run_ringside(&args);
        let said = format!("{}{}", outcome.text(), outcome.stderr);
        assert!(said.lines().all(|line| !line.starts_with("ringside: all is well")), "{said:?}");
        let is_plain = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(said.chars().all(is_plain), "{said:?}");
    }
    let file = dir.path().join(name);
    let outcome = run_ringside(&["repair", arg(&file)]);
    assert!(outcome.stderr.contains("x\\u{1b}]0;owned\\u{7}\\nringside"), "{:?}", outcome.stderr);
}
