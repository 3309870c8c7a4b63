//! A reader that holds nothing back, may be overtaken, and trusts no word that it reads.

use super::{Committed, Lane, Look, Range, Seen};
use ringside_core::Timestamp;
use ringside_sys::sync::{Ordering, load_acquire};

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
pub(crate) enum Ready {
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
pub(crate) enum Copied {
    /// The bytes are those that were published.
    Valid,
    /// The block was reused meanwhile: the bytes are worthless.
    Overtaken,
}

/// A copying reader's place.
#[derive(Default)]
pub(crate) struct CopyCursor {
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
    pub(crate) fn new(lane: Lane<'_>, start: RingStart) -> CopyCursor {
        let mut cursor = CopyCursor::default();
        let begun = (0..TURNS_MAX).any(|_| cursor.begin(lane, start));
        cursor.damaged |= !begun;
        cursor.first_frame = cursor.next_frame;
        cursor
    }

    pub(crate) fn first_frame(&self) -> u64 {
        self.first_frame
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// Blocks that were opened and not read to their end.
    pub(crate) fn behind_blocks(&self, lane: Lane<'_>) -> u64 {
        lane.opened().saturating_sub(self.sequence)
    }

    /// Frames that were published and neither delivered nor missed.
    pub(crate) fn behind_frames(&self, lane: Lane<'_>) -> u64 {
        load_acquire(lane.header.frames).saturating_sub(self.next_frame)
    }

    pub(crate) fn ready(&mut self, lane: Lane<'_>) -> Ready {
        // Read before the blocks: if it says finished, what the blocks show next is final.
        let finished = lane.is_finished();
        for _ in 0..TURNS_MAX {
            if self.damaged {
                return Ready::Damaged;
            }
            if lane.opened() <= self.sequence {
                return self.nothing(lane, finished);
            }
            let to = match lane.look(self.sequence, |_, committed| committed) {
                Look::Here(committed) => committed,
                Look::Replaced => {
                    self.move_to_oldest(lane);
                    continue;
                }
                Look::Damaged => return self.damage(),
            };
            let from = self.consumed;
            let Some(frames) = to.frames.checked_sub(from.frames) else { return self.damage() };
            if to.bytes < from.bytes {
                return self.damage();
            }
            if to.bytes > from.bytes {
                let (slot, _) = lane.slot(self.sequence);
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
        if self.miss_until(load_acquire(lane.header.frames)) {
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
    pub(crate) fn confirm(&mut self, lane: Lane<'_>, range: &Range) -> Copied {
        let Look::Here(_) = lane.confirmed(self.sequence, ()) else {
            return Copied::Overtaken;
        };
        self.consumed.bytes = range.to;
        self.consumed.frames = self.consumed.frames.saturating_add(range.frames);
        self.next_frame = self.next_frame.saturating_add(u64::from(range.frames));
        self.delivered = self.delivered.saturating_add(u64::from(range.frames));
        if range.closed {
            self.move_to(self.sequence.wrapping_add(1));
        }
        Copied::Valid
    }

    /// Moves to the oldest block that can still be read and counts what was lost on the way.
    fn move_to_oldest(&mut self, lane: Lane<'_>) {
        for _ in 0..TURNS_MAX {
            let sequence = oldest(lane, lane.opened()).max(self.sequence.wrapping_add(1));
            match lane.look(sequence, |header, _| header.first_frame.load(Ordering::Relaxed)) {
                Look::Here(first_frame) => {
                    self.damaged |= !self.miss_until(first_frame);
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
        // Before `opened`: if it says finished, even the oldest of all is not overwritten.
        let finished = lane.is_finished();
        let opened = lane.opened();
        let Some(last) = opened.checked_sub(1) else { return true };
        let first = match start {
            RingStart::Oldest if finished => opened.saturating_sub(lane.slots.len() as u64),
            RingStart::Oldest | RingStart::Since(_) => oldest(lane, opened),
            RingStart::Now => last,
        };
        for sequence in first..=last {
            let seen = match lane.look(sequence, Seen::load) {
                Look::Here(seen) => seen,
                Look::Replaced => return false,
                Look::Damaged => {
                    self.damaged = true;
                    return true;
                }
            };
            let wanted = match start {
                RingStart::Oldest => true,
                RingStart::Now => false,
                RingStart::Since(time) => seen.last_time_ns >= time.0,
            };
            if wanted {
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

/// The oldest of `opened` blocks that is worth a try: the writer may already be opening the next
/// one in place of the very oldest. With at least two slots (see `RingLayout`) it is below
/// `opened`, unless nothing was opened.
fn oldest(lane: Lane<'_>, opened: u64) -> u64 {
    opened.saturating_sub(lane.slots.len() as u64 - 1)
}
