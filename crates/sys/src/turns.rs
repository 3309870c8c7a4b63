//! Threads that work side by side on what is to come in order.
//!
//! Each round of a thread has a *ticket*, in the order in which threads came, and passes three
//! places with it:
//!
//! 1. the *claim*: one thread at a time, in order, takes what its round is about;
//! 2. the *reservation*: one thread at a time, in order, uses the place that all share, `P`;
//! 3. the *showing*: the work of a round, `W`, is shown in the order of tickets, by the thread that
//!    finishes the first of those that are not shown yet. What lies before it, threads do side by
//!    side.
//!
//! No thread reaches the place out of its turn: that is checked, whatever the caller does. The
//! model is that of the ring, which is made so.

mod chain;
mod gate;

use crate::sync::{AtomicBool, AtomicU64, Ordering, UnsafeCell};
use chain::Chain;
use gate::Gate;
use ringside_core::Padded;

/// A thread died with a ticket: what would come after it is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a thread of the lane died; what it had not finished, and what came after it, is lost")]
pub struct Broken;

/// The place that threads share in turn, and the work that they show in order.
pub struct Turns<P, W> {
    tickets: Padded<AtomicU64>,
    claims: Gate,
    reservations: Gate,
    place: Padded<UnsafeCell<P>>,
    chain: Chain<W>,
    broken: AtomicBool,
}

// SAFETY: `place` is reached in `with_place` only, by the holder of the ticket at which
// `reservations` ends: one thread at a time, each after the one before it.
unsafe impl<P: Send, W: Send> Sync for Turns<P, W> {}

impl<P, W> Turns<P, W> {
    /// No thread has a ticket yet.
    pub fn new(place: P) -> Turns<P, W> {
        Turns {
            tickets: Padded(AtomicU64::new(0)),
            claims: Gate::new(),
            reservations: Gate::new(),
            place: Padded(UnsafeCell::new(place)),
            chain: Chain::new(),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits for this thread's turn to claim.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn enter(&self) -> Result<Pass<'_, P, W>, Broken> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let pass = Pass { turns: self, ticket, is_over: false };
        let is_broken = || self.is_broken();
        let came =
            self.claims.wait(ticket, is_broken) && self.chain.wait_for_place(ticket, is_broken);
        if came { Ok(pass) } else { Err(Broken) }
    }

    /// True if a thread died with a ticket.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The place, once no thread is left; `None` if a ticket was not finished.
    pub fn into_place(self) -> Option<P> {
        let tickets = self.tickets.load(Ordering::Acquire);
        let whole = !self.is_broken() && self.chain.is_shown_before(tickets);
        whole.then(|| self.place.0.into_inner())
    }
}

/// A ticket on its way. A thread that drops it before it is finished breaks the turns: nothing that
/// comes after it can be shown.
#[must_use = "the threads that come later wait for it"]
pub struct Pass<'t, P, W> {
    turns: &'t Turns<P, W>,
    ticket: u64,
    is_over: bool,
}

impl<P, W> Pass<'_, P, W> {
    /// Number of the ticket, from 0.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The claim is done: the next may claim.
    pub fn claimed(&self) {
        self.turns.claims.open(self.ticket + 1);
    }

    /// Waits for this ticket's turn to reserve.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn wait_for_reservation(&self) -> Result<(), Broken> {
        let turns = self.turns;
        turns.reservations.wait(self.ticket, || turns.is_broken()).then_some(()).ok_or(Broken)
    }

    /// Calls `use_it` with the place.
    ///
    /// # Panics
    /// Outside of the turn to reserve.
    #[inline]
    pub fn with_place<R>(&mut self, use_it: impl FnOnce(&mut P) -> R) -> R {
        self.assert_turn();
        // SAFETY: this ticket has the turn, and there is one pass for each ticket. The gate ends at
        // it until `reserved` of this very pass, which no thread can call while `&mut self` is
        // borrowed; the holder of the ticket before has called that, after its last use. So this is
        // the only borrow.
        self.turns.place.0.with_mut(|place| use_it(unsafe { &mut *place }))
    }

    /// Ends the turn to reserve: the next may.
    ///
    /// # Panics
    /// Outside of the turn.
    pub fn reserved(&self) {
        self.assert_turn();
        self.turns.reservations.open(self.ticket + 1);
    }

    #[inline]
    fn assert_turn(&self) {
        assert!(self.turns.reservations.ends_at(self.ticket), "not its turn to reserve");
    }

    /// Waits until everything before `ticket` was shown.
    ///
    /// # Errors
    /// A thread died with a ticket.
    pub fn wait_until_shown(&self, ticket: u64) -> Result<(), Broken> {
        let turns = self.turns;
        turns.chain.wait_for_turn(ticket, || turns.is_broken()).then_some(()).ok_or(Broken)
    }

    /// The work is done: it is handed to `show` as soon as everything before was, here or by
    /// another thread; and so is what was finished after it.
    pub fn finish(mut self, work: W, show: impl FnMut(W)) {
        self.is_over = true;
        self.turns.chain.finish(self.ticket, work, show);
    }
}

impl<P, W> Drop for Pass<'_, P, W> {
    fn drop(&mut self) {
        if !self.is_over {
            self.turns.broken.store(true, Ordering::Release);
        }
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_place_is_used_in_turn_and_work_is_shown_in_order() {
        let turns: Turns<Vec<u64>, u64> = Turns::new(Vec::new());
        let shown = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mut pass = turns.enter().unwrap();
                        pass.claimed();
                        pass.wait_for_reservation().unwrap();
                        let ticket = pass.ticket();
                        pass.with_place(|place| place.push(ticket));
                        pass.reserved();
                        pass.finish(ticket, |ticket| shown.lock().unwrap().push(ticket));
                    }
                });
            }
        });
        let all: Vec<u64> = (0..600).collect();
        assert_eq!(turns.into_place().unwrap(), all);
        assert_eq!(shown.into_inner().unwrap(), all);
    }

    #[test]
    fn no_thread_reaches_the_place_out_of_its_turn() {
        let turns: Turns<u8, ()> = Turns::new(0);
        let mut first = turns.enter().unwrap();
        first.claimed();
        let mut second = turns.enter().unwrap();
        let panics = |use_it: &mut dyn FnMut()| {
            assert!(catch_unwind(AssertUnwindSafe(use_it)).is_err());
        };
        panics(&mut || second.with_place(|place| *place = 2));
        panics(&mut || second.reserved());
        first.reserved();
        panics(&mut || first.with_place(|place| *place = 1));
        panics(&mut || first.reserved());
        second.with_place(|place| *place += 1);
        second.reserved();
        second.finish((), |()| ());
        first.finish((), |()| ());
        assert_eq!(turns.into_place(), Some(1));
    }
}
