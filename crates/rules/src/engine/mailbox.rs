//! What the writer of rules tells a judge.
//!
//! A judge reads its letters between batches. A rule's letter is posted before any judge can meet
//! the rule, so that one who meets it in the middle of a batch finds the letter waiting. Loads wait
//! for the batch's end: no frame is judged by two sets of rules.

use super::rules::{Counters, Ready, RulesAtWork};
use crate::book::Slot;
use crate::patterns::PatternSet;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A letter.
#[derive(Debug)]
pub(super) enum Change {
    /// A rule comes.
    Put(Slot, Arc<Ready>),
    /// A rule has gone.
    Clear(Slot),
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
        if self.is_closed() {
            return;
        }
        let mut letters = self.letters();
        letters.push_back(change);
        self.posted.fetch_add(1, Ordering::Release);
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

    /// Takes those before the next load; for the middle of a batch.
    pub(super) fn take_changes(&self, mut each: impl FnMut(Change)) {
        let mut letters = self.letters();
        while !matches!(letters.front(), Some(Change::Load(_)) | None) {
            letters.pop_front().into_iter().for_each(&mut each);
        }
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
