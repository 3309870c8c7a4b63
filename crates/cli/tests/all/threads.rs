//! Several threads on one lane, end to end: what was sent is in the files once and in order, every
//! thread has its share, and what cannot be is refused.

use crate::common::verifier::{SIZES, Verifier, shape};
use crate::common::*;
use ringside_lab::LabConfig;
use ringside_testkit::{by_run, need_root};
use ringside_transmit::SenderKind;

/// Frames of one run.
fn frames() -> u64 {
    by_run(30_000, 500_000)
}

/// Frames a second, also where another program uses the machine.
const RATE: u64 = 100_000;

/// The backend, with rings that ride out stalls of a busy machine: nothing may be lost.
fn patient() -> [&'static str; 8] {
    let ring = by_run("64MiB", "256MiB");
    ["-i", "rx0", "--backend", "af-xdp", "--kernel-ring-size", "256MiB", "--ring-size", ring]
}

#[test]
fn several_threads_of_a_lane_keep_the_order_and_share_the_frames() {
    if !need_root("several_threads_of_a_lane_keep_the_order_and_share_the_frames") {
        return;
    }
    for &threads in by_run(&[1, 3][..], &[1, 2, 3, 4]) {
        one_queue(threads, SenderKind::Live, 1);
    }
}

#[test]
fn several_threads_of_each_of_two_lanes_keep_the_order() {
    if need_root("several_threads_of_each_of_two_lanes_keep_the_order") {
        one_queue(2, SenderKind::Packet, 2);
    }
}

fn one_queue(threads: usize, kind: SenderKind, queues: u16) {
    let network = Network::with(LabConfig { queues, ..LabConfig::default() });
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    let number = threads.to_string();
    let own = ["--threads", &number, "-w", arg(&recording)];
    let running = network.capture(&[&patient()[..], &own].concat());
    let shape = shape(&SIZES, 1000);
    let before = network.received();
    let sent = network.send(kind, &shape, frames(), Some(RATE));
    let received = network.received() - before;
    let ledger = running.stop().checked_ledger(received);
    assert_eq!((sent.handed, ledger.taken), (received, received), "{ledger:#?}");
    assert_eq!(ledger.lost(), 0, "{ledger:#?}");
    assert_eq!(ledger.lanes.len(), usize::from(queues));
    for lane in ledger.lanes.iter().filter(|_| threads > 1) {
        let taken = &lane.taken_by_thread;
        assert_eq!((taken.len(), taken.iter().sum::<u64>()), (threads, lane.taken), "{lane:#?}");
        assert!(taken.iter().all(|taken| taken * 10 >= lane.taken), "{lane:#?}");
    }

    let mut recorded = Verifier::new(&shape, frames());
    assert_eq!(recorded.note_directory(&recording), usize::from(queues));
    let report = recorded.report(&sent.streams);
    assert_eq!(report.missing, frames() - sent.handed, "{report:?}");
    assert_eq!((report.duplicates, report.lane_reordered, report.flow_reordered), (0, 0, 0));
    assert_eq!(recorded.frames, sent.handed);
}

#[test]
fn threads_of_a_backend_that_has_one_are_refused_with_the_fix() {
    for backend in ["af-packet", "pcap"] {
        let args = ["capture", "-i", "lo", "--backend", backend, "--threads", "2"];
        let output = run_ringside(&args);
        assert_eq!(output.code(), Some(2), "{}", output.stderr);
        assert!(output.stderr.contains("--queues 2"), "{}", output.stderr);
    }
}
