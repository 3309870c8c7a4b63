//! Recordings that are compressed: found in as before, whatever is killed meanwhile.

use super::traffic::{FRAMES, Traffic, rare_flow};
use super::{find, index, number};
use crate::common::*;
use ringside_testkit::{Random, by_run, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn packed_in(directory: &Path) -> usize {
    files_in(directory).iter().filter(|path| arg(path).ends_with(".pcapng.zst")).count()
}

fn account(outcome: &Outcome) -> Value {
    outcome.json_lines().last().unwrap()["account"].clone()
}

#[test]
fn a_compressed_recording_gives_the_same_answers_by_the_same_index() {
    let traffic = Traffic::recorded();
    let (recording, expression) = (&*traffic.recording, rare_flow());
    index(&[recording]);
    let (expected, plain, _) = find(&[recording], &[&expression]);
    let files = files_in(recording).iter().filter(|path| arg(path).ends_with("pcapng")).count();
    let all = run_ringside(&["read", "-n", "-r", arg(recording)]);

    let none = run_ringside(&["compress", "--json", "--older", "1d", arg(recording)]);
    assert_eq!((none.code(), number(&account(&none), &["files_compressed"])), (Some(0), 0));
    let outcome = run_ringside(&["compress", "--json", arg(recording)]);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let account = account(&outcome);
    // What is random does not become smaller.
    let done = number(&account, &["files_compressed"]) + number(&account, &["files_left"]);
    assert_eq!((done, number(&account, &["files_failed"])), (files as u64, 0));
    assert_eq!(packed_in(recording) as u64, number(&account, &["files_compressed"]));
    assert!(packed_in(recording) > 0, "{account}");

    let (packets, answer, outcome) = find(&[recording], &[&expression]);
    assert!(packets == expected, "{outcome:?}");
    assert_eq!(number(&answer, &["plan", "files", "without_index"]), 0, "{answer}");
    assert_eq!(answer["plan"]["blocks"], plain["plan"]["blocks"], "as before");
    let read = number(&answer, &["plan", "bytes", "read"]);
    assert!(read * 2 < number(&answer, &["plan", "bytes", "total"]), "{answer}");
    let again = run_ringside(&["read", "-n", "-r", arg(recording)]);
    assert_eq!((again.stdout == all.stdout, again.code()), (true, all.code()), "{again:?}");
    let indexed = index(&[recording]);
    assert_eq!(number(indexed.last().unwrap(), &["account", "files_good"]), files as u64);
}

#[test]
fn whatever_moment_it_is_killed_at_each_packet_is_there_once() {
    let traffic = Traffic::recorded();
    let recording = &*traffic.recording;
    let mut random = Random::new(ringside_testkit::number("RINGSIDE_SEED").unwrap_or(3));
    for _ in 0..by_run(6, 1_000) {
        let mut command = Command::new(ringside());
        command.args(["compress", arg(recording)]);
        let running = Running::start_directed(command);
        std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        running.signal(Signal::KILL);
        running.finish();
        let counted = run_ringside(&["find", "--count", "-r", arg(recording)]);
        assert_eq!(counted.text().trim(), FRAMES.to_string(), "{counted:?}");
        assert_eq!(counted.code(), Some(0), "{counted:?}");
        // Then it begins anew, with no file compressed.
        if packed_in(recording) > 3 {
            for path in files_in(recording).iter().filter(|path| arg(path).ends_with(".zst")) {
                run_clean("zstd", &["-q", "-f", "-d", "--rm", arg(path)]);
            }
        }
    }
    let outcome = run_ringside(&["compress", "--json", arg(recording)]);
    assert_eq!((outcome.code(), number(&account(&outcome), &["files_failed"])), (Some(0), 0));
    let hidden =
        files_in(recording).into_iter().filter(|path| arg(path).ends_with(".next")).count();
    assert_eq!(hidden, 0, "nothing is left");
    let counted = run_ringside(&["find", "--count", "-r", arg(recording)]);
    assert_eq!(counted.text().trim(), FRAMES.to_string(), "{counted:?}");
}

#[test]
fn a_recorder_compresses_what_is_old_while_it_records() {
    let (traffic, dir) = (Traffic::written(), tempfile::tempdir().unwrap());
    let recording = dir.path().join("recording");
    let mut command = Command::new(ringside());
    command.args(["capture", "--json", "-r", "-", "-w", arg(&recording)]);
    command.args(["-C", "2MiB", "--compress-after", "0.1"]);
    let (theirs, mut input) = std::io::pipe().unwrap();
    command.stdin(theirs).stdout(Stdio::piped());
    let running = Running::start_directed(command);
    let bytes = traffic.stream();
    let (first, rest) = bytes.split_at(bytes.len() * 2 / 3);
    input.write_all(first).unwrap();
    wait_until("files are compressed", || recording.is_dir() && packed_in(&recording) > 2);
    let counted = run_ringside(&["find", "--count", "-r", arg(&recording)]);
    assert!(!counted.stderr.contains("missing"), "{counted:?}");
    input.write_all(rest).unwrap();
    drop(input);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let said = outcome.json_lines();
    let kept = said.iter().find_map(|line| line.get("retention")).unwrap();
    assert_eq!(number(kept, &["packed_files"]), packed_in(&recording) as u64);
    assert!(number(kept, &["packed_bytes"]) < number(kept, &["packed_bytes_before"]));
    let counted = run_ringside(&["find", "--count", "-r", arg(&recording)]);
    assert_eq!((counted.text().trim(), counted.code()), (&*FRAMES.to_string(), Some(0)));
}
