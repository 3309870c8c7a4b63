//! Atomics: the real ones, or loom's when the model is checked.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An acquire load of a word that may lie in a read-only mapping.
///
/// The standard library promises for such memory only that small *relaxed* loads work (see
/// "Atomic accesses to read-only memory" in `std::sync::atomic`); with the fence after it the load
/// orders at least as much as an acquire load.
#[inline]
pub(super) fn load_acquire(word: &AtomicU64) -> u64 {
    let value = word.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    value
}
