//! What the models of this crate share: they try the real tables, as small as can be, with loom's
//! words, in every interleaving and every allowed reordering of a writer and a reader.
//!
//! The writer is the first thread of a model, and the reader the second: loom then tries for each
//! load of the reader all that the writer has stored. The other way round it tries little, because
//! it knows the last access of a word alone, and the writer loads words before it stores them.

use crate::memory::{Capacity, Layout, Memory};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// Steps of one execution.
const BRANCHES_MAX: usize = 20_000;

/// Checks all interleavings of at most `preemptions` preemptions.
pub(crate) fn bounded(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = BRANCHES_MAX;
    builder.check(check);
}

/// The same; what comes of them must be `expected`, all of it and nothing else.
pub(crate) fn outcomes<T: Ord + Debug + Send + 'static>(
    preemptions: usize,
    expected: impl IntoIterator<Item = T>,
    run: impl Fn() -> T + Sync + Send + 'static,
) {
    let expected: BTreeSet<T> = expected.into_iter().collect();
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let here = seen.clone();
    bounded(preemptions, move || {
        let outcome = run();
        here.lock().unwrap().insert(outcome);
    });
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// Tables for a few rules, to be made in each execution anew.
pub(crate) fn memory() -> Memory {
    let capacity = Capacity { rules: 8, classes: 16, nodes: 8, exact: 4 };
    Memory::heap(Layout::of(&capacity)).unwrap()
}

/// How a writer treats what readers may still look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It waits, as is due.
    Waits,
    /// It does not: the model must see that.
    AtOnce,
}
