//! What a batch takes in the ring's blocks: sums of lengths, made before its turn to reserve.

use super::Judge;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{Batch, FrameSlot};
use ringside_store::block::{
    BLOCK_HEADER_BYTES, CLOSING_BYTES_MAX, captured_max, packet_block_bytes,
};

/// The frames of a batch that go into the ring, and where each ends if they lie one behind the
/// other. Kept by its thread, so that its memory is used again.
pub(super) struct Plan {
    /// Bytes up to the end of each frame's packet block.
    ends: Vec<u32>,
    /// The frames, if not all of the batch's are among them.
    kept: Vec<FrameSlot>,
}

/// Frames of a batch that do not go into the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Turned away by the judge.
    pub(super) filtered: u64,
    /// No block can hold them.
    pub(super) too_large: u64,
}

/// A plan of some frames.
#[derive(Clone, Copy)]
pub(super) struct Planned<'p> {
    pub(super) slots: &'p [FrameSlot],
    ends: &'p [u32],
}

impl Plan {
    pub(super) fn new() -> Plan {
        Plan { ends: Vec::with_capacity(BATCH_FRAMES_MAX), kept: Vec::new() }
    }

    /// Plans the first `count` frames of `batch`.
    pub(super) fn make<'p>(
        &'p mut self,
        batch: &'p Batch<'_>,
        count: usize,
        limits: Limits,
        judge: Option<&Judge>,
    ) -> (Planned<'p>, LeftOut) {
        let slots = &batch.slots()[..count];
        let mut left_out = LeftOut::default();
        self.ends.clear();
        let mut end = 0;
        if judge.is_none() {
            for slot in slots {
                let Some(bytes) = limits.bytes_of(slot) else { break };
                end += bytes;
                self.ends.push(end);
            }
            if self.ends.len() == count {
                return (Planned { slots, ends: &self.ends }, left_out);
            }
        }
        self.ends.clear();
        self.kept.clear();
        end = 0;
        for slot in slots {
            if judge.is_some_and(|judge| !judge(&slot.lend(batch.memory()))) {
                left_out.filtered += 1;
                continue;
            }
            let Some(bytes) = limits.bytes_of(slot) else {
                left_out.too_large += 1;
                continue;
            };
            end += bytes;
            self.ends.push(end);
            self.kept.push(*slot);
        }
        (Planned { slots: &self.kept, ends: &self.ends }, left_out)
    }
}

impl Planned<'_> {
    pub(super) fn count(&self) -> usize {
        self.slots.len()
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
