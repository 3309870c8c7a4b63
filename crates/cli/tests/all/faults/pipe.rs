//! The reader of `-w -`: stopped, or gone.

use super::support::*;
use crate::common::*;
use ringside_core::Cause;
use ringside_testkit::need_root;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Command, Stdio};

/// Far more than the capture ring, the pipe and all buffers between hold.
const FRAMES: u64 = 60_000;
const FRAME_BYTES: u16 = 512;
const SMALL_RING: [&str; 6] = ["-i", "rx0", "--ring-size", "4MiB", "-w", "-"];

/// Starts a capture that writes to the pipe, and waits until it listens.
fn capture_to(network: &Network, pipe: impl Into<Stdio>) -> Running {
    let mut command = network.capture_command();
    command.args(SMALL_RING).stdout(pipe);
    let running = Running::start_directed(command);
    running.wait_for_stderr("listening on");
    running
}

fn signal(helper: &Helper, signal: Signal) {
    kill_process(Pid::from_child(&helper.0), signal).unwrap();
}

/// Stops the reader and fills the ring.
fn fill(network: &Network, reader: &Helper) -> u64 {
    signal(reader, Signal::STOP);
    let stat = format!("/proc/{}/stat", reader.0.id());
    wait_until("the reader to stop", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    send(network, FRAME_BYTES, FRAMES).handed
}

#[test]
fn a_stopped_reader_holds_nothing_up_and_its_losses_are_counted() {
    if !need_root("a_stopped_reader") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let read = folder.path().join("read.pcapng");
    let (from, to) = std::io::pipe().unwrap();
    let reader = Helper::cat(from, &read);
    let running = capture_to(&network, to);
    let handed = fill(&network, &reader);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    for text in ["does not read", "the last frame in the pipe may be torn"] {
        assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
    }
    let ledger = printed_ledger(&outcome.stderr);
    assert_eq!(ledger.received, Some(handed));
    assert!(ledger.dropped[&Cause::RecorderBehind] > 0, "{ledger:#?}");
    assert!(ledger.consumers[0].missed[&Cause::PipeStalled] > 0, "{ledger:#?}");
    // What lay in the pipe is read when the reader goes on: what was counted, and no whole frame
    // more.
    signal(&reader, Signal::CONT);
    reader.finish();
    assert_eq!(count(&[read]), ledger.consumers[0].delivered);
}

#[test]
fn a_reader_that_goes_on_gets_everything_that_was_delivered() {
    if !need_root("a_reader_that_goes_on") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let read = folder.path().join("read.pcapng");
    let (from, to) = std::io::pipe().unwrap();
    let reader = Helper::cat(from, &read);
    let running = capture_to(&network, to);
    let handed = fill(&network, &reader);
    signal(&reader, Signal::CONT);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let ledger = printed_ledger(&outcome.stderr);
    assert_eq!(ledger.received, Some(handed));
    assert!(ledger.dropped[&Cause::RecorderBehind] > 0, "{ledger:#?}");
    assert_eq!(ledger.consumers[0].delivered, ledger.taken, "{ledger:#?}");
    reader.finish();
    assert_eq!(packets_by_wireshark(&read), ledger.taken);
}

#[test]
fn a_reader_that_had_enough_ends_the_run_without_an_error() {
    if !need_root("a_reader_that_had_enough") {
        return;
    }
    let network = Network::up();
    let (mut from, to) = std::io::pipe().unwrap();
    let running = capture_to(&network, to);
    send(&network, FRAME_BYTES, 1_000);
    from.read_exact(&mut [0; 10_000]).unwrap();
    drop(from);
    send(&network, FRAME_BYTES, 1_000);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let ledger = printed_ledger(&outcome.stderr);
    assert!(ledger.consumers[0].missed[&Cause::PipeClosed] > 0, "{ledger:#?}");
    assert!(ledger.consumers[0].delivered > 0, "{ledger:#?}");
}

#[test]
fn tshark_reads_the_stream_live_and_may_leave_early() {
    if !need_root("tshark_reads_the_stream") {
        return;
    }
    let network = Network::up();
    let (from, to) = std::io::pipe().unwrap();
    let mut command = Command::new("tshark");
    command.args(["-n", "-l", "-c", "5", "-r", "-", "-T", "fields", "-e", "frame.len"]);
    command.stdin(from).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tshark = Helper(command.spawn().unwrap());
    // It holds the end of the pipe that tshark is to close.
    drop(command);
    let running = capture_to(&network, to);
    send(&network, FRAME_BYTES, 5);
    // The capture goes on; five frames are all that tshark waits for.
    wait_until("tshark's end", || tshark.0.try_wait().unwrap().is_some());
    let mut text = String::new();
    tshark.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "512\n".repeat(5));
    send(&network, FRAME_BYTES, 100);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    printed_ledger(&outcome.stderr);
}
