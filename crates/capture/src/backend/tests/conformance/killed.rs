//! A process that is killed while it receives leaves nothing that the next one would meet.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Set in the process that is killed: the device that it opens.
const DEVICE: &str = "RINGSIDE_TEST_RECEIVER";
/// What it says once frames come.
const RECEIVING: &str = "frames come";

/// Another process receives in full traffic and is killed; the next opening is exact.
pub(super) fn a_killed_worker(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let thread = std::thread::current();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", thread.name().unwrap(), "--nocapture"])
        .env(DEVICE, &request.interface)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let load = Load::start((0..64).map(|number| numbered(number, 100)).collect());
    let receives = lines.any(|line| line.unwrap().contains(RECEIVING));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(receives, "the other process did not receive");
    drop(load);
    // The kernel takes a moment to free a queue.
    wait_until("the next opening", || subject.backend.open(&request).is_ok());
    let mut source = subject.start_one(&request);
    let frames: Vec<Vec<u8>> = (0..500).map(|number| numbered(number, 300)).collect();
    assert_same_bytes(&send_and_take(source.as_mut(), &frames), &frames);
    source.detach().unwrap();
    assert_eq!(drain(source.as_mut()), 0);
    subject.assert_account(source.as_mut(), 500, 500);
}

/// True in the process that is to be killed.
pub(super) fn is_receiver() -> bool {
    std::env::var_os(DEVICE).is_some()
}

/// Receives until this process is killed, or no frame comes.
pub(super) fn receive(subject: &Subject) {
    let request = OpenRequest::new(&std::env::var(DEVICE).unwrap());
    let mut source = subject.start_one(&request);
    let mut says = true;
    while let Some(batch) = source.next_batch(PATIENCE).unwrap() {
        drop(batch);
        if std::mem::take(&mut says) {
            println!("{RECEIVING}");
        }
    }
}
