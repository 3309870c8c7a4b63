use super::*;
use ringside_core::{FrameMeta, FrameSlot};
use ringside_ring::{CaptureRing, HugePages, RingLayout, RingView};
use ringside_store::block::{block_end, block_header, blocks, packet};
use std::sync::Arc;

const BLOCK_BYTES: usize = 512 << 10;

fn ring(blocks_per_lane: usize) -> Arc<CaptureRing> {
    let layout =
        RingLayout { lanes: 1, blocks_per_lane, block_bytes: BLOCK_BYTES, lossless_readers: 1 };
    CaptureRing::create(layout, HugePages::No).unwrap()
}

fn packer(ring: &CaptureRing, snaplen: u32) -> Packer {
    Packer::new(ring.writer(0).unwrap(), InterfaceId(0), snaplen, BLOCK_BYTES)
}

/// `count` slots of one memory, stamped from `stamp` on; every third goes back in time.
fn slots(stamp: u64, count: u64, bytes: u32) -> Vec<FrameSlot> {
    (stamp..stamp + count)
        .map(|number| {
            let timestamp = Timestamp(if number % 3 == 2 { number - 2 } else { number });
            let meta = FrameMeta { timestamp, wire_bytes: bytes, ..FrameMeta::default() };
            FrameSlot::new(0, bytes, meta)
        })
        .collect()
}

/// Puts all frames in batches of 100; the sum of what became of them.
fn put_all(packer: &mut Packer, memory: &[u8], slots: &[FrameSlot]) -> Put {
    let mut sum = Put::default();
    for slots in slots.chunks(100) {
        let put = packer.put(&Batch::new(memory, slots), slots.len(), &Reading::default());
        packer.publish(Timestamp(0));
        sum.taken += put.taken;
        sum.taken_bytes += put.taken_bytes;
        sum.recorder_behind += put.recorder_behind;
        sum.too_large += put.too_large;
        sum.cuts.add(put.cuts);
    }
    sum
}

#[test]
fn every_block_says_which_it_is_and_when_its_frames_came() {
    let ring = ring(8);
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let mut packer = packer(&ring, 1000);
    let memory = vec![0x5a; 1500];
    let count = 1_200;
    let put = put_all(&mut packer, &memory, &slots(1_000, count, 1500));
    let cuts = Cuts { frames: count, bytes: count * 500 };
    let taken = Put { taken: count, taken_bytes: count * 1000, cuts, ..Put::default() };
    assert_eq!(put, taken);
    packer.finish(&Reading::default());

    let (mut bytes, mut number) = (Vec::new(), 0);
    for sequence in 0..view.opened(0) {
        bytes.clear();
        let state = view.copy_block(0, sequence, &mut bytes).unwrap();
        let header = block_header(&bytes).expect("a header first");
        assert_eq!((header.number, header.first_frame.0), (sequence, number));
        assert!(header.opened > Timestamp(0));
        let stamps: Vec<u64> =
            blocks(&bytes).filter_map(|(_, block)| Some(packet(block)?.meta.timestamp.0)).collect();
        assert_eq!(stamps.len(), state.frames as usize);
        assert_eq!(Some(&state.first_time_ns), stamps.first());
        assert_eq!(Some(&state.last_time_ns), stamps.iter().max());
        assert_eq!(state.closed, sequence + 1 < view.opened(0));
        assert_eq!(block_end(&bytes), state.closed.then(|| BlockEnd::of(&bytes)));
        number += u64::from(state.frames);
    }
    assert_eq!((number, view.opened(0)), (count, 3));
}

#[test]
fn the_end_of_a_block_tells_its_stamps_whatever_their_order() {
    let ring = ring(8);
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let mut packer = packer(&ring, 0);
    let memory = vec![0x5a; 1500];
    for step in [7_000, 3_000, 9_000, 1_000, 5_000] {
        put_all(&mut packer, &memory, &slots(step, 150, 1500));
    }
    packer.close(&Reading::default());
    let mut bytes = Vec::new();
    let ends = (0..view.opened(0)).map(|sequence| {
        bytes.clear();
        view.copy_block(0, sequence, &mut bytes).unwrap();
        assert_eq!(block_end(&bytes), Some(BlockEnd::of(&bytes)));
        block_end(&bytes).unwrap().stamps
    });
    let ends: Vec<Stamps> = ends.collect();
    assert_eq!(ends.len(), 3);
    let all = ends.iter().fold(Stamps::NONE, |sum, &one| sum.with(one));
    let expected = Stamps { earliest: Timestamp(999), latest: Timestamp(9_148) };
    assert_eq!(all, expected);
    assert!(ends[0].earliest < ends[0].latest && ends[0] != ends[1]);
}

#[test]
fn frames_that_find_no_room_are_counted_by_cause() {
    let ring = ring(2);
    let _reader = ring.lossless_reader(0, 0).unwrap();
    let mut packer = packer(&ring, 0);
    let memory = vec![0x5a; BLOCK_BYTES];
    let too_large = slots(0, 2, BLOCK_BYTES as u32 - 100);
    assert_eq!(put_all(&mut packer, &memory, &too_large), Put { too_large: 2, ..Put::default() });
    let put = put_all(&mut packer, &memory, &slots(0, 3_000, 1500));
    assert_eq!(put.taken + put.recorder_behind, 3_000);
    assert!((600..700).contains(&put.taken), "two blocks hold {} frames", put.taken);
}

#[test]
fn a_block_is_nearly_full_when_a_batch_like_the_last_may_close_it() {
    let ring = ring(4);
    let mut packer = packer(&ring, 0);
    let memory = vec![0x5a; 1500];
    let (mut seen, mut batches) = (0, 0);
    let slots = slots(0, 20, 1500);
    while ring.writer(0).is_none() && packer.writer.next_sequence() < 3 {
        batches += 1;
        let before = (packer.is_nearly_full(), packer.writer.next_sequence());
        packer.put(&Batch::new(&memory, &slots), slots.len(), &Reading::default());
        let closed = before.1 > 0 && packer.writer.next_sequence() > before.1;
        assert!(!closed || before.0, "closed without a warning");
        seen += u32::from(before.0);
    }
    assert!((2..=6).contains(&seen), "{seen} warnings in {batches} batches for two blocks");
}
