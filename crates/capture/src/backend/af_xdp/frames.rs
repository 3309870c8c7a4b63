//! Frames of a claim: parts in memory to slots of a batch.

use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Direction, FrameMeta, FrameSlot, InterfaceId, QueueId, Timestamp, TimestampKind,
};
use ringside_ebpf::capture::Metadata;
use ringside_sys::xsk::{Claim, LaneArena};

/// Bytes of a stamp.
const STAMP_BYTES: usize = 8;

/// What is the same for every frame of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRules {
    pub interface: InterfaceId,
    pub queue: QueueId,
    /// What the program puts in front of a frame.
    pub metadata: Metadata,
}

/// The stamps of a lane so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamping {
    /// Seconds that TAI is ahead of UTC, in nanoseconds.
    pub tai_offset_ns: u64,
    pub last: Timestamp,
    pub newest: Timestamp,
    /// Frames stamped earlier than the one before.
    pub inversions: u64,
}

impl Stamping {
    #[inline]
    fn note(&mut self, stamp: Timestamp) {
        self.inversions += u64::from(stamp < self.last);
        self.last = stamp;
        self.newest = self.newest.max(stamp);
    }
}

/// The slots of a hand's batch.
pub(super) type Slots = Box<[FrameSlot; BATCH_FRAMES_MAX]>;

pub(super) fn new_slots() -> Slots {
    Box::new([FrameSlot::new(0, 0, FrameMeta::default()); BATCH_FRAMES_MAX])
}

/// Makes slots of the frames in `claim`; returns their number. Frames of several parts are joined
/// in `arena`; one for which it has no room is left out and counted in `damaged`: only a broken
/// kernel makes so many.
pub(super) fn collect(
    claim: &mut Claim,
    rules: &FrameRules,
    stamping: &mut Stamping,
    arena: &LaneArena,
    slots: &mut Slots,
    damaged: &mut u64,
) -> usize {
    let (mut count, mut part, mut free) = (0, 0, arena.range().start);
    while let Some(first) = claim.parts().get(part).copied() {
        let stamp = stamp_of(claim.memory(), first.offset, rules.metadata, stamping.tai_offset_ns);
        let frame = if first.continues {
            join(claim, &mut part, arena, &mut free)
        } else {
            part += 1;
            Some((first.offset, first.bytes))
        };
        let Some((offset, bytes)) = frame else {
            *damaged += 1;
            continue;
        };
        if rules.metadata != Metadata::None {
            stamping.note(stamp);
        }
        let meta = FrameMeta {
            timestamp: stamp,
            timestamp_kind: TimestampKind::Kernel,
            wire_bytes: bytes,
            interface: rules.interface,
            queue: rules.queue,
            vlan: None,
            hash: None,
            direction: Direction::Inbound,
        };
        slots[count] = FrameSlot::new(offset, bytes, meta);
        count += 1;
    }
    count
}

/// The stamp that stands before `offset`.
#[inline]
fn stamp_of(memory: &[u8], offset: usize, metadata: Metadata, tai_offset_ns: u64) -> Timestamp {
    if metadata == Metadata::None {
        return Timestamp(0);
    }
    let before = memory.get(..offset).and_then(|before| before.last_chunk::<STAMP_BYTES>());
    let tai_ns = before.map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    Timestamp(tai_ns.saturating_sub(tai_offset_ns))
}

/// Joins the frame that begins with part `part` in the arena from `free` on, and moves both behind
/// it. `None` if there is no room.
#[cold]
fn join(
    claim: &mut Claim,
    part: &mut usize,
    arena: &LaneArena,
    free: &mut usize,
) -> Option<(usize, u32)> {
    let (start, mut fits, mut bytes) = (*free, true, 0u32);
    loop {
        let Some(next) = claim.parts().get(*part).copied() else { break };
        fits = fits && claim.copy_to_arena(*part, arena, start + bytes as usize);
        bytes = bytes.saturating_add(next.bytes);
        *part += 1;
        if !next.continues {
            break;
        }
    }
    if !fits {
        return None;
    }
    *free = start + bytes as usize;
    Some((start, bytes))
}
