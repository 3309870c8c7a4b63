//! Several threads that fill one lane: who may do what when, decided by atomics alone.
//!
//! Each round of a thread has a ticket, in the order in which threads came, and passes three
//! places with it:
//!
//! 1. the *claim*: one thread at a time, in order, takes the next frames of the lane's source;
//! 2. the *reservation*: one thread at a time, in order, takes room in the lane's blocks, which is
//!    sums of lengths and nothing else. So the room lies in the order of the claims;
//! 3. the *showing*: threads fill their rooms side by side; the marks of what is filled are shown
//!    to readers in order, by the thread that finishes the first of those that are not.
//!
//! How threads take turns is [`Turns`]; here is what they do with the lane in them.
//!
//! Readers see one writer: a mark is shown when every byte before it is there. Room is reserved in
//! at most one block beyond the last that readers see as opened: a copying reader reckons with a
//! writer that is about to open one block, not two.

use super::{Lane, Mark, RingFull, WriterCursor, show_opened};
use ringside_sys::sync::{Ordering, fence};
use ringside_sys::turns::{self, Turns};

pub use ringside_sys::turns::Broken as LaneBroken;

/// One thing to show to readers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Block of this number was opened.
    Opened(u64),
    /// A block is filled up to the mark; stamp of its first frame since the last mark, and the
    /// latest, nanoseconds of UTC, if there are any.
    Filled(Mark, Option<(u64, u64)>),
}

impl Step {
    /// Shows it; steps of a lane are shown one after the other, in their order.
    pub(crate) fn show(&self, lane: Lane<'_>) {
        match self {
            Step::Opened(sequence) => show_opened(lane, *sequence),
            Step::Filled(mark, times) => {
                let slot = lane.slot_at(mark.slot);
                if let &Some((first_ns, last_ns)) = times {
                    // Relaxed: they are of who shows, one thread at a time, and the mark carries
                    // them along. They are 0 in a new block.
                    if slot.first_time_ns.load(Ordering::Relaxed) == 0 {
                        slot.first_time_ns.store(first_ns, Ordering::Relaxed);
                    }
                    let last_ns = last_ns.max(slot.last_time_ns.load(Ordering::Relaxed));
                    slot.last_time_ns.store(last_ns, Ordering::Relaxed);
                }
                mark.show(lane);
            }
        }
    }
}

/// Where the next room lies, and what to wait for before the next block.
struct NextRoom<B> {
    cursor: WriterCursor,
    /// What belongs to the open block in addition to its words; nothing in the model.
    block: B,
    /// First ticket that comes after the opening of the present block: it waits for nothing else.
    after_opening: u64,
}

/// The threads of one lane. `B` goes with the cursor; `W` is the work of a ticket, as it is shown.
pub(crate) struct SharedCursor<B, W> {
    turns: Turns<NextRoom<B>, W>,
}

impl<B, W> SharedCursor<B, W> {
    pub(crate) fn new(cursor: WriterCursor, block: B) -> SharedCursor<B, W> {
        SharedCursor { turns: Turns::new(NextRoom { cursor, block, after_opening: 0 }) }
    }

    /// Waits for this thread's turn to claim.
    pub(crate) fn enter(&self) -> Result<Pass<'_, B, W>, LaneBroken> {
        Ok(Pass { pass: self.turns.enter()? })
    }

    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn is_broken(&self) -> bool {
        self.turns.is_broken()
    }

    /// The cursor and what goes with it, once no thread is left; `None` if a ticket was not
    /// finished.
    pub(crate) fn into_parts(self) -> Option<(WriterCursor, B)> {
        self.turns.into_place().map(|place| (place.cursor, place.block))
    }
}

/// A ticket on its way. A thread that drops it before it is finished breaks the lane: nothing that
/// comes after it can be shown.
pub(crate) struct Pass<'c, B, W> {
    pass: turns::Pass<'c, NextRoom<B>, W>,
}

impl<B, W> Pass<'_, B, W> {
    /// The claim is done: the next may claim.
    pub(crate) fn claimed(&self) {
        self.pass.claimed();
    }

    /// Waits for this ticket's turn to reserve.
    pub(crate) fn wait_for_reservation(&self) -> Result<(), LaneBroken> {
        self.pass.wait_for_reservation()?;
        // The block in which room is reserved may have been taken by another thread. The fence:
        // a reader that sees a byte that this thread writes from now on sees the block's number, as
        // it would the bytes of that thread (it pairs with the acquire fence in `Lane::confirmed`).
        fence(Ordering::Release);
        Ok(())
    }

    /// Calls `use_it` with the cursor. In the turn to reserve.
    pub(crate) fn with_cursor<R>(&mut self, use_it: impl FnOnce(&mut WriterCursor) -> R) -> R {
        self.with_block(|cursor, _| use_it(cursor))
    }

    /// Calls `use_it` with the cursor and what goes with it. In the turn to reserve.
    pub(crate) fn with_block<R>(
        &mut self,
        use_it: impl FnOnce(&mut WriterCursor, &mut B) -> R,
    ) -> R {
        self.pass.with_place(|place| use_it(&mut place.cursor, &mut place.block))
    }

    /// Takes the next block; `None` if this ticket has opened one that it has not shown. In the
    /// turn to reserve.
    pub(crate) fn take(
        &mut self,
        lane: Lane<'_>,
        first_frame: u64,
    ) -> Result<Option<usize>, TakeError> {
        let ticket = self.pass.ticket();
        let after_opening = self.pass.with_place(|place| place.after_opening);
        if after_opening > ticket {
            return Ok(None);
        }
        self.pass.wait_until_shown(after_opening).map_err(|LaneBroken| TakeError::Broken)?;
        self.pass.with_place(|place| {
            let slot = place.cursor.take(lane, first_frame)?;
            place.after_opening = ticket + 1;
            Ok(Some(slot))
        })
    }

    /// Room is reserved: the next may reserve.
    pub(crate) fn reserved(&self) {
        self.pass.reserved();
    }

    /// Shows what is filled before the ticket is finished: waits until everything before it was
    /// shown and calls `show`. In the turn to reserve.
    pub(crate) fn show_early(&mut self, show: impl FnOnce()) -> Result<(), LaneBroken> {
        let ticket = self.pass.ticket();
        self.pass.wait_until_shown(ticket)?;
        show();
        self.pass.with_place(|place| place.after_opening = place.after_opening.min(ticket));
        Ok(())
    }

    /// All rooms are filled: shows them as soon as everything before was shown, by `show`, here or
    /// by another thread.
    pub(crate) fn finish(self, work: W, show: impl FnMut(W)) {
        self.pass.finish(work, show);
    }
}

/// Why no block was taken.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// A lossless reader still needs it.
    Full,
    /// See [`LaneBroken`].
    Broken,
}

impl From<RingFull> for TakeError {
    fn from(_: RingFull) -> TakeError {
        TakeError::Full
    }
}
