//! Hostile input: mutated captures and recordings never panic, and the counts still add up.

use crate::common::read_bytes;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Direction, Frame, FrameMeta, InterfaceId, LaneCounters, LaneId, SourceInterface, Timestamp,
};
use ringside_store::FileHeader;
use ringside_store::block::{
    Statistics, blocks, close_filled, frame_count, packet, whole_bytes, write_packet_block,
};
use ringside_store::pcapng::RINGSIDE_ROOM;
use ringside_store::recording::HEADER_PAGE_BYTES;
use std::io::Write;

/// Seeds above this size only slow the mutation down.
const SEED_BYTES_MAX: u64 = 16 << 10;

fn captures(test: &str, wanted: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let files = ringside_testkit::capture_files(test);
    let small = files.iter().filter(|path| path.metadata().unwrap().len() <= SEED_BYTES_MAX);
    small.map(|path| std::fs::read(path).unwrap()).filter(|bytes| wanted(bytes)).collect()
}

fn is_pcapng(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
}

/// A file of a recording with one ring block, shortened after its frames.
fn recording() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcapng");
    let header = FileHeader {
        run: "fuzz".into(),
        lane: LaneId(1),
        sequence: 2,
        block_bytes: RING_BLOCK_BYTES_MIN,
        ..FileHeader::default()
    };
    let interface = SourceInterface::ethernet("eth1");
    crate::common::write_series(&path, &header, &[interface], &[&small_block()]);
    std::fs::read(&path).unwrap()
}

/// The same, with room in place of the ring block.
fn recording_with_room() -> Vec<u8> {
    let mut bytes = recording();
    bytes.truncate(HEADER_PAGE_BYTES + 64);
    let length = (RING_BLOCK_BYTES_MIN as u32).to_le_bytes();
    bytes[HEADER_PAGE_BYTES..][..8]
        .copy_from_slice(&[RINGSIDE_ROOM.to_le_bytes(), length].concat());
    bytes
}

/// A closed block, smaller than a ring block, so that mutation finds its frames.
fn small_block() -> Vec<u8> {
    let mut block = vec![0; 8192];
    let mut at = 0;
    for size in [0usize, 1, 60, 1500] {
        for direction in [Direction::Inbound, Direction::Outbound] {
            let data = vec![size as u8; size];
            let wire_bytes = size as u32;
            let meta = FrameMeta { direction, wire_bytes, ..FrameMeta::default() };
            at += write_packet_block(&mut block[at..], &Frame { bytes: &data, meta }, 0);
        }
    }
    let counters = LaneCounters::default();
    let (interface, first_time, when) = (InterfaceId(0), Timestamp(1), Timestamp(2));
    let statistics = Statistics { interface, first_time, when, counters: &counters };
    close_filled(&mut block, at, &statistics);
    block
}

fn read_any(bytes: &[u8]) {
    // `read_bytes` asserts the contract of sources on the way.
    if let Ok((contents, _)) = read_bytes(bytes) {
        assert!(contents.damaged <= 1);
        let captured: usize = contents.frames.iter().map(|frame| frame.bytes.len()).sum();
        assert!(captured <= bytes.len(), "no byte is lent twice");
    }
}

#[test]
fn pcap_files() {
    let mut seeds = captures("fuzz::pcap_files", |bytes| !is_pcapng(bytes));
    seeds.push([&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 64]].concat());
    ringside_testkit::fuzz("pcap", 70_000, &seeds, read_any);
}

#[test]
fn pcapng_files_and_recordings() {
    let mut seeds = captures("fuzz::pcapng_files_and_recordings", is_pcapng);
    seeds.push(recording());
    seeds.push(recording_with_room());
    ringside_testkit::fuzz("pcapng", 15_000, &seeds, read_any);
}

/// `bytes` as gzip and as Zstandard pack them.
fn packed(bytes: &[u8]) -> [Vec<u8>; 2] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    [gzip.finish().unwrap(), zstd::encode_all(bytes, 1).unwrap()]
}

/// What is packed may be larger than its file by far; `read_any`'s bound does not hold for it.
#[test]
fn packed_captures() {
    let pcap = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 64]].concat();
    let mut seeds = Vec::new();
    for whole in [pcap, recording(), small_block()] {
        let [gzip, zstd] = packed(&whole);
        seeds.extend([[gzip.clone(), zstd.clone()].concat(), gzip, zstd]);
    }
    ringside_testkit::fuzz("packed-capture", 10_000, &seeds, |bytes| {
        if let Ok((contents, _)) = read_bytes(bytes) {
            assert!(contents.damaged <= 1);
        }
    });
}

#[test]
fn blocks_of_the_ring() {
    let seeds = vec![small_block()];
    ringside_testkit::fuzz("block", 500_000, &seeds, |bytes| {
        let whole = whole_bytes(bytes);
        assert!(whole <= bytes.len());
        assert_eq!(frame_count(bytes), frame_count(&bytes[..whole]));
        let frames = blocks(bytes).filter_map(|(_, block)| packet(block));
        for frame in frames {
            assert!(frame.meta.wire_bytes as usize >= frame.bytes.len());
        }
    });
}
