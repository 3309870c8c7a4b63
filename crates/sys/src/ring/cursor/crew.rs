//! Several threads that fill one lane: who may do what when, decided by atomics alone.
//!
//! Each round of a thread has a ticket, in the order in which threads came, and passes three
//! places with it:
//!
//! 1. the *claim*: one thread at a time, in order, takes the next frames of the lane's source;
//! 2. the *reservation*: one thread at a time, in order, takes room in the lane's blocks, which is
//!    sums of lengths and nothing else. So the room lies in the order of the claims;
//! 3. the *showing*: threads fill their rooms side by side; the marks of what is filled are shown
//!    to readers in order, by the thread that finishes the first of those that are not ([`Chain`]).
//!
//! Readers see one writer: a mark is shown when every byte before it is there. Room is reserved in
//! at most one block beyond the last that readers see as opened: a copying reader reckons with a
//! writer that is about to open one block, not two.

use super::chain::Chain;
use super::{Lane, Mark, RingFull, WriterCursor, show_opened};
use crate::ring::gate::Gate;
use crate::ring::sync::{AtomicBool, AtomicU64, Ordering, UnsafeCell, fence};
use ringside_core::Padded;

/// A thread died with a ticket: what would come after it is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread of the lane died; what it had not finished, and what came after it, is lost")]
pub struct CrewBroken;

/// One thing to show to readers.
#[derive(Clone, Copy, Debug)]
pub(in crate::ring) enum Step {
    /// Block of this number was opened.
    Opened(u64),
    /// A block is filled up to the mark; stamp of its first frame since the last mark, and the
    /// latest, nanoseconds of UTC, if there are any.
    Filled(Mark, Option<(u64, u64)>),
}

impl Step {
    /// Shows it; steps of a lane are shown one after the other, in their order.
    pub(in crate::ring) fn show(&self, lane: Lane<'_>) {
        match self {
            Step::Opened(sequence) => show_opened(lane, *sequence),
            Step::Filled(mark, times) => {
                let slot = &lane.slots[mark.slot];
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
struct Place {
    cursor: WriterCursor,
    /// First ticket that comes after the opening of the present block: it waits for nothing else.
    after_opening: u64,
}

/// The threads of one lane. `W` is the work of a ticket, as it is shown.
pub(in crate::ring) struct Crew<W> {
    tickets: Padded<AtomicU64>,
    claims: Gate,
    reservations: Gate,
    place: Padded<UnsafeCell<Place>>,
    chain: Chain<W>,
    broken: AtomicBool,
}

// SAFETY: `place` is reached in `with_place` only, by the holder of the ticket for which
// `reservations` is open: one thread at a time, each after the one before it.
unsafe impl<W: Send> Sync for Crew<W> {}

impl<W> Crew<W> {
    pub(in crate::ring) fn new(cursor: WriterCursor) -> Crew<W> {
        Crew {
            tickets: Padded(AtomicU64::new(0)),
            claims: Gate::new(),
            reservations: Gate::new(),
            place: Padded(UnsafeCell::new(Place { cursor, after_opening: 0 })),
            chain: Chain::new(),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits for this thread's turn to claim.
    pub(in crate::ring) fn enter(&self) -> Result<Pass<'_, W>, CrewBroken> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let pass = Pass { crew: self, ticket, is_over: false };
        let is_broken = || self.is_broken();
        let came =
            self.claims.wait(ticket, is_broken) && self.chain.wait_for_place(ticket, is_broken);
        if came { Ok(pass) } else { Err(CrewBroken) }
    }

    pub(in crate::ring) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The cursor, once no thread is left; `None` if a ticket was not finished.
    pub(in crate::ring) fn into_cursor(self) -> Option<WriterCursor> {
        let tickets = self.tickets.load(Ordering::Acquire);
        let whole = !self.is_broken() && self.chain.is_shown_before(tickets);
        // SAFETY: no other thread has the cell.
        whole.then(|| self.place.with_mut(|place| unsafe { std::mem::take(&mut (*place).cursor) }))
    }
}

/// A ticket on its way. Dropping it before it is finished breaks the crew: nothing that comes after
/// it can be shown.
pub(in crate::ring) struct Pass<'c, W> {
    crew: &'c Crew<W>,
    ticket: u64,
    is_over: bool,
}

impl<W> Pass<'_, W> {
    /// The claim is done: the next may claim.
    pub(in crate::ring) fn claimed(&self) {
        self.crew.claims.open(self.ticket + 1);
    }

    /// Waits for this ticket's turn to reserve.
    pub(in crate::ring) fn wait_for_reservation(&self) -> Result<(), CrewBroken> {
        let crew = self.crew;
        if !crew.reservations.wait(self.ticket, || crew.is_broken()) {
            return Err(CrewBroken);
        }
        // The block in which room is reserved may have been taken by another thread. The fence:
        // a reader that sees a byte that this thread writes from now on sees the block's number, as
        // it would the bytes of that thread (it pairs with the acquire fence in `Lane::confirmed`).
        fence(Ordering::Release);
        Ok(())
    }

    /// Calls `use_it` with the cursor. In the turn to reserve.
    pub(in crate::ring) fn with_cursor<R>(
        &mut self,
        use_it: impl FnOnce(&mut WriterCursor) -> R,
    ) -> R {
        self.with_place(|place| use_it(&mut place.cursor))
    }

    fn with_place<R>(&mut self, use_it: impl FnOnce(&mut Place) -> R) -> R {
        debug_assert!(self.crew.reservations.is_open(self.ticket), "not its turn");
        // SAFETY: this ticket has the turn: `wait_for_reservation` found the gate open for it, and
        // `reserved`, after which no thread calls this with the ticket, is what opens it for the
        // next. `&mut self` makes this the only borrow.
        self.crew.place.with_mut(|place| use_it(unsafe { &mut *place }))
    }

    /// Takes the next block; `None` if this ticket has opened one that it has not shown. In the
    /// turn to reserve.
    pub(in crate::ring) fn take(
        &mut self,
        lane: Lane<'_>,
        first_frame: u64,
    ) -> Result<Option<usize>, TakeError> {
        let (crew, ticket) = (self.crew, self.ticket);
        let after_opening = self.with_place(|place| place.after_opening);
        if after_opening > ticket {
            return Ok(None);
        }
        if !crew.chain.wait_for_turn(after_opening, || crew.is_broken()) {
            return Err(TakeError::Broken);
        }
        self.with_place(|place| {
            let slot = place.cursor.take(lane, first_frame)?;
            place.after_opening = ticket + 1;
            Ok(Some(slot))
        })
    }

    /// Room is reserved: the next may reserve.
    pub(in crate::ring) fn reserved(&self) {
        self.crew.reservations.open(self.ticket + 1);
    }

    /// Shows what is filled before the ticket is finished: waits until everything before it was
    /// shown and calls `show`. In the turn to reserve.
    pub(in crate::ring) fn show_early(&mut self, show: impl FnOnce()) -> Result<(), CrewBroken> {
        let (crew, ticket) = (self.crew, self.ticket);
        if !crew.chain.wait_for_turn(ticket, || crew.is_broken()) {
            return Err(CrewBroken);
        }
        show();
        self.with_place(|place| place.after_opening = place.after_opening.min(ticket));
        Ok(())
    }

    /// All rooms are filled: shows them as soon as everything before was shown, by `show`, here or
    /// by another thread.
    pub(in crate::ring) fn finish(mut self, work: W, show: impl FnMut(W)) {
        self.is_over = true;
        self.crew.chain.finish(self.ticket, work, show);
    }
}

impl<W> Drop for Pass<'_, W> {
    fn drop(&mut self) {
        if !self.is_over {
            self.crew.broken.store(true, Ordering::Release);
        }
    }
}

/// Why no block was taken.
#[derive(Debug)]
pub(in crate::ring) enum TakeError {
    /// A lossless reader still needs it.
    Full,
    /// See [`CrewBroken`].
    Broken,
}

impl From<RingFull> for TakeError {
    fn from(_: RingFull) -> TakeError {
        TakeError::Full
    }
}
