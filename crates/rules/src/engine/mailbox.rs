//! What the writer of rules tells a judge.
//!
//! A judge reads its letters between batches. A rule's letter is posted before any judge can meet
//! the rule, so that one who meets it in the middle of a batch finds the letter waiting. Loads wait
//! for the batch's end: no frame is judged by two sets of rules.

use super::rules::{Counters, Ready, RulesAtWork};
use crate::book::Slot;
use crate::patterns::PatternSet;
use crate::streams::Streams;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

/// A letter.
#[derive(Debug)]
pub(super) enum Change {
    /// A rule comes.
    Put(Slot, Arc<Ready>),
    /// A rule has gone.
    Clear(Slot),
    /// A rule comes that looks for more in payloads than all others: flows are followed anew.
    Streams(Box<Streams>),
    /// Other rules altogether.
    Load(Box<Load>),
}

/// All rules: those that a judge begins with, or that replace others.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) rules: RulesAtWork,
    pub(super) ready: Vec<Option<Arc<Ready>>>,
    pub(super) counters: Counters,
    pub(super) patterns: Option<Arc<PatternSet>>,
    /// The flows, of which nothing is known yet; none if none is followed.
    pub(super) streams: Option<Box<Streams>>,
}

/// The letters to one judge. As many as there are changes between two of its batches; a judge that
/// has not looked for long holds up the writer's reclaim and, by the room that is not free, the
/// writer (`Slot` numbers are bounded), so that they are bounded too.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    letters: Mutex<VecDeque<Change>>,
    /// Letters that were ever posted.
    posted: AtomicU64,
    /// Of those, how many were when the judge last looked between two batches.
    seen: AtomicU64,
    is_closed: AtomicBool,
}

impl Mailbox {
    pub(super) fn post(&self, change: Change) {
        let mut letters = self.letters();
        // Asked under the lock, so that nothing is left behind in a closed one.
        if !self.is_closed() {
            letters.push_back(change);
            self.posted.fetch_add(1, Ordering::Release);
        }
    }

    /// True if the judge has begun a batch since the last letter, or is gone.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.is_closed() || self.seen.load(Ordering::Acquire) == self.posted.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.posted.load(Ordering::Acquire) != self.seen.load(Ordering::Relaxed)
    }

    /// Takes all letters; for the time between batches.
    pub(super) fn take_all(&self, mut each: impl FnMut(Change)) {
        let mut letters = self.letters();
        letters.drain(..).for_each(&mut each);
        // The lock keeps new ones out until here.
        self.seen.store(self.posted.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Takes letters up to the one that says of a rule that it comes; for the middle of a batch.
    /// Those behind it wait: a rule that has gone since may have been met together with this one,
    /// and is still to be asked. Nothing is taken beyond a load.
    pub(super) fn take_until(&self, slot: Slot, each: impl FnMut(Change)) {
        let mut letters = self.letters();
        let is_load = |change: &Change| matches!(change, Change::Load(_));
        let is_it = |change: &Change| matches!(change, Change::Put(put, _) if *put == slot);
        let end = letters.iter().position(is_load).unwrap_or(letters.len());
        let end = letters.range(..end).position(is_it).map_or(end, |at| at + 1);
        letters.drain(..end).for_each(each);
    }

    /// The judge is gone.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.letters().clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn letters(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
