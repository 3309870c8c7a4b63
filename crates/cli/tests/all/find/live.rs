//! Recordings that go on while they are searched.

use super::{find, index, number};
use crate::common::verifier::shape;
use crate::common::*;
use ringside_testkit::{need_root, wait_until};
use ringside_transmit::SenderKind;
use rustix::process::Signal;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn what_was_received_just_now_is_found_with_an_index_of_what_came_before() {
    if !need_root("find::live::what_was_received_just_now_is_found") {
        return;
    }
    let (network, dir) = (Network::up(), tempfile::tempdir().unwrap());
    let recording = dir.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&recording), "-C", "2MiB"]);
    running.wait_for_stderr("listening on");
    let found = |count: u64| {
        let (packets, answer, _) = find(&[&recording], &["udp"]);
        assert!(packets.len() as u64 <= count, "{answer}");
        packets.len() as u64 == count
    };
    network.send(SenderKind::Live, &shape(&[900], 16), 5_000, None);
    wait_until("the first packets are found", || found(5_000));
    index(&[&recording]);
    assert!(found(5_000), "with the index of what is complete");
    network.send(SenderKind::Live, &shape(&[900], 16), 3_000, None);
    wait_until("the next packets are found", || found(8_000));
    let (_, answer, _) = find(&[&recording], &["udp"]);
    assert!(number(&answer, &["plan", "blocks", "total"]) > 1, "the old index is used: {answer}");
    let outcome = running.stop();
    outcome.checked_ledger(8_000);
    assert!(found(8_000));
    index(&[&recording]);
    let (_, answer, _) = find(&[&recording], &["host 203.0.113.77"]);
    assert_eq!(number(&answer, &["plan", "blocks", "read"]), 0, "{answer}");
    assert_eq!(number(&answer, &["plan", "files", "without_index"]), 0, "{answer}");
}

#[test]
fn a_signal_leaves_a_whole_file_and_is_said() {
    let traffic = super::Traffic::written();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("found.pcapng");
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(ringside());
    command.args(["find", "-r", "-", "-w", arg(&file)]);
    let (theirs, mut input) = std::io::pipe().unwrap();
    command.stdin(theirs).stdout(Stdio::null());
    let running = Running::start_directed(command);
    // A part of a capture, and then nothing more: the search waits for it.
    let bytes = std::fs::read(&traffic.file).unwrap();
    input.write_all(&bytes[..bytes.len() / 2]).unwrap();
    wait_until("packets were copied", || file.metadata().is_ok_and(|m| m.len() > 1_000_000));
    running.signal(Signal::INT);
    let outcome = running.finish();
    drop(input);
    assert_eq!(outcome.code(), Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("ended by a signal: "), "{outcome:?}");
    assert!(outcome.stderr.ends_with("not complete: a signal ended the search\n"), "{outcome:?}");
    assert!(!super::packets_of(&file).is_empty(), "the copy is whole");
}
