//! Pins: what retention keeps, and what is said of it.

use super::traffic::{START_SECONDS, Traffic, rare_flow};
use super::{find, number};
use crate::common::*;
use ringside_testkit::wait_until;
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn list(directory: &Path) -> Vec<Value> {
    let outcome = run_ringside(&["pin", "--list", "--json", "-r", arg(directory)]);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    outcome.json_lines()
}

fn files_of(pin: &Value) -> Vec<String> {
    let names = pin["files"].as_array().unwrap().iter();
    names.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
}

/// Records the traffic once more into a directory of at most 9 MiB.
fn record_more(traffic: &Traffic, directory: &Path) -> Outcome {
    let args = ["capture", "--json", "-r", arg(&traffic.file), "-w", arg(directory)];
    run_ringside(&[&args[..], &["-C", "2MiB", "--limit-bytes", "9MiB"]].concat())
}

#[test]
fn the_answer_of_a_question_outlives_what_is_recorded_later() {
    let traffic = Traffic::recorded();
    let (recording, expression) = (&*traffic.recording, rare_flow());
    let (expected, ..) = find(&[recording], &[&expression]);
    let pin = ["pin", "--json", "-r", arg(recording), "--note", "why"];
    let outcome = run_ringside(&[&pin[..], &[expression.as_str()]].concat());
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let made = &outcome.json_lines()[0]["pin"];
    assert_eq!(number(made, &["id"]), 1);
    let pins = list(recording);
    assert_eq!(
        (pins.len(), &pins[0]["note"], &pins[0]["filter"]),
        (1, &"why".into(), &expression.clone().into())
    );
    let names = files_of(&pins[0]);
    assert!(!names.is_empty() && names.len() < 3, "{names:?}");

    let outcome = record_more(&traffic, recording);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let kept = outcome.json_lines().into_iter().find_map(|line| line.get("retention").cloned());
    assert_eq!(number(&kept.unwrap(), &["pinned_files"]), names.len() as u64);
    let paths: Vec<PathBuf> = names.iter().map(|name| recording.join(name)).collect();
    assert!(paths.iter().all(|path| path.exists()), "{paths:?}");
    let inputs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    assert!(find(&inputs, &[&expression]).0 == expected, "all of the answer is there");

    let none = run_ringside(&["pin", "-r", arg(recording), "host", "203.0.113.77"]);
    assert_eq!((none.code(), list(recording).len()), (Some(1), 1), "{none:?}");
    let wrong = run_ringside(&["unpin", "-r", arg(recording), "7"]);
    assert_eq!(wrong.code(), Some(1), "{wrong:?}");
    let outcome = run_ringside(&["unpin", "-r", arg(recording), "1"]);
    assert_eq!((outcome.code(), list(recording).len()), (Some(0), 0), "{outcome:?}");
    record_more(&traffic, recording);
    assert!(paths.iter().all(|path| !path.exists()), "it is old");
}

#[test]
fn a_running_recorder_honours_a_pin_at_once_and_a_kill_changes_nothing() {
    let (traffic, dir) = (Traffic::written(), tempfile::tempdir().unwrap());
    let recording = dir.path().join("recording");
    let mut command = Command::new(ringside());
    command.args(["capture", "--no-keeper", "-r", "-", "-w", arg(&recording)]);
    command.args(["-C", "1MiB", "--limit-bytes", "8MiB", "--pin-bytes", "3MiB"]);
    let (theirs, mut input) = std::io::pipe().unwrap();
    command.stdin(theirs).stdout(Stdio::null());
    let running = Running::start_directed(command);
    let bytes = traffic.stream();
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    input.write_all(first).unwrap();
    let is_there = || recording.is_dir() && files_in(&recording).len() > 3;
    wait_until("the first files are there", is_there);
    let to = (START_SECONDS + 1).to_string();
    let pin = ["pin", "--json", "-r", arg(&recording), "--to", &to];
    let outcome = run_ringside(&pin);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let refused = run_ringside(&["pin", "-r", arg(&recording), "--from", "0"]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--pin-bytes"), "{refused:?}");
    let names = files_of(&list(&recording)[0]);
    input.write_all(&rest[..rest.len() * 3 / 4]).unwrap();
    let last = |path: &PathBuf| arg(path).ends_with("-000009.pcapng");
    wait_until("the limit was reached", || files_in(&recording).iter().any(last));
    running.signal(Signal::KILL);
    running.finish();
    drop(input);
    assert!(names.iter().all(|name| recording.join(name).exists()), "{names:?}");
    assert_eq!(list(&recording).len(), 1);
    let outcome = record_more(&traffic, &recording);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    assert!(names.iter().all(|name| recording.join(name).exists()), "{names:?}");
}
