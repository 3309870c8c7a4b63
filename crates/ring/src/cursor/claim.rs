//! A reader that takes closed blocks and gives them back in any order, and holds the writer.

use super::{Committed, Lane};
use ringside_sys::sync::Ordering;
use std::ops::Range;

/// Closed blocks that follow each other, also in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRun {
    pub(crate) first_sequence: u64,
    pub(crate) slot: usize,
    pub(crate) blocks: usize,
    pub(crate) first_frame: u64,
    pub(crate) frames: u64,
}

/// The block after the claimed ones, while it is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) sequence: u64,
    pub(crate) slot: usize,
    pub(crate) bytes: usize,
    pub(crate) first_frame: u64,
    pub(crate) frames: u32,
}

/// The place of a reader of whole blocks.
pub(crate) struct ClaimCursor {
    index: usize,
    /// The next block to claim.
    next: u64,
    /// All blocks below were released.
    released: u64,
    /// Runs that were released before an earlier one. At most one per claim that is out, and these
    /// are disjoint runs of the lane's blocks.
    early: Vec<Range<u64>>,
}

impl ClaimCursor {
    pub(crate) fn new(index: usize) -> ClaimCursor {
        ClaimCursor { index, next: 0, released: 0, early: Vec::new() }
    }

    /// Slot of the next block to claim.
    pub(crate) fn next_slot(&self, lane: Lane<'_>) -> usize {
        lane.slot(self.next).0
    }

    /// Closed blocks that can be claimed, in however many claims.
    pub(crate) fn waiting(&self, lane: Lane<'_>) -> u64 {
        let Some(last) = lane.opened().checked_sub(1).filter(|last| *last >= self.next) else {
            return 0;
        };
        last - self.next + u64::from(committed(lane, last).closed)
    }

    pub(crate) fn claim(&mut self, lane: Lane<'_>, blocks_max: usize) -> Option<BlockRun> {
        let opened = lane.opened();
        let (slot, header) = lane.slot(self.next);
        let room = blocks_max.min(lane.slots.len() - slot);
        let mut run = BlockRun {
            first_sequence: self.next,
            slot,
            blocks: 0,
            first_frame: header.first_frame.load(Ordering::Relaxed),
            frames: 0,
        };
        while run.blocks < room && self.next < opened {
            let committed = committed(lane, self.next);
            if !committed.closed {
                break;
            }
            run.blocks += 1;
            run.frames += u64::from(committed.frames);
            self.next += 1;
        }
        (run.blocks > 0).then_some(run)
    }

    pub(crate) fn release(&mut self, lane: Lane<'_>, run: &BlockRun) {
        let end = run.first_sequence + run.blocks as u64;
        self.early.push(run.first_sequence..end);
        let before = self.released;
        while let Some(at) = self.early.iter().position(|range| range.start == self.released) {
            self.released = self.early.swap_remove(at).end;
        }
        if self.released != before {
            // Release: the loads of the claims' holders come before the writer's next stores into
            // the blocks; they came before this call because the claims were handed in.
            lane.header.released[self.index].store(self.released, Ordering::Release);
        }
    }

    pub(crate) fn open_block(&self, lane: Lane<'_>) -> Option<Opened> {
        if lane.opened() <= self.next {
            return None;
        }
        let (slot, header) = lane.slot(self.next);
        let Committed { bytes, frames, closed } = committed(lane, self.next);
        (!closed && bytes > 0).then(|| Opened {
            sequence: self.next,
            slot,
            bytes: bytes as usize,
            first_frame: header.first_frame.load(Ordering::Relaxed),
            frames,
        })
    }

    pub(crate) fn is_finished(&self, lane: Lane<'_>) -> bool {
        // In this order: once it says finished, what the blocks show is final.
        lane.is_finished() && self.waiting(lane) == 0
    }
}

/// What is published of block `sequence`, which is opened and not released.
fn committed(lane: Lane<'_>, sequence: u64) -> Committed {
    let (_, header) = lane.slot(sequence);
    // Acquire: the block's bytes come before the count of them.
    Committed::unpack(header.committed.load(Ordering::Acquire))
}
