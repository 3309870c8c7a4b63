//! A range of time gives what a full read gives of it, in the same order, whatever the stamps.

use crate::common::drain;
use crate::common::recording::{memory_dir, ring_block_of, write_file};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ringside_core::{
    Frame, FrameMeta, InterfaceId, OwnedFrame, SourceInterface, TimeRange, Timestamp,
};
use ringside_store::{Format, Query};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Stamps lie below it, so that borders of ranges meet them, and 0 is among them: no time.
const STAMPS_END: u64 = 40;

/// A frame that tells which it is.
fn frame(lane: usize, number: usize, stamp: u64) -> OwnedFrame {
    let mut bytes = vec![lane as u8; 60];
    bytes[20..28].copy_from_slice(&(number as u64).to_le_bytes());
    let meta = FrameMeta {
        timestamp: Timestamp(stamp),
        wire_bytes: 60,
        interface: InterfaceId(number as u32 % 2),
        ..FrameMeta::default()
    };
    OwnedFrame { bytes, meta }
}

/// A lane of a recording in files of two ring blocks, of which the very last was never closed.
fn write_lane(dir: &Path, lane: u16, blocks: &[Vec<u64>]) {
    let (mut first, mut packed) = (0, Vec::new());
    for (number, stamps) in blocks.iter().enumerate() {
        let frames = (first..).zip(stamps).map(|(at, &stamp)| frame(lane.into(), at, stamp));
        let closed = number + 1 < blocks.len();
        packed.push(ring_block_of(number as u64, first as u64, frames, closed));
        first += stamps.len();
    }
    for (sequence, blocks) in packed.chunks(2).enumerate() {
        write_file(dir, (lane, sequence as u64), blocks);
    }
}

fn write_capture(path: &Path, format: Format, stamps: &[u64]) {
    let interfaces = ["eth1", "eth2"].map(SourceInterface::ethernet);
    let mut writer = format.writer(File::create(path).unwrap(), &interfaces).unwrap();
    for (number, &stamp) in stamps.iter().enumerate() {
        let OwnedFrame { bytes, mut meta } = frame(99, number, stamp);
        if format == Format::Pcap {
            meta.interface = InterfaceId(0);
        }
        writer.write(&Frame { bytes: &bytes, meta }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// All frames of the inputs, chosen by their time after they were read.
fn read_and_choose(inputs: &[PathBuf], range: TimeRange) -> (Vec<OwnedFrame>, usize) {
    let mut all = drain(&mut *ringside_store::open(inputs).unwrap()).frames;
    let count = all.len();
    all.retain(|frame| range.holds(frame.meta.timestamp));
    (all, count)
}

fn check(inputs: &[PathBuf], range: TimeRange) {
    let (expected, count) = read_and_choose(inputs, range);
    let mut source = Query { inputs: inputs.to_vec(), range }.open().unwrap();
    let found = drain(&mut *source);
    assert_eq!(found.error, None);
    assert_eq!(found.frames, expected, "{range:?}");
    let outside = (count - expected.len()) as u64;
    let counters = source.counters();
    assert_eq!(counters.received, Some(count as u64));
    if range != TimeRange::default() {
        assert_eq!(source.tally().frames_outside, outside);
        assert_eq!(counters.filtered, Some(outside));
    }
    let newest = Query { inputs: inputs.to_vec(), range }.newest().unwrap().newest;
    let (all, _) = read_and_choose(inputs, TimeRange::default());
    assert_eq!(newest, all.iter().map(|frame| frame.meta.timestamp).max().unwrap_or_default());
}

fn ranges() -> impl Strategy<Value = TimeRange> {
    let moment = || option::of((0..STAMPS_END + 2).prop_map(Timestamp));
    (moment(), moment()).prop_map(|(from, to)| TimeRange { from, to })
}

fn stamps(count_max: usize) -> impl Strategy<Value = Vec<u64>> {
    vec(0..STAMPS_END, 0..count_max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ringside_testkit::by_run(60, 2_000)))]

    #[test]
    fn a_range_of_recordings_is_a_full_read_of_which_it_is_chosen(
        lanes in vec(vec(stamps(6), 1..5), 1..4),
        beside in stamps(8),
        ranges in vec(ranges(), 4),
    ) {
        let dir = memory_dir();
        for (lane, blocks) in lanes.iter().enumerate() {
            write_lane(dir.path(), lane as u16, blocks);
        }
        let beside_path = dir.path().join("beside.pcap");
        write_capture(&beside_path, Format::Pcap, &beside);
        for range in ranges {
            check(&[dir.path().to_owned()], range);
            check(&[dir.path().to_owned(), beside_path.clone()], range);
        }
    }

    #[test]
    fn a_range_of_captures_is_a_full_read_of_which_it_is_chosen(
        one in stamps(600),
        other in stamps(600),
        ranges in vec(ranges(), 4),
    ) {
        let dir = memory_dir();
        let paths = ["a.pcap", "b.pcapng"].map(|name| dir.path().join(name));
        write_capture(&paths[0], Format::Pcap, &one);
        write_capture(&paths[1], Format::Pcapng, &other);
        for range in ranges {
            check(&paths[..1], range);
            check(&paths[1..], range);
            check(&paths, range);
        }
    }
}
