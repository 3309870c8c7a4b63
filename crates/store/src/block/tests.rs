use super::*;
use crate::pcapng::RINGSIDE_END;
use proptest::prelude::*;
use ringside_core::ledger::ByCause;
use ringside_core::limits::{FRAME_BYTES_MAX, LANE_THREADS_MAX};
use ringside_core::{FrameMeta, Stamps};

fn frame(bytes: &[u8], direction: Direction) -> Frame<'_> {
    let meta = FrameMeta {
        timestamp: Timestamp(0x0123_4567_89ab_cdef),
        wire_bytes: bytes.len() as u32,
        interface: InterfaceId(7),
        direction,
        ..FrameMeta::default()
    };
    Frame { bytes, meta }
}

fn statistics(counters: &LaneCounters) -> Statistics<'_> {
    let (first_time, when) = (Timestamp(1), Timestamp(0x0123_4567_89ab_cdef));
    Statistics { interface: InterfaceId(7), first_time, when, counters }
}

/// Packs frames of `sizes` as a worker does, closes the block, and checks that it is whole pcapng
/// blocks to its last byte. Returns how many frames went in.
fn pack(block: &mut [u8], sizes: impl Iterator<Item = (usize, Direction)>) -> usize {
    let data = vec![0xa5; FRAME_BYTES_MAX as usize];
    let (mut at, mut packed) = (0, Vec::new());
    for (size, direction) in sizes {
        if !fits(block.len() - at, size, direction) {
            break;
        }
        let length = write_packet_block(&mut block[at..], &frame(&data[..size], direction), 0);
        assert_eq!(length, packet_block_bytes(size, direction));
        at += length;
        packed.push(size);
    }
    let counters = LaneCounters::default();
    let statistics_bytes = close_filled(block, at, &statistics(&counters));
    let mut walk = blocks(block);
    let mut sizes_read = Vec::new();
    let mut others = Vec::new();
    for (block_type, bytes) in walk.by_ref() {
        if block_type == ENHANCED_PACKET {
            assert!(others.is_empty(), "a packet after the closing blocks");
            sizes_read.push(word(bytes, 20).unwrap() as usize);
        } else {
            others.push((block_type, bytes.len()));
        }
    }
    assert_eq!(walk.offset(), block.len(), "the blocks end where the ring block ends");
    assert_eq!(sizes_read, packed);
    let padding = block.len() - at - statistics_bytes - BLOCK_END_BYTES;
    assert_eq!(others[0], (INTERFACE_STATISTICS, statistics_bytes));
    assert_eq!(others[1], (RINGSIDE_PADDING, padding));
    assert_eq!(others[2..], [(RINGSIDE_END, BLOCK_END_BYTES)]);
    let end = block_end(block).unwrap();
    assert_eq!(end.frames, packed.len() as u64);
    let stamps = Stamps::of(Timestamp(0x0123_4567_89ab_cdef));
    assert_eq!(end.stamps, if packed.is_empty() { Stamps::NONE } else { stamps });
    packed.len()
}

proptest! {
    #[test]
    fn every_closed_block_is_whole_pcapng_blocks_to_its_end(
        sizes in prop::collection::vec((0usize..9100, any::<bool>()), 0..200),
        block_bytes in prop::sample::select(vec![1usize << 14, 1 << 16, 1 << 19]),
    ) {
        let mut block = vec![0xff; block_bytes];
        let way = |sent| if sent { Direction::Outbound } else { Direction::Inbound };
        pack(&mut block, sizes.into_iter().map(|(size, sent)| (size, way(sent))));
    }
}

#[test]
fn a_frame_that_fits_exactly_goes_in_and_one_step_more_does_not() {
    let block_bytes = 1 << 19;
    for before in [1usize, 60, 1514, 9000] {
        for direction in [Direction::Inbound, Direction::Outbound] {
            // Small frames until a last one can fill the rest exactly.
            let mut used = 0;
            let mut sizes = Vec::new();
            while used < block_bytes - 200_000 {
                sizes.push((before, direction));
                used += packet_block_bytes(before, direction);
            }
            let room = block_bytes - used - CLOSING_BYTES_MAX;
            let exact = room - packet_block_bytes(0, direction);
            for (last, expected) in [(exact - 4, 1), (exact - 1, 1), (exact, 1), (exact + 1, 0)] {
                let mut block = vec![0xff; block_bytes];
                let all = sizes.iter().copied().chain([(last, direction)]);
                assert_eq!(pack(&mut block, all), sizes.len() + expected, "last {last}");
            }
        }
    }
}

#[test]
fn the_largest_frame_fits_the_smallest_ring_block() {
    let (largest, block) = (FRAME_BYTES_MAX as usize, ringside_core::limits::RING_BLOCK_BYTES_MIN);
    assert!(fits(block, largest, Direction::Outbound));
}

#[test]
fn the_fields_of_a_packet_block_lie_where_the_format_says() {
    let mut dst = [0xff; 64];
    let mut sent = frame(&[1, 2, 3, 4, 5], Direction::Outbound);
    sent.meta.wire_bytes = 1500;
    let length = write_packet_block(&mut dst, &sent, 3);
    let expected: Vec<u8> =
        [6u32, 48, 7, 0x0123_4567, 0x89ab_cdef, 3, 1500, 0x0003_0201, 0x0004_0002, 2, 0, 48]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
    assert_eq!(&dst[..length], expected);
    assert_eq!(dst[length..], [0xff; 16], "nothing beyond the block is touched");
}

#[test]
fn the_largest_ledger_stays_below_the_bound_and_is_read_back() {
    let all = [
        Cause::KernelRingFull,
        Cause::InterfaceDrop,
        Cause::RecorderBehind,
        Cause::FrameTooLarge,
        Cause::Overtaken,
        Cause::DiskFull,
        Cause::WriteFailed,
        Cause::PipeClosed,
        Cause::PipeStalled,
        Cause::LimitReached,
        Cause::Damaged,
        Cause::ByRule,
        Cause::SourceLimit,
    ];
    let largest = u64::MAX / 16; // the sum of the causes must not overflow
    let counters = LaneCounters {
        interface: "\u{1}".repeat(300),
        queue: u16::MAX,
        received: Some(u64::MAX),
        taken: u64::MAX,
        taken_bytes: u64::MAX,
        cut_frames: u64::MAX,
        cut_bytes: u64::MAX,
        passed: u64::MAX,
        filtered: Some(u64::MAX),
        dropped: ByCause::from(all.map(|cause| (cause, largest))),
        in_flight: Some(u64::MAX),
        inversions: u64::MAX,
        taken_by_thread: vec![u64::MAX; LANE_THREADS_MAX],
        imbalance: Some(i64::MIN),
    };
    let mut dst = vec![0xff; STATISTICS_BLOCK_BYTES_MAX];
    let length = write_statistics_block(&mut dst, &statistics(&counters));
    assert!(length < STATISTICS_BLOCK_BYTES_MAX * 7 / 8, "{length} leaves too little reserve");
    let json = comment(&dst[..length]).expect("the ledger fits");
    let read: LaneCounters = serde_json::from_str(&json).unwrap();
    let interface = "\u{1}".repeat(LEDGER_NAME_BYTES_MAX);
    assert_eq!(read, LaneCounters { interface, ..counters });
}

#[test]
fn unknown_counts_are_left_out() {
    let known = LaneCounters { received: Some(5), filtered: Some(2), ..LaneCounters::default() };
    let mut dst = vec![0xff; STATISTICS_BLOCK_BYTES_MAX];
    let length = write_statistics_block(&mut dst, &statistics(&known));
    let codes: Vec<u16> = options(&dst[..length]).map(|(code, _)| code).collect();
    assert_eq!(codes, [2, 3, 4, 5, 6, 7, 8, 1]);
    let unknown = LaneCounters { received: None, ..known };
    let length = write_statistics_block(&mut dst, &statistics(&unknown));
    let codes: Vec<u16> = options(&dst[..length]).map(|(code, _)| code).collect();
    assert_eq!(codes, [2, 3, 5, 7, 8, 1]);
}

#[test]
fn a_torn_or_lying_block_ends_the_walk() {
    let mut block = vec![0; 1 << 14];
    pack(&mut block, [(100, Direction::Inbound), (200, Direction::Inbound)].into_iter());
    assert_eq!((frame_count(&block), whole_bytes(&block)), (2, block.len()));
    let first = packet_block_bytes(100, Direction::Inbound);
    assert_eq!(whole_bytes(&block[..first + 8]), first);
    block[first + 4] = 0xff; // the length says something else than the trailing one
    assert_eq!((frame_count(&block), whole_bytes(&block)), (1, first));
    assert_eq!(whole_bytes(&[]), 0);
}

#[test]
#[should_panic(expected = "no pcapng block has 8 bytes")]
fn padding_below_the_smallest_block_is_a_bug() {
    write_padding(&mut [0; 8]);
}

/// The options of a statistics block.
fn options(block: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = &block[20..block.len() - 4];
    std::iter::from_fn(move || {
        let code = u16::from_le_bytes(*rest.first_chunk()?);
        let length = u16::from_le_bytes(*rest[2..].first_chunk()?) as usize;
        let value = &rest[4..4 + length];
        rest = &rest[4 + aligned(length)..];
        (code != option::END).then_some((code, value))
    })
}

fn comment(block: &[u8]) -> Option<String> {
    let found = options(block).find(|&(code, _)| code == option::COMMENT);
    found.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
}
