//! A capture that is killed leaves a card that works.

use crate::common::*;
use crate::pair::{Card, Pair, need_option};
use ringside_transmit::{Shape, Sizes};
use rustix::process::Signal;

/// Frames before the kill, and after it.
const FRAMES: u64 = 1_000;

#[test]
fn igb_after_a_kill_of_af_packet() {
    if let Some(pair) = Card::Igb.pair("igb_after_a_kill_of_af_packet") {
        kill(&pair, "af-packet");
    }
}

#[test]
fn igb_after_a_kill_of_af_xdp() {
    const TEST: &str = "igb_after_a_kill_of_af_xdp";
    if !need_option(TEST, "capture", "af-xdp") {
        return;
    }
    if let Some(pair) = Card::Igb.pair(TEST) {
        kill(&pair, "af-xdp");
    }
}

/// Kills keeper and worker at once: no process is left to put anything back.
fn kill(pair: &Pair, backend: &str) {
    let shape = Shape::new(Sizes::fixed(64).unwrap(), 64).unwrap();
    let running = pair.capture(&["--backend", backend, "--queues", "2"]);
    pair.send_numbered(&shape, FRAMES);
    let worker = running.worker_pid();
    assert_ne!(worker, 0, "there is a worker");
    // The keeper first, so that it does not see the worker die.
    running.signal(Signal::STOP);
    running.signal_worker(Signal::KILL);
    running.signal(Signal::KILL);
    running.finish();
    wait_until("the worker's end", || !std::path::Path::new(&format!("/proc/{worker}")).exists());

    pair.check_that_the_stack_talks();
    let program = run_clean("ip", &["link", "show", pair.receiver()]);
    assert!(!program.contains("xdp"), "{program}");
    // And it can be captured from again.
    let running = pair.capture(&["--backend", backend, "--queues", "2"]);
    pair.send_numbered(&shape, FRAMES);
    let ledger = running.stop().checked_ledger(FRAMES);
    assert_eq!((ledger.taken, ledger.lost()), (FRAMES, 0), "{ledger:#?}");
}
