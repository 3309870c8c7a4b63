//! A reader that holds nothing back, may be overtaken, and trusts no word that it reads.

use super::{Committed, Lane, Look, Range, Seen};
use crate::ring::sync::{Ordering, fence, load_acquire};
use ringside_core::Timestamp;

/// Turns of any loop over shared memory. A writer that overtakes a reader so often within one call
/// leaves it nothing to read; memory that is garbage cannot keep it longer.
const TURNS_MAX: usize = 64;

/// Where a copying reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStart {
    /// With the oldest frame that is still there.
    Oldest,
    /// With the first frame that is published from now on.
    Now,
    /// With the first block whose latest stamp is at or after this; its frames may be earlier. If
    /// there is none, with what is published from now on.
    Since(Timestamp),
}

/// What a copying reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Ready {
    /// Bytes to copy, then to confirm.
    Range(Range),
    /// Nothing new.
    Nothing,
    /// Nothing ever again.
    Finished,
    /// The words contradict each other; nothing ever again.
    Damaged,
}

/// Whether a copy may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Copied {
    /// The bytes are those that were published.
    Valid,
    /// The block was reused meanwhile: the bytes are worthless.
    Overtaken,
}

/// A copying reader's place.
#[derive(Default)]
pub(in crate::ring) struct CopyCursor {
    sequence: u64,
    consumed: Committed,
    first_frame: u64,
    next_frame: u64,
    delivered: u64,
    missed: u64,
    damaged: bool,
}

impl CopyCursor {
    /// A reader that begins at `start`. What lies before it is not missed.
    pub(in crate::ring) fn new(lane: Lane<'_>, start: RingStart) -> CopyCursor {
        let mut cursor = CopyCursor::default();
        let begun = (0..TURNS_MAX).any(|_| cursor.begin(lane, start));
        cursor.damaged |= !begun;
        cursor.first_frame = cursor.next_frame;
        cursor
    }

    pub(in crate::ring) fn first_frame(&self) -> u64 {
        self.first_frame
    }

    pub(in crate::ring) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(in crate::ring) fn missed(&self) -> u64 {
        self.missed
    }

    /// Blocks that were opened and not read to their end.
    pub(in crate::ring) fn behind_blocks(&self, lane: Lane<'_>) -> u64 {
        lane.opened().saturating_sub(self.sequence)
    }

    /// Frames that were published and neither delivered nor missed.
    pub(in crate::ring) fn behind_frames(&self, lane: Lane<'_>) -> u64 {
        load_acquire(&lane.header.frames).saturating_sub(self.next_frame)
    }

    pub(in crate::ring) fn ready(&mut self, lane: Lane<'_>) -> Ready {
        // Read before the blocks: if it says finished, what the blocks show next is final.
        let finished = lane.is_finished();
        for _ in 0..TURNS_MAX {
            if self.damaged {
                return Ready::Damaged;
            }
            if lane.opened() <= self.sequence {
                return self.nothing(lane, finished);
            }
            let seen = match lane.look(self.sequence) {
                Look::Here(seen) => seen,
                Look::Replaced => {
                    self.move_to_oldest(lane);
                    continue;
                }
                Look::Damaged => return self.damage(),
            };
            let (from, to) = (self.consumed, seen.committed);
            let Some(frames) = to.frames.checked_sub(from.frames) else { return self.damage() };
            if to.bytes < from.bytes {
                return self.damage();
            }
            if to.bytes > from.bytes {
                let Seen { slot, .. } = seen;
                let closed = to.closed;
                return Ready::Range(Range {
                    slot,
                    from: from.bytes,
                    to: to.bytes,
                    frames,
                    closed,
                });
            }
            if !to.closed {
                return self.nothing(lane, finished);
            }
            self.move_to(self.sequence.wrapping_add(1));
        }
        Ready::Nothing
    }

    fn nothing(&mut self, lane: Lane<'_>, finished: bool) -> Ready {
        if !finished {
            return Ready::Nothing;
        }
        if self.miss_until(load_acquire(&lane.header.frames)) {
            Ready::Finished
        } else {
            self.damage()
        }
    }

    fn damage(&mut self) -> Ready {
        self.damaged = true;
        Ready::Damaged
    }

    /// Looks, after the copy, whether the block still was the one that was meant.
    pub(in crate::ring) fn confirm(&mut self, lane: Lane<'_>, range: &Range) -> Copied {
        // Pairs with the release fence in `WriterCursor::open`: if any copied byte was of a later
        // block, this load sees that block's sequence number.
        fence(Ordering::Acquire);
        let (_, header) = lane.slot(self.sequence);
        if header.sequence.load(Ordering::Relaxed) != self.sequence.wrapping_add(1) {
            return Copied::Overtaken;
        }
        self.consumed.bytes = range.to;
        self.consumed.frames = self.consumed.frames.saturating_add(range.frames);
        self.next_frame = self.next_frame.saturating_add(u64::from(range.frames));
        self.delivered = self.delivered.saturating_add(u64::from(range.frames));
        Copied::Valid
    }

    /// Moves to the oldest block that can still be read and counts what was lost on the way.
    fn move_to_oldest(&mut self, lane: Lane<'_>) {
        for _ in 0..TURNS_MAX {
            let sequence = oldest(lane).max(self.sequence.wrapping_add(1));
            match lane.look(sequence) {
                Look::Here(seen) => {
                    self.damaged |= !self.miss_until(seen.first_frame);
                    return self.move_to(sequence);
                }
                Look::Replaced => {}
                Look::Damaged => {
                    self.damaged = true;
                    return;
                }
            }
        }
    }

    fn move_to(&mut self, sequence: u64) {
        self.sequence = sequence;
        self.consumed = Committed::default();
    }

    /// Counts the frames up to cumulative number `frame` as missed; false if it goes backwards.
    fn miss_until(&mut self, frame: u64) -> bool {
        let Some(missed) = frame.checked_sub(self.next_frame) else { return false };
        self.missed = self.missed.saturating_add(missed);
        self.next_frame = frame;
        true
    }

    /// False if the writer was faster and another turn is due.
    fn begin(&mut self, lane: Lane<'_>, start: RingStart) -> bool {
        let opened = lane.opened();
        let Some(last) = opened.checked_sub(1) else { return true };
        let (first, time_ns) = match start {
            // Nobody overwrites the oldest of all any more.
            RingStart::Oldest if lane.is_finished() => {
                (lane.opened().saturating_sub(lane.slots.len() as u64), 0)
            }
            RingStart::Oldest => (oldest(lane), 0),
            RingStart::Now => (last, u64::MAX),
            RingStart::Since(time) => (oldest(lane), time.0),
        };
        for sequence in first..=last {
            let seen = match lane.look(sequence) {
                Look::Here(seen) => seen,
                Look::Replaced => return false,
                Look::Damaged => {
                    self.damaged = true;
                    return true;
                }
            };
            if seen.last_time_ns >= time_ns && start != RingStart::Now {
                self.move_to(sequence);
                self.next_frame = seen.first_frame;
                return true;
            }
            // What the block may get later is wanted, what it shows is not.
            if !seen.committed.closed || sequence == last {
                self.sequence = sequence;
                self.consumed = seen.committed;
                self.next_frame = seen.first_frame.saturating_add(u64::from(seen.committed.frames));
                return true;
            }
        }
        false
    }
}

/// The oldest block that is worth a try: the writer may already be opening the next one in place of
/// the very oldest. With at least two slots (see `RingLayout`) it is below `opened`, unless nothing
/// was opened.
fn oldest(lane: Lane<'_>) -> u64 {
    let opened = lane.opened();
    opened.saturating_sub(lane.slots.len() as u64 - 1)
}
