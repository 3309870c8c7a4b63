//! What was sent into a card is in the files, once, in order within each lane, byte by byte, and
//! the ledger says so.

use crate::common::*;
use crate::pair::{Card, Pair, need_option};
use ringside_core::Ledger;
use ringside_store::recording::series_of;
use ringside_transmit::{SequenceCheck, Shape, Sizes, Stamp};
use std::path::Path;

/// Frames of a run: more than the card's rings hold, many times.
pub const FRAMES: u64 = 10_000;

/// A card pads what is shorter; the longest is that of the MTU.
pub const SIZES: [u16; 8] = [60, 61, 64, 65, 128, 256, 590, 1514];

/// Enough that a random key spreads them over all queues; an odd number, so not by halves.
pub const FLOWS: u32 = 63;

#[test]
fn igb_with_af_packet() {
    if let Some(pair) = Card::Igb.pair("igb_with_af_packet") {
        // By the receive queue: a lane is a queue of the card.
        let run = Exactness::run(&pair, &["--backend", "af-packet", "--fanout", "queue"]);
        run.check_both_lanes();
        run.check_lanes_are_queues();
    }
}

#[test]
fn igb_with_af_xdp_in_zero_copy() {
    zero_copy("igb_with_af_xdp_in_zero_copy", Card::Igb);
}

#[test]
fn virtio_with_af_packet() {
    if let Some(pair) = Card::Virtio.pair("virtio_with_af_packet") {
        let run = Exactness::run(&pair, &["--backend", "af-packet", "--fanout", "queue"]);
        run.check_both_lanes();
    }
}

#[test]
fn virtio_with_af_xdp_in_zero_copy() {
    zero_copy("virtio_with_af_xdp_in_zero_copy", Card::Virtio);
}

#[test]
fn igb_with_xdp_ring() {
    ring("igb_with_xdp_ring", Card::Igb);
}

#[test]
fn virtio_with_xdp_ring() {
    ring("virtio_with_xdp_ring", Card::Virtio);
}

/// The program copies the frames of every queue, and nothing is lost or taken twice.
fn ring(test: &str, card: Card) {
    if !need_option(test, "capture", "xdp-ring") {
        return;
    }
    let Some(pair) = card.pair(test) else { return };
    let run = Exactness::run(&pair, &["--backend", "xdp-ring"]);
    run.check_both_lanes();
    if card == Card::Igb {
        run.check_lanes_are_queues();
    }
    pair.check_that_the_stack_talks();
}

/// The driver gives every queue's memory to the socket, and nothing is lost or taken twice.
fn zero_copy(test: &str, card: Card) {
    if !need_option(test, "capture", "af-xdp") {
        return;
    }
    let Some(pair) = card.pair(test) else { return };
    let run = Exactness::run(&pair, &["--backend", "af-xdp"]);
    println!("{}", run.said);
    assert!(run.said.contains("native, zero-copy"), "{}", run.said);
    run.check_both_lanes();
    if card == Card::Igb {
        run.check_lanes_are_queues();
    }
    pair.check_that_the_stack_talks();
}

/// A run of two lanes that was found exact.
struct Exactness {
    ledger: Ledger,
    /// What each queue of the card received, where its driver counts that in ethtool's statistics.
    by_queue: Vec<u64>,
    /// What the program said on standard error.
    said: String,
}

impl Exactness {
    /// Records numbered frames in two lanes, with `args`, and checks all but the lanes' shares.
    fn run(pair: &Pair, args: &[&str]) -> Exactness {
        let directory = tempfile::tempdir().unwrap();
        let recording = directory.path().join("recording");
        let mut all = vec!["--queues", "2", "-w", arg(&recording)];
        all.extend(["--ring-size", "64MiB"]);
        all.extend(args);
        let running = pair.capture(&all);
        let (before, by_queue_before) = (pair.received(), pair.received_by_queue());
        let shape = Shape::new(Sizes::list(&SIZES).unwrap(), FLOWS).unwrap();
        pair.send_numbered(&shape, FRAMES);
        let by_queue = pair.received_by_queue().into_iter().zip(by_queue_before);
        let by_queue: Vec<u64> = by_queue.map(|(after, before)| after - before).collect();
        let received = pair.received() - before;
        let outcome = running.stop();
        let ledger = outcome.checked_ledger(received);
        assert_eq!((ledger.taken, ledger.lost()), (FRAMES, 0), "{ledger:#?}");
        assert_eq!(ledger.lanes.len(), 2, "{ledger:#?}");
        let sent = |stamp: &Stamp| shape.frame(stamp.stream, stamp.sequence);
        check_files(&recording, sent, pair.keeps_order());
        Exactness { ledger, by_queue, said: outcome.stderr }
    }

    fn taken(&self) -> Vec<u64> {
        self.ledger.lanes.iter().map(|lane| lane.taken).collect()
    }

    /// No lane was left out by the card's hash.
    fn check_both_lanes(&self) {
        let taken = self.taken();
        println!("frames of each lane: {taken:?}, of each queue: {:?}", self.by_queue);
        assert!(taken.iter().all(|&frames| frames >= FRAMES / 10), "{taken:?}");
    }

    /// Each lane took what a queue of the card received. (For af-packet the kernel begins the lanes
    /// with queue 1.)
    fn check_lanes_are_queues(&self) {
        let (mut taken, mut by_queue) = (self.taken(), self.by_queue.clone());
        taken.sort_unstable();
        by_queue.sort_unstable();
        assert_eq!(taken, by_queue, "{:#?}", self.ledger);
    }
}

/// Every frame is in the recording once, as it was `sent`, in order within its flow and, if
/// the wire has one way only, within its lane.
pub fn check_files(recording: &Path, sent: impl Fn(&Stamp) -> Vec<u8>, in_order: bool) {
    let mut check = SequenceCheck::new(FRAMES);
    let (series, notices) = series_of(&[recording.to_owned()]).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    for (lane, series) in (0u16..).zip(&series) {
        let paths: Vec<_> = series.files.iter().map(|file| file.path.clone()).collect();
        let notices = for_each_frame(&paths, |frame, _| {
            let stamp = Stamp::read(frame.bytes).expect("a frame without a number");
            assert_eq!(frame.bytes, sent(&stamp), "{stamp:?}");
            check.note(lane, frame.bytes);
        });
        assert!(notices.is_empty(), "{notices:?}");
    }
    let report = check.report(&[FRAMES]);
    assert_eq!((report.distinct, report.numbered), (FRAMES, FRAMES), "{report:?}");
    assert_eq!((report.missing, report.unnumbered, report.beyond), (0, 0, 0), "{report:?}");
    assert_eq!(report.flow_reordered, 0, "{report:?}");
    assert!(report.lane_reordered == 0 || !in_order, "{report:?}");
}
