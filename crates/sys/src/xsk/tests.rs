//! The data path with the kernel's side played: exact counts, ownership of chunks, misuse.

mod hostile;
mod live;
mod random;
mod transmit;
mod transmit_random;
mod wire;

use super::mock::MockKernel;
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of a frame in one chunk of 2 KiB.
const ROOM: usize = (CHUNK_BYTES_MIN - HEADROOM_BYTES) as usize;

/// One lane of 64 chunks.
const LAYOUT: UmemLayout = UmemLayout {
    lanes: 1,
    chunks_per_lane: 64,
    chunk_bytes: CHUNK_BYTES_MIN,
    arena_bytes: 1 << 16,
};

fn umem(layout: UmemLayout) -> Arc<Umem> {
    Arc::new(Umem::new(layout).unwrap())
}

/// A lane of 64 chunks, all with the kernel, and 64 entries in its receive ring.
fn lane() -> (MockKernel, XskEnds, Claim) {
    let umem = umem(LAYOUT);
    let (kernel, mut ends) = MockKernel::new(&umem, 0, 64).unwrap();
    ends.rx.expect_parts();
    assert_eq!(ends.fill.refill(), 64);
    (kernel, ends, Claim::new(umem))
}

/// The bytes of each frame in the claim.
fn frames(claim: &Claim) -> Vec<Vec<u8>> {
    let mut frames = vec![Vec::new()];
    for part in claim.parts() {
        let bytes = &claim.memory()[part.offset..][..part.bytes as usize];
        frames.last_mut().unwrap().extend_from_slice(bytes);
        if !part.continues {
            frames.push(Vec::new());
        }
    }
    assert_eq!(frames.pop(), Some(Vec::new()), "the last part ends a frame");
    frames
}

fn panics(action: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}

#[test]
fn frames_and_what_stands_before_them_arrive_in_order_and_chunks_go_back() {
    let (mut kernel, mut ends, mut claim) = lane();
    let long: Vec<u8> = (0..5000u32).map(|byte| byte as u8).collect();
    assert!(kernel.receive(b"metadata", b"one"));
    assert!(kernel.receive(b"", &long));
    assert_eq!(ends.rx.claim(&mut claim), 0, "not shown yet");
    kernel.flush();
    assert_eq!((ends.rx.waiting(), ends.rx.is_empty()), (4, false));
    assert_eq!(ends.rx.claim(&mut claim), 4);
    assert_eq!(frames(&claim), [b"one".to_vec(), long]);
    let first = claim.parts()[0];
    assert_eq!(usize::from(first.headroom), HEADROOM_BYTES as usize);
    assert_eq!(&claim.memory()[first.offset - 8..first.offset], b"metadata");
    assert_eq!((kernel.free_chunks(), ends.fill.in_reserve()), (60, 0));
    let last = claim.parts()[3];
    assert_eq!(ends.fill.give_back(&mut claim), 4);
    assert!(claim.parts().is_empty() && ends.rx.is_empty());
    let order = kernel.fill_ring();
    assert_eq!(order.len(), 64);
    let newest = last.offset as u64 - u64::from(last.headroom);
    assert_eq!(order[60], newest, "the last one used goes out first");
    assert_eq!((ends.rx.high_water(), claim.take_damaged()), (4, 0));
}

#[test]
fn a_claim_can_be_changed_and_joined_within_its_own_bounds() {
    let (mut kernel, mut ends, mut claim) = lane();
    let long = [[1u8; ROOM], [2; ROOM]].concat();
    kernel.receive(b"stamp", &long);
    kernel.receive(b"", b"neighbour");
    kernel.flush();
    assert_eq!(ends.rx.claim(&mut claim), 3);
    let length = claim.edit(0, |bytes, at| {
        assert_eq!((&bytes[at - 5..at], bytes.len() - at), (&b"stamp"[..], ROOM));
        bytes.fill(7);
        bytes.len()
    });
    assert_eq!(length, CHUNK_BYTES_MIN as usize);
    assert_eq!(frames(&claim)[0], [[7u8; ROOM], [2; ROOM]].concat());
    assert_eq!(frames(&claim)[1], b"neighbour");
    let arena = ends.arena.range();
    assert!(claim.copy_to_arena(0, &mut ends.arena, arena.start));
    assert!(claim.copy_to_arena(1, &mut ends.arena, arena.start + ROOM));
    assert_eq!(claim.memory()[arena.start..][..2 * ROOM], frames(&claim)[0]);
    assert!(claim.copy_to_arena(2, &mut ends.arena, arena.end - 9));
    assert_eq!(&claim.memory()[arena.end - 9..arena.end], b"neighbour");
    for outside in [arena.start - 1, arena.end - 8, arena.end, usize::MAX, usize::MAX - 4] {
        assert!(!claim.copy_to_arena(2, &mut ends.arena, outside), "{outside}");
    }
    assert!(panics(|| claim.edit(3, |_, _| ())), "there is no such part");
    assert!(panics(|| _ = claim.copy_to_arena(3, &mut ends.arena, arena.start)));
}

#[test]
fn an_arena_is_split_into_pieces_of_which_each_is_changed_alone() {
    let umem = umem(UmemLayout { lanes: 2, arena_bytes: 3000, ..LAYOUT });
    let lanes = [0, 1].map(|lane| MockKernel::new(&umem, lane, 64).unwrap().1.arena);
    let whole = lanes.each_ref().map(LaneArena::range);
    let mut pieces: Vec<LaneArena> = lanes.into_iter().flat_map(|arena| arena.split(3)).collect();
    let mut claim = Claim::new(umem);
    for (piece, number) in pieces.iter_mut().zip(1..) {
        let range = piece.range();
        claim.edit_arena(piece, |bytes, start| {
            assert_eq!((bytes.len(), start), (1000, range.start));
            bytes.fill(number);
        });
    }
    let expected = [1, 2, 3, 4, 5, 6].map(|number| [number; 1000]);
    assert_eq!(claim.memory()[whole[0].start..whole[1].end], expected.concat());
    assert_eq!((whole[0].len(), whole[1].start), (3000, whole[0].end));
    let mut other = Claim::new(super::tests::umem(LAYOUT));
    assert!(panics(|| other.edit_arena(&mut pieces[0], |_, _| ())), "it is of other memory");
    assert!(pieces.pop().unwrap().split(0).is_empty());
}

#[test]
fn what_is_of_other_memory_and_what_has_an_owner_is_refused() {
    let (mut kernel, mut ends, mut claim) = lane();
    let (_, mut other_ends, mut other_claim) = lane();
    kernel.receive(b"", b"one");
    kernel.receive(b"", b"two");
    kernel.flush();
    assert!(panics(|| _ = ends.rx.claim(&mut other_claim)), "a claim of memory of the same shape");
    assert_eq!(ends.rx.claim(&mut claim), 2);
    assert!(panics(|| _ = ends.rx.claim(&mut claim)), "what is claimed is not given back yet");
    assert!(panics(|| _ = other_ends.fill.give_back(&mut claim)));
    assert!(panics(|| _ = claim.copy_to_arena(0, &mut other_ends.arena, ends.arena.range().start)));
    assert_eq!(claim.parts().len(), 2, "nothing was taken out");
    let umem = umem(LAYOUT);
    let first = MockKernel::new(&umem, 0, 64).unwrap();
    assert!(panics(|| _ = MockKernel::new(&umem, 0, 64)), "the chunks have an owner");
    assert!(panics(|| _ = MockKernel::new(&umem, 1, 64)), "there is no such lane");
    drop(first);
    assert!(panics(|| _ = MockKernel::new(&umem, 0, 64)), "the kernel may have them for ever");
    let long = [0; HEADROOM_BYTES as usize + 1];
    assert!(panics(|| _ = kernel.receive(&long, b"")), "it would begin in another chunk");
}

#[test]
fn a_claim_that_is_dropped_takes_its_chunks_along() {
    let (mut kernel, mut ends, mut claim) = lane();
    for _ in 0..3 {
        kernel.receive(b"", b"frame");
    }
    kernel.flush();
    assert_eq!(ends.rx.claim(&mut claim), 3);
    let umem = umem_of(&claim);
    drop(claim);
    assert_eq!((ends.fill.refill(), kernel.free_chunks(), ends.fill.in_reserve()), (0, 61, 0));
    let mut claim = Claim::new(umem);
    assert_eq!((ends.rx.claim(&mut claim), ends.fill.give_back(&mut claim)), (0, 0));
}

fn umem_of(claim: &Claim) -> Arc<Umem> {
    claim.umem().clone()
}

#[test]
fn a_kernel_without_chunks_or_room_drops_whole_frames_and_counts() {
    let umem = umem(LAYOUT);
    let (mut kernel, mut ends) = MockKernel::new(&umem, 0, 8).unwrap();
    ends.rx.expect_parts();
    let mut claim = Claim::new(umem);
    let two = [3; ROOM + 1];
    assert!(!kernel.receive(b"", b"no chunk yet"));
    ends.fill.set_level(3);
    assert_eq!((ends.fill.refill(), ends.fill.refill()), (3, 0));
    assert!(kernel.receive(b"", &two) && !kernel.receive(b"", &two), "one chunk is too few");
    assert!(kernel.receive(b"", b"but enough for this") && !kernel.receive(b"", b"none"));
    let expected = XskStatistics { dropped: 3, fill_empty: 3, ..XskStatistics::default() };
    assert_eq!(kernel.statistics(), expected);
    ends.fill.set_level(64);
    assert_eq!(ends.fill.refill(), 61);
    for _ in 0..4 {
        assert!(kernel.receive(b"", b"fills up"));
    }
    assert!(!kernel.receive(b"", &two), "one entry is too few");
    assert!(kernel.receive(b"", b"last") && !kernel.receive(b"", b"full"));
    assert_eq!(kernel.statistics(), XskStatistics { ring_full: 2, ..expected });
    kernel.flush();
    assert!(!kernel.receive(b"", b"shown is not taken"));
    assert_eq!(ends.rx.claim(&mut claim), 8);
    assert!(kernel.receive(b"", b"taken is enough"));
    assert_eq!((ends.fill.give_back(&mut claim), ends.fill.starved()), (8, 1));
}

#[test]
fn a_claim_holds_a_batch_at_most_and_ends_with_a_frame() {
    let cut = UmemLayout { chunks_per_lane: 512, ..LAYOUT };
    let umem = umem(cut);
    let (mut kernel, mut ends) = MockKernel::new(&umem, 0, 512).unwrap();
    ends.rx.expect_parts();
    ends.fill.refill();
    // Two parts less one would be in the middle of the 86th frame.
    let three = [1; 2 * ROOM + 1];
    while kernel.receive(b"", &three) {}
    kernel.flush();
    let mut claim = Claim::new(umem);
    assert_eq!((ends.rx.claim(&mut claim), ends.rx.high_water()), (255, 510));
    assert_eq!((frames(&claim).len(), ends.rx.waiting()), (85, 255));
    ends.fill.give_back(&mut claim);
    assert_eq!((ends.rx.claim(&mut claim), ends.rx.is_empty()), (255, true));
    assert_eq!(ends.rx.high_water(), 510);
}

#[test]
fn layouts_beyond_their_limits_are_refused() {
    let good = LAYOUT;
    for (name, cut) in [
        ("no lane", UmemLayout { lanes: 0, ..good }),
        ("too many lanes", UmemLayout { lanes: 257, ..good }),
        ("few chunks", UmemLayout { chunks_per_lane: 32, ..good }),
        ("odd chunks", UmemLayout { chunks_per_lane: 96, ..good }),
        ("many chunks", UmemLayout { chunks_per_lane: 1 << 21, ..good }),
        ("odd chunk", UmemLayout { chunk_bytes: 3000, ..good }),
        ("large arena", UmemLayout { arena_bytes: (1 << 30) + 1, ..good }),
        ("huge arena", UmemLayout { arena_bytes: usize::MAX, lanes: 2, ..good }),
    ] {
        assert!(matches!(Umem::new(cut), Err(crate::SysError::Limit { .. })), "{name}");
    }
    let umem = umem(UmemLayout { lanes: 2, arena_bytes: 0, ..good });
    let (_, mut ends) = MockKernel::new(&umem, 1, 64).unwrap();
    assert!(ends.arena.range().is_empty());
    assert_eq!(ends.fill.refill(), 64);
}
