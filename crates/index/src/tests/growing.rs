//! The index that a recorder makes while it writes a file: at each moment of what is there, and at
//! the end what a reader of the file makes.

use crate::{Growing, Index, State, build, path_of};
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Cause, Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, LaneId, SourceInterface,
    Timestamp,
};
use ringside_store::block::{
    BlockHeader, Statistics, close_filled, fits, write_block_header, write_packet_block,
};
use ringside_store::dir::Entry;
use ringside_store::recording::{FileHeader, SeriesFile};
use ringside_testkit::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Enough for a segment that is full of keys, and a part of the next.
const BLOCKS: u64 = 110;
/// Frames of most ring blocks, each with an address and a port of its own.
const FRAMES: usize = 1900;

/// A ring block of some frames, whose lane has lost some; closed, or as far as it is filled.
fn block(number: u64, is_closed: bool, random: &mut Random) -> Vec<u8> {
    let mut block = vec![0; RING_BLOCK_BYTES_MIN];
    let first_frame = FrameNumber(number * 1000);
    let mut used = write_block_header(
        &mut block,
        &BlockHeader { number, first_frame, opened: Timestamp(number) },
    );
    for frame in 0..[FRAMES, 3, FRAMES, FRAMES, 0, FRAMES, FRAMES][number as usize % 7] {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, number as u8]);
        bytes.extend((frame as u16).to_be_bytes());
        bytes.extend([10, 9, 9, 9]);
        bytes.extend((1000 + frame as u16).to_be_bytes());
        bytes.extend([0, 53, 0, 8, 0, 0]);
        let timestamp = Timestamp(1 + number * 1_000_000 + random.next_u64() % 1000);
        let meta = FrameMeta { timestamp, wire_bytes: 1500, ..FrameMeta::default() };
        assert!(fits(block.len() - used, bytes.len(), meta.direction));
        used += write_packet_block(&mut block[used..], &Frame { bytes: &bytes, meta }, 0);
    }
    if !is_closed {
        block.truncate(used);
        return block;
    }
    let dropped = [(Cause::KernelRingFull, number / 100)].into();
    let counters = LaneCounters { dropped, ..LaneCounters::default() };
    let (interface, when) = (InterfaceId(0), Timestamp(number));
    let statistics = Statistics { interface, first_time: when, when, counters: &counters };
    close_filled(&mut block, used, &statistics);
    block
}

fn open(path: &Path) -> Index {
    Index::open(path, &File::open(path).unwrap()).unwrap()
}

#[test]
fn a_recorders_index_is_at_the_end_that_of_a_reader_and_before_of_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let entry = Entry::at(&path).unwrap();
    let header = FileHeader {
        run: "7-1".into(),
        lane: LaneId(2),
        sequence: 3,
        block_bytes: RING_BLOCK_BYTES_MIN,
        bytes_max: 1 << 40,
        ..FileHeader::default()
    };
    let interfaces = [SourceInterface::ethernet("eth1")];
    let series = SeriesFile::create(entry.clone(), &header, &interfaces).unwrap();
    let mut growing = Growing::new("7-1", LaneId(2), 3, &interfaces);
    let mut random = Random::new(11);
    for number in 0..BLOCKS {
        let is_closed = number < BLOCKS - 1;
        let bytes = block(number, is_closed, &mut random);
        let start = series.block_offset(number);
        series.file().write_all_at(&bytes, start).unwrap();
        assert!(growing.add(start, &bytes[..bytes.len() - 4]).is_err(), "a torn block");
        growing.add(start, &bytes).unwrap();
        assert!(growing.add(start, &bytes).is_err(), "twice");
        if number % 10 == 5 {
            growing.write(&entry, series.file(), false).unwrap();
            let index = open(&path);
            assert_eq!((index.state(), index.parts()), (State::Beginning, number + 1));
            assert_eq!(index.covered_bytes(), series.block_offset(number + 1));
            index.check().unwrap();
        }
    }
    series.set_finished(series.file().metadata().unwrap().len()).unwrap();
    growing.write(&entry, series.file(), true).unwrap();
    let index = open(&path);
    assert_eq!((index.state(), index.parts()), (State::Whole, BLOCKS));
    assert!(index.directory.segments.len() > 1, "one segment is not copied");
    let (ours, bytes) = (std::fs::read(path_of(&path)).unwrap(), growing.bytes());
    assert_eq!(bytes, ours.len() as u64);
    assert_eq!(build(&path, &mut |_| true).unwrap().parts, BLOCKS);
    assert!(std::fs::read(path_of(&path)).unwrap() == ours, "another one than that of a reader");
    assert_eq!(dir.path().read_dir().unwrap().count(), 2, "no draft is left");
}

#[test]
fn a_file_that_is_gone_or_another_leaves_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let entry = Entry::at(&path).unwrap();
    let file = File::create(&path).unwrap();
    let mut growing = Growing::new("7-1", LaneId(0), 0, &[]);
    growing.write(&entry, &file, false).unwrap();
    assert!(path_of(&path).exists());
    std::fs::remove_file(&path).unwrap();
    assert!(growing.write(&entry, &file, false).is_err());
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    std::fs::write(&path, "another").unwrap();
    assert!(growing.write(&entry, &file, false).is_err());
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
}
