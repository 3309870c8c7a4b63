//! Work that several threads finish in any order and that is shown in the order of its tickets.

use super::gate::Gate;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// Tickets that may be finished before an earlier one is: so far the other threads go on while one
/// is held up. The model checker has no time for more than show that a place is used again.
pub(super) const WINDOW: u64 = if cfg!(feature = "loom") { 2 } else { 64 };

/// What comes at a link, in either order: the ticket's work, and the turn, once everything before
/// it was shown.
const BOTH: u32 = 2;

/// A place for the work of one ticket. Lines of its own: its neighbours are other threads'.
#[repr(align(128))]
struct Link<T> {
    arrived: AtomicU32,
    work: UnsafeCell<Option<T>>,
}

/// The places, used in a circle, and how far the work was shown.
pub(super) struct Chain<T> {
    links: Box<[Link<T>]>,
    /// Open for a ticket once everything before it was shown.
    shown: Gate,
}

// SAFETY: a link's work is written by the ticket's holder, who waited until the link was free
// (`wait_for_place`), and taken by the thread that came second to the link; the two meet at
// `arrived`. So one thread at a time reaches it, which may be any, and `T` may be sent.
unsafe impl<T: Send> Sync for Chain<T> {}
// SAFETY: it owns its links.
unsafe impl<T: Send> Send for Chain<T> {}

impl<T> Chain<T> {
    pub(super) fn new() -> Chain<T> {
        // The first ticket has the turn.
        let link = |ticket| Link {
            arrived: AtomicU32::new(u32::from(ticket == 0)),
            work: UnsafeCell::new(None),
        };
        Chain { links: (0..WINDOW).map(link).collect(), shown: Gate::new() }
    }

    /// Waits until `ticket` has a place; false if `is_over` came true before.
    pub(super) fn wait_for_place(&self, ticket: u64, is_over: impl Fn() -> bool) -> bool {
        // The ticket that had the place was shown: open for the one after it.
        match (ticket + 1).checked_sub(WINDOW) {
            Some(next) => self.shown.wait(next, is_over),
            None => true,
        }
    }

    /// Waits until everything before `ticket` was shown: from then on, until its work is finished,
    /// its holder is the only one who shows. False if `is_over` came true before.
    pub(super) fn wait_for_turn(&self, ticket: u64, is_over: impl Fn() -> bool) -> bool {
        self.shown.wait(ticket, is_over)
    }

    /// True if everything before `ticket` was shown.
    pub(super) fn is_shown_before(&self, ticket: u64) -> bool {
        self.shown.is_open(ticket)
    }

    /// The work of `ticket` is finished. Shows it and what was finished after it, if everything
    /// before it was shown; else the thread that finishes that will. Once for each ticket, after
    /// `wait_for_place`.
    pub(super) fn finish(&self, ticket: u64, work: T, mut show: impl FnMut(T)) {
        let mut ticket = ticket;
        let mut link = self.link(ticket);
        // SAFETY: no other thread looks at the work before this thread's arrival, and the place is
        // free (`wait_for_place`): its last work was taken by the thread that showed it.
        link.work.with_mut(|place| unsafe { *place = Some(work) });
        // Acquire and release: who comes second sees what the first did, both what is in the
        // ticket's work and all that was shown before.
        while link.arrived.fetch_add(1, Ordering::AcqRel) + 1 == BOTH {
            // SAFETY: both have arrived, this thread second; no other thread looks at the work
            // until the place is free again, which it says below.
            let work = link.work.with_mut(|place| unsafe { (*place).take() });
            // Relaxed: no other thread looks at it before the gate is opened.
            link.arrived.store(0, Ordering::Relaxed);
            show(work.expect("its holder put it there before it arrived"));
            ticket += 1;
            self.shown.open(ticket);
            // The turn comes to the next.
            link = self.link(ticket);
        }
    }

    fn link(&self, ticket: u64) -> &Link<T> {
        &self.links[(ticket % WINDOW) as usize]
    }
}
