//! Atomics and shared cells: the real ones, or loom's when the model is checked.

#[cfg(feature = "loom")]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(feature = "loom")]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(feature = "loom"))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// A cell that threads share by a protocol of their own, with the interface of loom's.
#[cfg(not(feature = "loom"))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(feature = "loom"))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Calls `use_it` with the value's address; what it may do there is the caller's to know.
    #[inline]
    pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
        use_it(self.0.get())
    }
}

/// An acquire load of a word that may lie in a read-only mapping.
///
/// The standard library promises for such memory only that small *relaxed* loads work (see
/// "Atomic accesses to read-only memory" in `std::sync::atomic`); with the fence after it the load
/// orders at least as much as an acquire load.
#[inline]
pub fn load_acquire(word: &AtomicU64) -> u64 {
    let value = word.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    value
}
