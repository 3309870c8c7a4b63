//! A reader that follows the writer byte by byte and holds it.

use super::{Committed, Lane, Range};
use ringside_sys::sync::Ordering;

/// A lossless reader's place.
pub(crate) struct LosslessCursor {
    index: usize,
    sequence: u64,
    consumed: Committed,
    peeked: Option<Committed>,
}

impl LosslessCursor {
    pub(crate) fn new(index: usize) -> LosslessCursor {
        LosslessCursor { index, sequence: 0, consumed: Committed::default(), peeked: None }
    }

    pub(crate) fn ready(&mut self, lane: Lane<'_>) -> Option<Range> {
        // Acquire: the block was opened, and its `committed` reset, before it is read.
        if lane.header.opened.load(Ordering::Acquire) <= self.sequence {
            return None;
        }
        let (slot, header) = lane.slot(self.sequence);
        let committed = Committed::unpack(header.committed.load(Ordering::Acquire));
        if committed.bytes == self.consumed.bytes && !committed.closed {
            return None;
        }
        self.peeked = Some(committed);
        Some(Range {
            slot,
            from: self.consumed.bytes,
            to: committed.bytes,
            frames: committed.frames - self.consumed.frames,
            closed: committed.closed,
        })
    }

    pub(crate) fn consume(&mut self, lane: Lane<'_>) {
        let Some(peeked) = self.peeked.take() else { return };
        self.consumed = peeked;
        if peeked.closed {
            self.sequence += 1;
            self.consumed = Committed::default();
            // Release: this reader's loads come before the writer's next stores into the block.
            lane.header.released[self.index].store(self.sequence, Ordering::Release);
        }
    }

    pub(crate) fn is_finished(&self, lane: Lane<'_>) -> bool {
        if !lane.is_finished() {
            return false;
        }
        if lane.header.opened.load(Ordering::Acquire) <= self.sequence {
            return true;
        }
        let (_, header) = lane.slot(self.sequence);
        let committed = Committed::unpack(header.committed.load(Ordering::Acquire));
        committed.bytes == self.consumed.bytes && !committed.closed
    }

    pub(crate) fn leave(&self, lane: Lane<'_>) {
        super::leave(lane, self.index);
    }
}
