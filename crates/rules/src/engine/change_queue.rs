//! Changes of rules on their way from the writer to a judge.
//!
//! A judge reads its queue between batches. The change for a rule is posted before any judge can
//! meet the rule, so a judge that meets it in the middle of a batch finds the change in the queue.
//! Loads wait for the end of the batch: no frame is judged by two sets of rules.

use super::rules::{Counters, Ready, RulesAtWork};
use crate::book::Slot;
use crate::patterns::PatternSet;
use crate::streams::Streams;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
#[cfg(not(feature = "loom"))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

#[cfg(feature = "loom")]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
};

/// One change of the rules, for one judge.
#[derive(Debug)]
pub(super) enum Change {
    /// A rule was added.
    Put(Slot, Arc<Ready>),
    /// A rule was removed.
    Clear(Slot),
    /// A rule was added that looks for more in payloads than all others: flows are followed anew.
    Streams(Box<Streams>),
    /// All rules were replaced.
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

/// The changes for one judge since its last batch began. Their number is bounded: a judge that has
/// not read for long delays the writer's reclaim, and the writer stops when no slot is free (`Slot`
/// numbers are bounded).
#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    queue: Mutex<VecDeque<Change>>,
    /// Changes that were ever posted.
    posted: AtomicU64,
    /// How many of those were posted when the judge last read between two batches.
    seen: AtomicU64,
    is_closed: AtomicBool,
}

impl ChangeQueue {
    pub(super) fn post(&self, change: Change) {
        let mut queue = self.lock();
        // Asked under the lock, so that nothing is left behind in a closed one.
        if !self.is_closed() {
            queue.push_back(change);
            self.posted.fetch_add(1, Ordering::Release);
        }
    }

    /// True if the judge has begun a batch since the last change, or is gone.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.is_closed() || self.seen.load(Ordering::Acquire) == self.posted.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        self.posted.load(Ordering::Acquire) != self.seen.load(Ordering::Relaxed)
    }

    /// Takes all changes; for the time between batches.
    pub(super) fn take_all(&self, mut each: impl FnMut(Change)) {
        let mut queue = self.lock();
        queue.drain(..).for_each(&mut each);
        // The lock keeps new ones out until here.
        self.seen.store(self.posted.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Takes changes up to the one that adds the rule of `slot`; for the middle of a batch. Later
    /// changes wait: a rule removed since may have been met together with this one, and is still to
    /// be asked. Nothing is taken beyond a load.
    pub(super) fn take_until(&self, slot: Slot, each: impl FnMut(Change)) {
        let mut queue = self.lock();
        let is_load = |change: &Change| matches!(change, Change::Load(_));
        let is_it = |change: &Change| matches!(change, Change::Put(put, _) if *put == slot);
        let end = queue.iter().position(is_load).unwrap_or(queue.len());
        let end = queue.range(..end).position(is_it).map_or(end, |at| at + 1);
        queue.drain(..end).for_each(each);
    }

    /// The judge is gone.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.lock().clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
