//! Recordings for tests, made with the public pieces of the format.

use ringside_core::Source;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Direction, Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, LaneId, LinkType,
    OwnedFrame, SourceInterface, Timestamp,
};
use ringside_store::block::{
    BlockHeader, Statistics, blocks, close_filled, fits, write_block_header, write_packet_block,
    write_padding,
};
use ringside_store::pcapng::RINGSIDE_PADDING;
use ringside_store::recording::FORMAT_VERSION;
use ringside_store::{FileHeader, FileSource};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const BLOCK_BYTES: usize = RING_BLOCK_BYTES_MIN;
pub const HEADER_BYTES: usize = 4096;
pub const RUN: &str = "20261121T053000Z-1234";
/// A start in 2026, so that other programs show plausible times.
pub const START: u64 = 1_795_239_000_123_456_789;

/// A directory in memory where there is one: repairs wait for the medium after each step.
pub fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn interfaces() -> Vec<SourceInterface> {
    let interface = |name: &str| SourceInterface {
        name: name.into(),
        link_type: LinkType::ETHERNET,
        snaplen_bytes: 0,
        description: "the first port".into(),
        filter: "udp port 53".into(),
    };
    vec![interface("eth1"), interface("eth2")]
}

/// Ethernet with an unassigned type, of sizes that leave every remainder of 4.
pub fn bytes_of(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x5a; 60 + (number as usize * 7) % 1455];
    bytes[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Ring block `number` of a lane, with the frames `frames` of the lane; closed, or as it is after
/// its last frame.
pub fn ring_block(number: u64, frames: std::ops::Range<u64>, closed: bool) -> Vec<u8> {
    let first = frames.start;
    let frames = frames.map(|number| {
        let bytes = bytes_of(number);
        let meta = FrameMeta {
            timestamp: Timestamp(START + number * 1000),
            wire_bytes: bytes.len() as u32,
            direction: if number % 3 == 0 { Direction::Outbound } else { Direction::Inbound },
            ..FrameMeta::default()
        };
        OwnedFrame { bytes, meta }
    });
    ring_block_of(number, first, frames, closed)
}

/// As [`ring_block`], of any frames, before which the lane has had `first`.
pub fn ring_block_of(
    number: u64,
    first: u64,
    frames: impl Iterator<Item = OwnedFrame>,
    closed: bool,
) -> Vec<u8> {
    let header = BlockHeader {
        number,
        first_frame: FrameNumber(first),
        opened: Timestamp(START + first * 1000),
    };
    let mut block = vec![0xee; BLOCK_BYTES];
    let mut at = write_block_header(&mut block, &header);
    for frame in frames {
        let OwnedFrame { bytes, meta } = frame;
        assert!(fits(BLOCK_BYTES - at, bytes.len(), meta.direction));
        at += write_packet_block(&mut block[at..], &Frame { bytes: &bytes, meta }, 0);
    }
    if !closed {
        block.truncate(at);
        return block;
    }
    let counters = LaneCounters { interface: "eth1".into(), ..LaneCounters::default() };
    let (interface, when) = (InterfaceId(0), Timestamp(START + 5_000_000));
    let statistics =
        Statistics { interface, first_time: Timestamp(START), when, counters: &counters };
    close_filled(&mut block, at, &statistics);
    block
}

/// A closed ring block as version 2 has it: padding goes to its end.
pub fn of_version_2(mut block: Vec<u8>) -> Vec<u8> {
    let mut padding_at = 0;
    let kinds = blocks(&block).map(|(kind, bytes)| (kind, bytes.len()));
    for (_, length) in kinds.take_while(|&(kind, _)| kind != RINGSIDE_PADDING) {
        padding_at += length;
    }
    write_padding(&mut block[padding_at..]);
    block
}

/// Writes a file of lane `lane`; the last block may be a beginning.
pub fn write_file(dir: &Path, (lane, sequence): (u16, u64), blocks: &[Vec<u8>]) -> PathBuf {
    let path = dir.join(format!("20261121T053000Z-eth1-lane{lane}-{sequence:06}.pcapng"));
    write_file_at(&path, (lane, sequence), FORMAT_VERSION, blocks);
    path
}

/// As [`write_file`], with a name and a version of the format.
pub fn write_file_at(path: &Path, (lane, sequence): (u16, u64), format: u32, blocks: &[Vec<u8>]) {
    let header = FileHeader {
        format,
        run: RUN.into(),
        lane: LaneId(lane),
        sequence,
        block_bytes: BLOCK_BYTES,
        serial: sequence * 10 + u64::from(lane),
        bytes_max: 1 << 30,
        created: Timestamp(START),
        ..FileHeader::default()
    };
    let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    super::write_series(path, &header, &interfaces(), &blocks);
}

/// The numbers of the frames that our reader finds in a file or directories, and its notices. The
/// content of every frame is checked.
pub fn frame_numbers(paths: &[PathBuf]) -> (Vec<u64>, Vec<String>) {
    let mut source = ringside_store::open(paths).unwrap();
    let mut numbers = Vec::new();
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => {
                for frame in batch.iter() {
                    let number = (frame.meta.timestamp.0 - START) / 1000;
                    assert_eq!(frame.bytes, bytes_of(number));
                    numbers.push(number);
                }
            }
            Ok(None) => {}
            Err(error) => panic!("{error}"),
        }
    }
    (numbers, source.notices().iter().map(ToString::to_string).collect())
}

/// Bytes of the frames before the first that cannot be read, whatever they hold.
pub fn leading_frames(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let Ok(mut source) = FileSource::open(path) else { return frames };
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => frames.extend(batch.iter().map(|frame| frame.bytes.to_vec())),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    frames
}
