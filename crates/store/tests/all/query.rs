//! A range of time gives what a full read gives of it, in the same order, whatever the stamps.

use crate::common::drain;
use crate::common::recording::{BLOCK_BYTES, memory_dir, ring_block_of, write_file_at};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use ringside_core::{
    Frame, FrameMeta, InterfaceId, OwnedFrame, SourceInterface, Stamps, TimeRange, Timestamp,
};
use ringside_store::block::{BlockEnd, write_block_end};
use ringside_store::{Format, Query, StoredSource};
use ringside_testkit::skip;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Stamps lie below it, so that borders of ranges meet them, and 0 is among them: no time.
const STAMPS_END: u64 = 40;

/// A frame that tells which it is.
pub fn frame(lane: usize, number: usize, stamp: u64) -> OwnedFrame {
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
/// Every other ring block lies in the other directory. The ring blocks of a file of format 2 end
/// with lies, which are none of its format.
pub fn write_lane(dirs: [&Path; 2], lane: u16, format: u32, blocks: &[Vec<u64>]) {
    let (mut first, mut packed) = (0, [Vec::new(), Vec::new()]);
    for (number, stamps) in blocks.iter().enumerate() {
        let frames = (first..).zip(stamps).map(|(at, &stamp)| frame(lane.into(), at, stamp));
        let closed = number + 1 < blocks.len();
        let mut block = ring_block_of(number as u64, first as u64, frames, closed);
        if format == 2 && closed {
            write_block_end(&mut block, &BlockEnd { number: number as u64, ..BlockEnd::default() });
        }
        packed[number % 2].push(block);
        first += stamps.len();
    }
    for (dir, blocks) in dirs.iter().zip(packed) {
        for (sequence, blocks) in blocks.chunks(2).enumerate() {
            let name = format!("x-eth1-lane{lane}-{sequence:06}.pcapng");
            write_file_at(&dir.join(name), (lane, sequence as u64), format, blocks);
        }
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

/// What a source has to tell, by name: lanes may come to it in another order.
pub fn notices_of(source: &dyn StoredSource) -> Vec<String> {
    let mut notices: Vec<String> = source.notices().iter().map(ToString::to_string).collect();
    notices.sort();
    notices
}

/// What a full read has to tell: one directory of two lacks ring blocks.
fn notices_of_all(inputs: &[PathBuf]) -> Vec<String> {
    let mut source = ringside_store::open(inputs).unwrap();
    drain(&mut *source);
    notices_of(&*source)
}

fn check(inputs: &[PathBuf], range: TimeRange) {
    let (expected, count) = read_and_choose(inputs, range);
    let mut source = Query { inputs: inputs.to_vec(), range }.open().unwrap();
    let found = drain(&mut *source);
    assert_eq!((found.error, notices_of(&*source)), (None, notices_of_all(inputs)));
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

/// The first file of a lane goes from an empty ring block to its third; the second, whose frame is
/// the oldest, lies in the other directory.
#[test]
fn a_block_between_two_of_the_first_file_comes_in_its_turn() {
    let dirs = [memory_dir(), memory_dir()];
    let inputs = dirs.each_ref().map(|dir| dir.path().to_owned());
    let paths = inputs.each_ref().map(PathBuf::as_path);
    write_lane(paths, 0, 3, &[vec![15], vec![0]]);
    write_lane(paths, 1, 3, &[vec![], vec![0], vec![15, 13], vec![]]);
    check(&inputs, TimeRange { from: None, to: Some(Timestamp(1)) });
    check(&inputs, TimeRange::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ringside_testkit::by_run(60, 2_000)))]

    #[test]
    fn a_range_of_recordings_is_a_full_read_of_which_it_is_chosen(
        lanes in vec(vec(stamps(6), 1..5), 1..4),
        format in 2..=3u32,
        pcap in stamps(8),
        ranges in vec(ranges(), 4),
    ) {
        let dirs = [memory_dir(), memory_dir()];
        let [one, other] = dirs.each_ref().map(|dir| dir.path());
        for (lane, blocks) in lanes.iter().enumerate() {
            write_lane([one, other], lane as u16, format, blocks);
        }
        let pcap_path = one.join("one.pcap");
        write_capture(&pcap_path, Format::Pcap, &pcap);
        let file = one.join("x-eth1-lane0-000000.pcapng");
        for range in ranges {
            check(&[one.to_owned(), other.to_owned()], range);
            check(&[one.to_owned(), pcap_path.clone()], range);
            check(std::slice::from_ref(&file), range);
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

/// Bytes that this thread has asked the kernel for so far; nothing where it does not count them.
fn bytes_asked_for() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

/// A lane of 40 ring blocks, of which ring block `n` holds the stamps from 1000 n on.
fn write_long_lane(dir: &Path, format: u32) {
    let block = |number: u64| (0..50).map(|at| 1000 * number + at).collect();
    let blocks: Vec<Vec<u64>> = (0..40).map(block).collect();
    write_lane([dir, dir.join("other").as_path()], 0, format, &blocks);
}

#[test]
fn only_the_ring_blocks_of_the_range_are_read() {
    let test = "only_the_ring_blocks_of_the_range_are_read";
    for format in [2, 3] {
        let dir = memory_dir();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        write_long_lane(dir.path(), format);
        let inputs = [dir.path().to_owned(), dir.path().join("other")];
        let range = TimeRange { from: Some(Timestamp(20_010)), to: Some(Timestamp(23_000)) };
        let query = Query { inputs: inputs.to_vec(), range };
        let before = bytes_asked_for();
        let mut source = query.open().unwrap();
        let frames = drain(&mut *source).frames.len();
        let asked_for = bytes_asked_for().zip(before).map(|(after, before)| after - before);
        let tally = source.tally();
        assert_eq!((frames, tally.frames_outside), (140, 40 * 50 - 140));
        assert_eq!(tally.newest, Timestamp(39_049));
        let (files, block_bytes) = (20, BLOCK_BYTES as u64);
        // The last ring block was never closed, so that it has to be read: its frames alone.
        let (blocks_read, most) = match format {
            2 => (40, 41 * block_bytes),
            _ => (4, 3 * block_bytes + files * 2 * 4096 + 40 * 2 * 84 + 64 * 1024),
        };
        assert_eq!(tally.blocks_passed, 40 - blocks_read, "format {format}");
        assert!(tally.bytes_read <= most, "format {format}: {} bytes", tally.bytes_read);
        assert!(tally.bytes_read >= (blocks_read - 1) * block_bytes);
        // The kernel's own count: with a look at each header page, by which files are put in order.
        match asked_for {
            Some(asked_for) => {
                let unstated = asked_for - tally.bytes_read;
                assert!(unstated <= files * (4096 + 40) + 4096, "{unstated} bytes are not stated");
            }
            None => skip(test, "the kernel does not count what a thread reads"),
        }
    }
}

#[test]
fn an_end_that_contradicts_its_ring_block_is_not_believed() {
    let lies = [
        BlockEnd { number: 7, frames: 5, stamps: Stamps::of(Timestamp(9)) },
        BlockEnd { number: 0, frames: u64::MAX, stamps: Stamps::of(Timestamp(9)) },
    ];
    for lie in lies {
        let dir = memory_dir();
        let frames = (1..6).map(|number| frame(0, number, number as u64));
        let mut block = ring_block_of(0, 0, frames, true);
        write_block_end(&mut block, &lie);
        let path = dir.path().join("x.pcapng");
        write_file_at(&path, (0, 0), 3, &[block]);
        let range = TimeRange { from: Some(Timestamp(2)), to: Some(Timestamp(4)) };
        check(&[path], range);
        check(&[dir.path().to_owned()], range);
    }
}

/// Of the second lane's first file the first block is passed by and the next is far later, but
/// between them comes a block of the other directory.
#[test]
fn a_lane_whose_first_block_is_passed_by_comes_when_it_would_have_come() {
    let dirs = [memory_dir(), memory_dir()];
    let [one, other] = dirs.each_ref().map(|dir| dir.path());
    for (lane, blocks) in
        [&[vec![26], vec![0]][..], &[vec![13], vec![0], vec![26]]].iter().enumerate()
    {
        write_lane([one, other], lane as u16, 3, blocks);
    }
    let range = TimeRange { from: None, to: Some(Timestamp(1)) };
    let inputs = [one.to_owned(), other.to_owned()];
    assert_eq!(read_and_choose(&inputs, range).0.len(), 2);
    check(&inputs, range);
}
