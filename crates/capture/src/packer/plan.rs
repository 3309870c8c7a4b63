//! What a batch takes in the ring's blocks: sums of lengths, made before its turn to reserve.

use super::{Offered, Pieced};
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{FrameSlot, Stamps};
use ringside_store::block::{
    BLOCK_HEADER_BYTES, CLOSING_BYTES_MAX, captured_max, packet_block_bytes,
};
use std::ops::Range;

/// The frames of a batch that go into the ring, and where each ends if they lie one behind the
/// other. Kept by its thread, so that its memory is used again.
pub(super) struct Plan {
    /// Bytes up to the end of each frame's packet block.
    ends: Vec<u32>,
    /// The frames, if not all that are offered are among them.
    kept: Vec<FrameSlot>,
    pieced: Vec<Pieced>,
}

/// A plan of some frames.
#[derive(Clone, Copy)]
pub(super) struct Planned<'p> {
    pub(super) offered: Offered<'p>,
    ends: &'p [u32],
    /// Of all its frames.
    stamps: Stamps,
}

impl Plan {
    pub(super) fn new() -> Plan {
        Plan { ends: Vec::with_capacity(BATCH_FRAMES_MAX), kept: Vec::new(), pieced: Vec::new() }
    }

    /// Plans the frames that are offered; also says how many no block can hold.
    pub(super) fn make<'p>(
        &'p mut self,
        offered: Offered<'p>,
        limits: Limits,
    ) -> (Planned<'p>, u64) {
        self.ends.clear();
        let (mut end, mut stamps) = (0, Stamps::NONE);
        for slot in offered.slots {
            let Some(bytes) = limits.bytes_of(slot) else {
                return self.make_without_too_large(offered, limits);
            };
            end += bytes;
            stamps = stamps.with(Stamps::of(slot.timestamp()));
            self.ends.push(end);
        }
        (Planned { offered, ends: &self.ends, stamps }, 0)
    }

    fn make_without_too_large<'p>(
        &'p mut self,
        offered: Offered<'p>,
        limits: Limits,
    ) -> (Planned<'p>, u64) {
        self.ends.clear();
        self.kept.clear();
        self.pieced.clear();
        let mut end = 0;
        let mut pieced = offered.pieced.iter().copied().peekable();
        for (index, slot) in (0u32..).zip(offered.slots) {
            let own = pieced.next_if(|pieced| pieced.index == index);
            let Some(bytes) = limits.bytes_of(slot) else { continue };
            end += bytes;
            self.ends.push(end);
            let index = self.kept.len() as u32;
            self.pieced.extend(own.map(|Pieced { list, .. }| Pieced { index, list }));
            self.kept.push(*slot);
        }
        let too_large = (offered.slots.len() - self.kept.len()) as u64;
        let offered = Offered { slots: &self.kept, pieced: &self.pieced, ..offered };
        let stamps = stamps_of(&self.kept);
        (Planned { offered, ends: &self.ends, stamps }, too_large)
    }
}

impl<'p> Planned<'p> {
    pub(super) fn slots(&self) -> &'p [FrameSlot] {
        self.offered.slots
    }

    /// Stamps of the frames in `range`, which is nearly always all of them.
    pub(super) fn stamps(&self, range: Range<usize>) -> Stamps {
        if range.len() == self.offered.slots.len() {
            return self.stamps;
        }
        stamps_of(&self.offered.slots[range])
    }

    /// Bytes of the frames from `from` to before `to`.
    pub(super) fn bytes(&self, from: usize, to: usize) -> usize {
        let before = |index: usize| index.checked_sub(1).map_or(0, |last| self.ends[last]);
        (before(to) - before(from)) as usize
    }

    /// How many of the frames from `from` on fit in `room` bytes.
    pub(super) fn fitting(&self, from: usize, room: usize) -> usize {
        let ends = &self.ends[from..];
        let before = from.checked_sub(1).map_or(0, |last| self.ends[last]) as usize;
        if ends.last().is_none_or(|&end| end as usize <= before + room) {
            return ends.len();
        }
        ends.partition_point(|&end| end as usize <= before + room)
    }
}

fn stamps_of(slots: &[FrameSlot]) -> Stamps {
    slots.iter().fold(Stamps::NONE, |sum, slot| sum.with(Stamps::of(slot.timestamp())))
}

/// What limits the frames of a lane.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    captured_max: u32,
    packet_bytes_max: u32,
}

impl Limits {
    pub(super) fn new(snaplen: u32, block_bytes: usize) -> Limits {
        let packet_bytes_max = block_bytes - BLOCK_HEADER_BYTES - CLOSING_BYTES_MAX;
        Limits {
            captured_max: captured_max(snaplen),
            packet_bytes_max: u32::try_from(packet_bytes_max).unwrap_or(u32::MAX),
        }
    }

    /// Most bytes that are kept of a frame.
    pub(super) fn captured_max(&self) -> u32 {
        self.captured_max
    }

    /// Bytes of the packet block of a frame; `None` if no block can hold it. The sum over a batch
    /// is far below 4 GiB.
    #[inline]
    fn bytes_of(&self, slot: &FrameSlot) -> Option<u32> {
        let captured = slot.captured_bytes().min(self.captured_max) as usize;
        let bytes = packet_block_bytes(captured, slot.meta().direction) as u32;
        (bytes <= self.packet_bytes_max).then_some(bytes)
    }
}

const _: () = {
    use ringside_core::limits::RING_BLOCK_BYTES_MAX;
    assert!(RING_BLOCK_BYTES_MAX * BATCH_FRAMES_MAX <= u32::MAX as usize);
};
