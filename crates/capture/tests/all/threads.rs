//! Several threads on one lane: what lies in the ring and in the files is as if one had put it
//! there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::frames_of;
use proptest::prelude::*;
use ringside_capture::config::{DiskOptions, FileFormat, Output, Rotation, RunConfig};
use ringside_capture::keep::{RulesBuilder, Selection, SelectionOptions};
use ringside_capture::memory_ring::{MemoryRing, MemoryRingConfig, START_NS, Sizes, is_content};
use ringside_capture::run::{LaneSource, Run, RunError, RunReport};
use ringside_core::limits::LANE_THREADS_MAX;
use ringside_core::{Cause, InterfaceId, LaneCounters, OwnedFrame, Source, SourceInterface};
use ringside_filter::Compiler;
use ringside_rules::language::{self, Sets};
use ringside_store::retention::Policy;
use std::path::Path;
use std::time::{Duration, Instant};

const FRAMES: u64 = 60_000;

fn ring(frames: u64) -> MemoryRingConfig {
    MemoryRingConfig {
        chunks: 4096,
        sizes: Sizes::Mixed(60, 1514),
        frames,
        batch_frames: 256,
        rate_per_sec: None,
    }
}

fn lane(ring: MemoryRingConfig) -> (LaneSource, MemoryRing) {
    let source = MemoryRing::new(ring);
    let other = source.another();
    let interface = source.interfaces()[0].name.clone();
    let source = Box::new(source);
    (LaneSource { source, interface, interface_id: InterfaceId(0), queue: 0 }, other)
}

/// A whole run; every chunk is given back at its end.
fn run(ring: MemoryRingConfig, config: RunConfig) -> RunReport {
    let (lane, handle) = lane(ring);
    let run = Run::start(vec![lane], handle.interfaces().to_vec(), config).unwrap();
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = run.finish();
    assert_eq!(report.errors, Vec::<String>::new());
    report.ledger.balance().unwrap();
    assert_eq!(handle.free_chunks(), ring.chunks as usize);
    report
}

fn directory(path: &Path, threads: usize) -> RunConfig {
    let output = Output::Directory {
        paths: vec![path.to_owned()],
        rotation: Rotation::default(),
        options: DiskOptions::default(),
        retention: Policy::default(),
    };
    RunConfig { threads, output, ..RunConfig::counting() }
}

/// The frames are numbers `expected`, in this order, each as it was received.
fn check(frames: &[OwnedFrame], sizes: Sizes, expected: impl Iterator<Item = u64>) {
    let mut count = 0;
    for (number, frame) in expected.zip(frames) {
        assert_eq!(frame.meta.timestamp.0, START_NS + number, "frame {count}");
        assert_eq!(frame.meta.wire_bytes, sizes.of(number));
        assert!(is_content(&frame.bytes), "frame {number}");
        count += 1;
    }
    assert_eq!(frames.len(), count);
}

#[test]
fn frames_of_several_threads_lie_in_the_order_of_receipt() {
    for threads in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        let report = run(ring(FRAMES), directory(dir.path(), threads));
        assert_eq!(report.ledger.consumers[0].delivered, FRAMES);
        let files = report.files.paths.iter();
        let frames: Vec<_> = files.flat_map(|path| frames_of(path)).collect();
        assert_eq!(frames.len() as u64, FRAMES);
        check(&frames, ring(0).sizes, 0..FRAMES);
        let taken = &report.ledger.lanes[0].taken_by_thread;
        if threads > 1 {
            assert_eq!((taken.len(), taken.iter().sum::<u64>()), (threads, FRAMES));
        }
    }
}

#[test]
fn several_threads_count_without_a_ring() {
    let report = run(ring(FRAMES), RunConfig { threads: 3, ..RunConfig::counting() });
    assert_eq!((report.ledger.received, report.ledger.taken), (Some(FRAMES), FRAMES));
    let bytes = (0..FRAMES).map(|number| u64::from(ring(0).sizes.of(number))).sum::<u64>();
    assert_eq!(report.ledger.lanes[0].taken_bytes, bytes);
    assert_eq!(report.ledger.lanes[0].taken_by_thread.iter().sum::<u64>(), FRAMES);
}

#[test]
fn every_thread_takes_its_share() {
    let (lane, handle) = lane(ring(u64::MAX));
    let config = RunConfig { threads: 4, ..RunConfig::counting() };
    let run = Run::start(vec![lane], handle.interfaces().to_vec(), config).unwrap();
    let has_share = |lane: &LaneCounters| {
        let shares = &lane.taken_by_thread;
        shares.len() == 4 && shares.iter().all(|&share| share * 10 > lane.taken)
    };
    let give_up_at = Instant::now() + Duration::from_secs(60);
    while !has_share(&run.status().lanes[0]) {
        assert!(Instant::now() < give_up_at, "{:?}", run.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = run.finish();
    report.ledger.balance().unwrap();
    assert!(has_share(&report.ledger.lanes[0]), "{:?}", report.ledger);
}

/// A third of the frames is taken, some are dropped, the others left.
fn by_length(interfaces: &mut Vec<SourceInterface>) -> Selection {
    let text = b"length 60-500 => take, cap 64\nlength 501-700 => drop";
    let set = language::parse(text, &mut Sets::none()).unwrap();
    let rules = RulesBuilder::new(set, Compiler::InProcess { optimise: true }).unwrap();
    let options = SelectionOptions { rules: Some(rules), ..SelectionOptions::default() };
    Selection::new(options, interfaces).unwrap()
}

#[test]
fn rules_see_every_frame_and_what_they_do_not_take_is_counted() {
    let sizes = ring(0).sizes;
    let is_taken = |number: &u64| sizes.of(*number) <= 500;
    let frames = 10_000;
    let taken = (0..frames).filter(is_taken);
    let dropped = (0..frames).filter(|&number| (501..=700).contains(&sizes.of(number))).count();
    for threads in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let mut interfaces = MemoryRing::new(ring(1)).interfaces().to_vec();
        let selection = Some(by_length(&mut interfaces));
        let report = run(ring(frames), RunConfig { selection, ..directory(dir.path(), threads) });
        let lane = &report.ledger.lanes[0];
        assert_eq!(lane.taken, taken.clone().count() as u64);
        assert_eq!(lane.dropped[&Cause::ByRule], dropped as u64);
        assert_eq!(lane.filtered, Some(frames - lane.taken - dropped as u64));
        assert_eq!(report.ledger.lost(), 0, "what a rule drops is not lost");
        let kept: Vec<_> = report.files.paths.iter().flat_map(|path| frames_of(path)).collect();
        check(&kept, sizes, taken.clone());
        let long = taken.clone().filter(|&number| sizes.of(number) > 64);
        let missing = long.clone().map(|number| u64::from(sizes.of(number)) - 64).sum::<u64>();
        assert_eq!((lane.cut_frames, lane.cut_bytes), (long.count() as u64, missing));
        assert!(kept.iter().all(|frame| frame.bytes.len() <= 64));
        let rules = report.rules.unwrap();
        let counted: Vec<_> = rules.rules.iter().map(|(_, counts)| counts.frames).collect();
        assert_eq!(counted, [lane.taken, dropped as u64]);
        assert_eq!(rules.undecided.frames, lane.filtered.unwrap());
    }
}

#[test]
fn a_frame_budget_counts_the_frames_that_rules_take() {
    for threads in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let mut interfaces = MemoryRing::new(ring(1)).interfaces().to_vec();
        let selection = Some(by_length(&mut interfaces));
        let config =
            RunConfig { frames_max: Some(777), selection, ..directory(dir.path(), threads) };
        let report = run(ring(u64::MAX), config);
        assert_eq!(report.ledger.taken, 777);
        let sizes = ring(0).sizes;
        let taken = (0..).filter(|&number| sizes.of(number) <= 500).take(777);
        check(&frames_of(&report.files.paths[0]), sizes, taken);
    }
}

#[test]
fn a_frame_budget_keeps_the_first_frames() {
    let dir = tempfile::tempdir().unwrap();
    let config = RunConfig { frames_max: Some(1234), ..directory(dir.path(), 3) };
    let report = run(ring(u64::MAX), config);
    assert_eq!(report.ledger.taken, 1234);
    let limited = report.ledger.dropped[&Cause::LimitReached];
    assert_eq!(report.ledger.received, Some(1234 + limited));
    check(&frames_of(&report.files.paths[0]), ring(0).sizes, 0..1234);
}

#[test]
fn a_merge_of_a_lane_of_several_threads_finds_no_late_frame() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("merged.pcapng");
    let output = Output::File { path, format: FileFormat::Pcapng, rotation: Rotation::default() };
    let report = run(ring(20_000), RunConfig { threads: 4, output, ..RunConfig::counting() });
    let writer = &report.ledger.consumers[0];
    assert_eq!((writer.delivered, writer.late), (report.ledger.taken, 0));
}

#[test]
fn a_lane_that_one_thread_must_drain_is_refused_with_the_reason() {
    let (lanes, interfaces) = crate::common::lanes(vec![crate::common::Numbered::new(0, 1)]);
    let config = RunConfig { threads: 2, ..RunConfig::counting() };
    let refused = Run::start(lanes, interfaces, config).err().unwrap();
    assert!(refused.to_string().contains("one thread for each lane"), "{refused}");
    for threads in [0, LANE_THREADS_MAX + 1] {
        let (lane, handle) = lane(ring(1));
        let config = RunConfig { threads, ..RunConfig::counting() };
        let refused = Run::start(vec![lane], handle.interfaces().to_vec(), config).err().unwrap();
        assert!(matches!(refused, RunError::Threads(_)), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_batches_and_sizes_the_order_and_the_bytes_are_kept(
        threads in 2..=5usize,
        batch_frames in 1..=256usize,
        least in 14..200u32,
        spread in 0..1300u32,
        chunks in 64..4000u32,
        frames in 1..20_000u64,
    ) {
        let sizes = Sizes::Mixed(least, least + spread);
        let dir = tempfile::tempdir().unwrap();
        let ring = MemoryRingConfig { chunks, sizes, frames, batch_frames, rate_per_sec: None };
        let report = run(ring, directory(dir.path(), threads));
        let kept: Vec<_> = report.files.paths.iter().flat_map(|path| frames_of(path)).collect();
        prop_assert_eq!(kept.len() as u64, frames);
        check(&kept, sizes, 0..frames);
    }
}
