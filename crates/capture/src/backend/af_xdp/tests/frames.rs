//! From descriptors to slots, by a mock of the kernel's side: no privileges.

use super::super::frames::{FrameRules, Slots, collect, new_slots};
use super::*;
use crate::backend::in_driver::Stamping;
use ringside_core::QueueId;
use ringside_ebpf::abi::{METADATA_HARDWARE_STAMP, METADATA_HASH, METADATA_VLAN};
use ringside_ebpf::capture::Metadata;
use ringside_sys::xsk::mock::MockKernel;
use ringside_sys::xsk::{Claim, FillRing, LaneArena, RxRing, Umem, UmemLayout};
use ringside_testkit::Random;
use std::sync::Arc;

/// Bytes of a frame that lie in one chunk of 2 KiB.
const PART_BYTES: usize = 2048 - 256;

/// TAI is ahead by so much here.
const TAI_OFFSET_NS: u64 = 37_000_000_000;

/// XDP_PKT_CONTD of linux/if_xdp.h.
const CONTINUES: u32 = 1;

struct Rig {
    kernel: MockKernel,
    rx: RxRing,
    fill: FillRing,
    arena: LaneArena,
    claim: Claim,
    slots: Slots,
    stamping: Stamping,
    rules: FrameRules,
    damaged: u64,
}

impl Rig {
    fn new(chunks_per_lane: u32, arena_bytes: usize, metadata: Metadata) -> Rig {
        let layout = UmemLayout { lanes: 1, chunks_per_lane, chunk_bytes: 2048, arena_bytes };
        let umem = Arc::new(Umem::new(layout).unwrap());
        let (kernel, ends) = MockKernel::new(&umem, 0, chunks_per_lane).unwrap();
        let (mut rx, mut fill) = (ends.rx, ends.fill);
        rx.expect_parts();
        fill.refill();
        let stamping = Stamping { tai_offset_ns: TAI_OFFSET_NS, ..Stamping::default() };
        let rules = FrameRules { interface: InterfaceId(3), queue: QueueId(7), metadata };
        let (claim, arena) = (Claim::new(umem), ends.arena);
        Rig { kernel, rx, fill, arena, claim, slots: new_slots(), stamping, rules, damaged: 0 }
    }

    fn receive(&mut self, time_ns: u64, frame: &[u8]) -> bool {
        let stamp = (time_ns + TAI_OFFSET_NS).to_ne_bytes();
        let metadata: &[u8] = if self.rules.metadata == Metadata::None { &[] } else { &stamp };
        self.kernel.receive(metadata, frame)
    }

    /// One batch, owned, given back.
    fn take(&mut self) -> Vec<OwnedFrame> {
        self.rx.claim(&mut self.claim);
        let (claim, slots) = (&mut self.claim, &mut self.slots);
        let (stamping, damaged) = (&mut self.stamping, &mut self.damaged);
        let count = collect(claim, &self.rules, stamping, &mut self.arena, slots, damaged);
        let memory = claim.memory();
        let lend = |slot: &ringside_core::FrameSlot| slot.lend(memory).to_owned_frame();
        let got = slots[..count].iter().map(lend).collect();
        self.fill.give_back(&mut self.claim);
        got
    }
}

fn pattern(number: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u32).wrapping_mul(131).wrapping_add(number) as u8).collect()
}

#[test]
fn parts_are_joined_and_each_frame_has_the_stamp_of_its_first() {
    for metadata in [Metadata::Stamp, Metadata::None] {
        let mut rig = Rig::new(256, 1 << 20, metadata);
        let sizes = [1, 60, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 9_000, 56_000, 61];
        let frames: Vec<Vec<u8>> =
            (0..).zip(sizes).map(|(number, bytes)| pattern(number, bytes)).collect();
        for round in 0..50u64 {
            for (index, frame) in (0..).zip(&frames) {
                assert!(rig.receive(round * 100 + index, frame), "{round}");
            }
            rig.kernel.flush();
            let got = rig.take();
            assert_same_bytes(&got, &frames);
            for (index, frame) in (0..).zip(&got) {
                let time = if metadata == Metadata::None { 0 } else { round * 100 + index };
                assert_eq!(frame.meta.timestamp, Timestamp(time));
                assert_eq!((frame.meta.interface, frame.meta.queue), (InterfaceId(3), QueueId(7)));
            }
        }
        assert_eq!((rig.damaged, rig.stamping.inversions), (0, 0));
    }
}

/// What the driver knows of a frame, as the program writes it.
fn known(stamp: u64, flags: u32, hash: u32, tag: (u16, u16)) -> Vec<u8> {
    let mut bytes = stamp.to_ne_bytes().to_vec();
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(hash.to_ne_bytes());
    bytes.extend(tag.0.to_ne_bytes());
    bytes.extend(tag.1.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

#[test]
fn what_the_driver_took_out_is_put_back_and_what_it_knows_is_told() {
    let mut rig = Rig::new(256, 1 << 20, Metadata::Full);
    let sizes = [14, 60, PART_BYTES, PART_BYTES + 1, 9_000];
    for round in 0..20 {
        let mut expected = Vec::new();
        for (number, bytes) in (0u32..).zip(sizes) {
            let frame = pattern(number, bytes);
            let mut tagged = frame.clone();
            tagged.splice(12..12, [0x88, 0xa8, 0x20, 0x64]);
            let utc = known(5 + TAI_OFFSET_NS, 0, 7, (1, 2));
            assert!(rig.kernel.receive(&utc, &frame), "{round}");
            expected.push((frame, Timestamp(5), TimestampKind::Kernel, None));
            let flags = METADATA_HARDWARE_STAMP | METADATA_HASH | METADATA_VLAN;
            let all = known(5, flags, 7, (0x88a8, 0x2064));
            assert!(rig.kernel.receive(&all, &pattern(number, bytes)), "{round}");
            expected.push((tagged, Timestamp(5), TimestampKind::Hardware, Some(7)));
        }
        // Without addresses there was no tag to take out.
        let short = known(5, METADATA_VLAN | METADATA_HARDWARE_STAMP, 0, (0x8100, 5));
        assert!(rig.kernel.receive(&short, &[9; 11]));
        expected.push((vec![9; 11], Timestamp(5), TimestampKind::Hardware, None));
        rig.kernel.flush();
        let got = rig.take();
        assert_eq!(got.len(), expected.len());
        for (index, (got, (bytes, stamp, kind, hash))) in got.iter().zip(&expected).enumerate() {
            assert!(got.bytes == *bytes, "frame {index}: {} bytes", got.bytes.len());
            assert_eq!(got.meta.wire_bytes as usize, bytes.len());
            assert_eq!((got.meta.timestamp, got.meta.timestamp_kind), (*stamp, *kind));
            assert_eq!(got.meta.hash, *hash);
            let is_tagged = hash.is_some() || bytes.len() == 11;
            assert_eq!(got.meta.vlan.is_some(), is_tagged, "frame {index}");
        }
    }
    assert_eq!(rig.damaged, 0);
}

#[test]
fn a_stamp_that_goes_back_is_counted_and_the_newest_stays() {
    let mut rig = Rig::new(64, 1 << 16, Metadata::Stamp);
    for time in [10, 20, 15, 16, 30, 5] {
        assert!(rig.receive(time, &[1; 60]));
    }
    rig.kernel.flush();
    let stamps: Vec<u64> = rig.take().iter().map(|frame| frame.meta.timestamp.0).collect();
    assert_eq!(stamps, [10, 20, 15, 16, 30, 5]);
    assert_eq!((rig.stamping.inversions, rig.stamping.newest), (2, Timestamp(30)));
}

#[test]
fn a_frame_that_the_arena_has_no_room_for_is_left_out_and_counted() {
    let mut rig = Rig::new(64, 3 * PART_BYTES, Metadata::Stamp);
    let frames =
        [pattern(1, 60), pattern(2, 2 * PART_BYTES), pattern(3, 2 * PART_BYTES), pattern(4, 70)];
    for frame in &frames {
        assert!(rig.receive(1, frame));
    }
    rig.kernel.flush();
    let got = rig.take();
    assert_eq!(rig.damaged, 1);
    let expected = [frames[0].clone(), frames[1].clone(), frames[3].clone()];
    assert_same_bytes(&got, &expected);
    // The next batch has the arena for itself again.
    assert!(rig.receive(2, &frames[2]));
    rig.kernel.flush();
    assert_same_bytes(&rig.take(), &frames[2..3]);
    assert_eq!(rig.damaged, 1);
}

/// Random frames into little memory: each is taken whole and once, in order, or was refused.
#[test]
fn random_traffic_is_whole_and_in_order() {
    for seed in 1..=20 {
        let mut random = Random::new(seed);
        let chunks = 64 << random.below(3);
        let mut rig = Rig::new(chunks, 1 << 20, Metadata::Stamp);
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for step in 0..3_000u32 {
            match random.below(4) {
                0 | 1 => {
                    let most = if random.below(4) == 0 { 30_000 } else { 1_800 };
                    let bytes = 1 + random.below(most);
                    let frame = pattern(step, bytes);
                    if rig.receive(u64::from(step), &frame) {
                        sent.push((u64::from(step), frame));
                    }
                }
                2 => rig.kernel.flush(),
                _ => got.extend(rig.take()),
            }
        }
        rig.kernel.flush();
        for _ in 0..1_000 {
            got.extend(rig.take());
        }
        assert_eq!(got.len(), sent.len(), "seed {seed}");
        for (got, (time, sent)) in got.iter().zip(&sent) {
            assert_eq!(got.meta.timestamp, Timestamp(*time), "seed {seed}");
            assert!(got.bytes == *sent, "seed {seed}: frame of {time}");
        }
        assert_eq!((rig.damaged, rig.stamping.inversions), (0, 0), "seed {seed}");
        let all = rig.kernel.free_chunks() + rig.fill.in_reserve() as u32;
        assert_eq!(all, chunks, "seed {seed}: no chunk is lost");
    }
}

/// Whatever a broken kernel writes into the ring: no panic, and no frame from outside the memory.
#[test]
fn any_descriptors_do_no_harm() {
    let good = |address: u64, bytes: u32, options: u32| {
        let mut entry = address.to_ne_bytes().to_vec();
        entry.extend(bytes.to_ne_bytes());
        entry.extend(options.to_ne_bytes());
        entry
    };
    let chain: Vec<u8> =
        (0..20u64).flat_map(|i| good(i * 2048 + 256, 1792, u32::from(i < 19))).collect();
    let plain: Vec<u8> = (0..60u64).flat_map(|i| good(i * 2048 + 256, 60, 0)).collect();
    let endless: Vec<u8> = (0..63u64).flat_map(|i| good(i * 2048 + 256, 5, CONTINUES)).collect();
    ringside_testkit::fuzz("af-xdp-descriptors", 12_000, &[chain, plain, endless], |bytes| {
        let mut rig = Rig::new(64, 1 << 15, Metadata::Stamp);
        let entries = bytes.chunks_exact(16).take(63);
        for entry in entries {
            let (address, rest) = entry.split_at(8);
            let (bytes, options) = rest.split_at(4);
            let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
            let address = u64::from_ne_bytes(address.try_into().unwrap());
            rig.kernel.put_raw(address, word(bytes), word(options));
        }
        rig.kernel.flush();
        for _ in 0..64 {
            for frame in rig.take() {
                assert!(frame.bytes.len() <= 1 << 15);
                assert_eq!(frame.meta.wire_bytes as usize, frame.bytes.len());
            }
        }
    });
}
