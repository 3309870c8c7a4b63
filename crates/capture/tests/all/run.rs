//! Runs over sources of our own: every frame written once, in order, and every loss named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{Falsified, Numbered, frames_of, lanes, numbers};
use ringside_capture::config::{DiskOptions, FileFormat, Output, Rotation, RunConfig};
use ringside_capture::run::{LaneSource, Run, RunReport};
use ringside_core::{Cause, InterfaceId, SourceCounters, SourceInterface};
use ringside_store::block;
use ringside_store::retention::Policy;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

fn finish_when_done(run: Run) -> RunReport {
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = run.finish();
    report.ledger.balance().unwrap();
    report
}

fn start(sources: Vec<Numbered>, config: RunConfig) -> Run {
    let (lanes, interfaces) = lanes(sources);
    Run::start(lanes, interfaces, config).unwrap()
}

fn run(sources: Vec<Numbered>, config: RunConfig) -> RunReport {
    finish_when_done(start(sources, config))
}

/// Recording with the default ring, which holds all that these sources give: they are faster than
/// any disk.
fn directory(path: &Path, rotation: Rotation) -> RunConfig {
    let paths = vec![path.to_owned()];
    let output = Output::Directory {
        paths,
        rotation,
        options: DiskOptions::default(),
        retention: Policy::default(),
    };
    RunConfig { output, ..RunConfig::counting() }
}

#[test]
fn counting_takes_every_frame_without_a_ring() {
    let report = run(vec![Numbered::new(0, 1000), Numbered::new(1, 500)], RunConfig::counting());
    assert_eq!((report.ledger.received, report.ledger.taken), (Some(1500), 1500));
    assert_eq!(report.ledger.consumers[0].name, "meter");
    assert!(report.errors.is_empty() && report.files.count == 0);
}

/// A frame that no term of the ledger has, or that two have, is never made good by another term,
/// least of all by what is in flight.
#[test]
fn one_frame_more_or_less_in_any_counter_of_a_source_fails_the_run() {
    let falsifiers: [fn(&mut SourceCounters); 9] = [
        |counters| *counters.received.as_mut().unwrap() += 1,
        |counters| *counters.received.as_mut().unwrap() += 9_900,
        |counters| counters.received = counters.received.map(|frames| frames.saturating_sub(1)),
        |counters| *counters.filtered.as_mut().unwrap() += 1,
        |counters| counters.passed += 1,
        |counters| _ = counters.dropped.insert(Cause::KernelRingFull, 1),
        |counters| _ = counters.dropped.insert(Cause::ByRule, 1),
        |counters| {
            *counters.received.as_mut().unwrap() += 1;
            counters.in_flight = Some(1);
        },
        |counters| {
            *counters.received.as_mut().unwrap() += 1;
            counters.in_flight = None;
        },
    ];
    for (index, by) in falsifiers.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        for config in [RunConfig::counting(), directory(dir.path(), Rotation::default())] {
            let source = Falsified { source: Numbered::new(0, 100), by };
            let lane = LaneSource {
                interface: "test0".into(),
                interface_id: InterfaceId(0),
                queue: 0,
                source: Box::new(source),
            };
            let interfaces = vec![SourceInterface::ethernet("test0")];
            let run = Run::start(vec![lane], interfaces, config).unwrap();
            while run.is_running() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let report = run.finish();
            let told = report.errors.iter().any(|error| error.contains("does not balance"));
            assert!(told, "{index}: {:?} {:#?}", report.errors, report.ledger);
            assert_eq!(report.ledger.consumers[0].delivered, 100);
        }
        let mut files = std::fs::read_dir(dir.path()).unwrap();
        let says = files.any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(12).any(|bytes| bytes == b"\"imbalance\":")
        });
        assert!(says, "{index}: so does the file");
    }
}

#[test]
fn a_lane_that_panics_ends_the_run_with_its_ledger_and_its_files() {
    fn fault(counters: &mut SourceCounters) {
        assert!(counters.received < Some(500), "a fault in a source");
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = directory(folder.path(), Rotation::default());
    for (index, config) in [recording, RunConfig::counting()].into_iter().enumerate() {
        let faulty = Numbered::new(0, u64::MAX).in_batches(100, Duration::from_millis(5));
        let endless = Numbered::new(1, u64::MAX).in_batches(100, Duration::from_millis(5));
        let sources = [(faulty, fault as fn(&mut SourceCounters)), (endless, |_| {})];
        let lanes = (0..).zip(sources).map(|(lane, (source, by))| LaneSource {
            interface: format!("test{lane}"),
            interface_id: InterfaceId(lane),
            queue: 0,
            source: Box::new(Falsified { source, by }),
        });
        let interfaces = ["test0", "test1"].map(SourceInterface::ethernet).to_vec();
        let run = Run::start(lanes.collect(), interfaces, config).unwrap();
        while run.is_running() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let report = run.finish();
        let errors = report.errors.join("; ");
        assert!(errors.contains("test0 queue 0: the worker of the lane panicked"), "{errors}");
        let ledger = &report.ledger;
        assert_eq!((ledger.received, ledger.lanes[0].received), (None, None));
        if index == 0 {
            assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
            assert!(ledger.lanes[0].taken >= 500, "{ledger:#?}");
            assert_eq!(ledger.consumers[0].delivered, ledger.taken);
        }
    }
}

#[test]
fn a_directory_holds_each_lane_in_order_and_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let sources = vec![Numbered::new(0, 20_000), Numbered::new(1, 7_000)];
    let report = run(sources, directory(dir.path(), Rotation::default()));
    assert_eq!(report.errors, Vec::<String>::new());
    assert_eq!(report.ledger.consumers[0].delivered, 27_000);
    assert_eq!(report.files.count, 2);
    for (lane, count) in [(0, 20_000), (1, 7_000)] {
        let frames = frames_of(&report.files.paths[lane]);
        assert!(numbers(&frames).into_iter().eq(0..count), "lane {lane}");
        for (number, frame) in frames.iter().enumerate() {
            assert_eq!(frame.bytes, Numbered::bytes(lane as u32, number as u64));
        }
    }
}

#[test]
fn files_rotate_at_their_size_and_nothing_is_lost_between() {
    let dir = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: Some(3 << 20), interval: None };
    let report = run(vec![Numbered::new(0, 40_000)], directory(dir.path(), rotation));
    assert!(report.files.count > 3, "{:?}", report.files);
    let mut all = Vec::new();
    for file in &report.files.paths {
        assert!(std::fs::metadata(file).unwrap().len() <= 3 << 20);
        all.extend(numbers(&frames_of(file)));
    }
    assert!(all.into_iter().eq(0..40_000), "a frame is missing or out of order");
}

#[test]
fn a_timed_rotation_begins_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: None, interval: Some(Duration::from_secs(1)) };
    let source = Numbered::new(0, 30).with_pause(Duration::from_millis(20));
    let run = start(vec![source], directory(dir.path(), rotation));
    std::thread::sleep(Duration::from_millis(200));
    run.rotate();
    let report = finish_when_done(run);
    assert_eq!(report.files.count, 2);
    let all: Vec<u64> =
        report.files.paths.iter().flat_map(|file| numbers(&frames_of(file))).collect();
    assert_eq!(all, (0..30).collect::<Vec<u64>>());
}

#[test]
fn lanes_are_merged_by_time_into_each_format() {
    for (name, format) in [("m.pcapng", FileFormat::Pcapng), ("m.pcap", FileFormat::Pcap)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let output = Output::File { path, format, rotation: Rotation::default() };
        let sources = vec![Numbered::new(0, 5_000), Numbered::new(1, 5_000), Numbered::new(2, 10)];
        // However late a lane's thread gets a CPU, the others wait.
        let config = RunConfig { output, block_timeout_ns: u64::MAX, ..RunConfig::counting() };
        let report = run(sources, config);
        assert_eq!(report.errors, Vec::<String>::new());
        assert_eq!(
            (report.ledger.consumers[0].delivered, report.ledger.consumers[0].late),
            (10_010, 0)
        );
        let frames = frames_of(&report.files.paths[0]);
        assert!(frames.is_sorted_by_key(|frame| frame.meta.timestamp));
        assert_eq!(frames.len(), 10_010);
    }
}

/// The time comes from another process where a shared ring is read.
#[test]
fn a_merge_waits_as_long_as_a_source_may_hold_frames_back_however_long_that_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, format) = (dir.path().join("m.pcapng"), FileFormat::Pcapng);
    let output = Output::File { path, format, rotation: Rotation::default() };
    let config = RunConfig { output, block_timeout_ns: u64::MAX, ..RunConfig::counting() };
    let report = run(vec![Numbered::new(0, 100), Numbered::new(1, 7)], config);
    assert_eq!((report.errors, report.ledger.consumers[0].delivered), (Vec::new(), 107));
}

#[test]
fn a_frame_budget_is_met_exactly_and_the_rest_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let config = RunConfig { frames_max: Some(1234), ..directory(dir.path(), Rotation::default()) };
    let report = run(vec![Numbered::new(0, 5_000), Numbered::new(1, 5_000)], config);
    assert_eq!(report.ledger.taken, 1234);
    let limited = report.ledger.dropped[&Cause::LimitReached];
    assert_eq!(report.ledger.received, Some(1234 + limited));
}

#[test]
fn a_snapshot_length_cuts_and_keeps_the_wire_length() {
    let dir = tempfile::tempdir().unwrap();
    let config = RunConfig { snaplen: 20, ..directory(dir.path(), Rotation::default()) };
    let report = run(vec![Numbered::new(0, 100)], config);
    for (number, frame) in frames_of(&report.files.paths[0]).iter().enumerate() {
        let whole = Numbered::bytes(0, number as u64);
        assert_eq!((&frame.bytes[..], frame.meta.wire_bytes), (&whole[..20], whole.len() as u32));
    }
}

fn stream(count: u64, ring_bytes: usize, fd: OwnedFd) -> RunReport {
    let output = Output::Stream { fd, format: FileFormat::Pcapng };
    run(vec![Numbered::new(0, count)], RunConfig { ring_bytes, output, ..RunConfig::counting() })
}

#[test]
fn a_closed_pipe_ends_the_run_without_an_error() {
    let (mut reader, writer) = io::pipe().unwrap();
    let thread = std::thread::spawn(move || {
        reader.read_exact(&mut [0; 100_000]).unwrap();
    });
    let report = stream(3_000, 1 << 24, writer.into());
    thread.join().unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    let writer = &report.ledger.consumers[0];
    assert!(writer.delivered > 0 && writer.missed[&Cause::PipeClosed] > 0, "{writer:?}");
}

#[test]
fn a_pipe_that_is_not_read_is_given_up_and_what_is_in_it_was_delivered() {
    let (mut reader, writer) = io::pipe().unwrap();
    let report = stream(3_000, 1 << 24, writer.into());
    let counted = report.ledger.consumers[0].clone();
    assert!(counted.missed[&Cause::PipeStalled] > 0, "{counted:?}");
    assert!(report.errors[0].contains("does not read"), "{:?}", report.errors);
    let mut left = Vec::new();
    reader.read_to_end(&mut left).unwrap();
    assert_eq!(block::frame_count(&left), counted.delivered, "whole frames in the pipe");
}

#[test]
fn a_full_disk_stops_the_run_with_an_error_and_a_balanced_ledger() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let report = stream(3_000, 1 << 24, full.into());
    assert!(report.errors[0].contains("No space left"), "{:?}", report.errors);
    // The header does not fit, so the run may end before its first frame.
    let writer = &report.ledger.consumers[0];
    let missed = writer.missed.get(&Cause::DiskFull).copied().unwrap_or(0);
    assert_eq!((writer.delivered, missed), (0, report.ledger.taken));
}

#[test]
fn a_slow_consumer_costs_frames_under_its_name() {
    // The smallest ring, and no reader: 40 MB do not fit.
    let (_reader, writer) = io::pipe().unwrap();
    let report = stream(60_000, 1, writer.into());
    assert!(report.ledger.dropped[&Cause::RecorderBehind] > 0, "{:?}", report.ledger);
}

#[test]
fn a_source_that_fails_ends_the_run_with_what_it_gave() {
    let dir = tempfile::tempdir().unwrap();
    let source = Numbered::new(0, 500).failing_after(300);
    let report = run(vec![source], directory(dir.path(), Rotation::default()));
    assert_eq!(report.errors, ["interface test0 was removed; what was received before is kept"]);
    assert_eq!(numbers(&frames_of(&report.files.paths[0])), (0..300).collect::<Vec<u64>>());
}

#[test]
fn an_output_that_cannot_be_created_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let (lanes, interfaces) = lanes(vec![Numbered::new(0, 1)]);
    let config = directory(&file.join("below"), Rotation::default());
    let error = Run::start(lanes, interfaces, config).err().unwrap().to_string();
    assert!(error.contains("cannot make the directory"), "{error}");
}
