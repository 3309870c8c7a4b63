//! A gate: threads pass it in the order of their numbers; those that come early wait.

use crate::sync::{AtomicU32, Ordering};

/// Looks at the gate before a thread goes to sleep: some ten microseconds, about what a sleep and
/// its end cost.
#[cfg(not(feature = "loom"))]
const LOOKS: u32 = 500;
/// Longest sleep before a thread looks whether those before it still live.
#[cfg(not(feature = "loom"))]
const SLEEP: rustix::thread::Timespec =
    rustix::thread::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Open for all numbers up to one that only grows.
///
/// Numbers are compared modulo 2^32: those that are waited for lie within a few of each other.
#[repr(align(128))] // Lines of its own: many look at it while few write.
pub(super) struct Gate {
    open_to: AtomicU32,
    #[cfg(not(feature = "loom"))]
    sleepers: AtomicU32,
}

impl Gate {
    /// Open for number 0.
    pub(super) fn new() -> Gate {
        Gate {
            open_to: AtomicU32::new(0),
            #[cfg(not(feature = "loom"))]
            sleepers: AtomicU32::new(0),
        }
    }

    /// True if `number` may pass. What was done before the gate was opened for it is seen then.
    #[inline]
    pub(super) fn is_open(&self, number: u64) -> bool {
        // Acquire: pairs with the store of `open`.
        self.reaches(number, self.open_to.load(Ordering::Acquire))
    }

    #[inline]
    fn reaches(&self, number: u64, open_to: u32) -> bool {
        open_to.wrapping_sub(number as u32) as i32 >= 0
    }

    /// True if it is open for `number` and for no later one. Seen as by [`is_open`](Self::is_open).
    #[inline]
    pub(super) fn ends_at(&self, number: u64) -> bool {
        // Acquire: as above.
        self.open_to.load(Ordering::Acquire) == number as u32
    }

    /// Opens the gate for `number`, and for all before it. One thread at a time, upwards.
    #[inline]
    pub(super) fn open(&self, number: u64) {
        // Release: what this thread did comes before. Sequentially consistent, as in `sleep`:
        // either this thread sees the sleeper, or the sleeper sees the open gate.
        self.open_to.store(number as u32, Ordering::SeqCst);
        #[cfg(not(feature = "loom"))]
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    /// Waits until `number` may pass; false if `is_over` came true before.
    #[cfg(not(feature = "loom"))]
    #[inline]
    pub(super) fn wait(&self, number: u64, is_over: impl Fn() -> bool) -> bool {
        if self.is_open(number) {
            return true;
        }
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if self.is_open(number) {
                return true;
            }
        }
        while !self.is_open(number) {
            if is_over() {
                return false;
            }
            self.sleep(number);
        }
        true
    }

    /// The same for the model, whose threads do not sleep.
    #[cfg(feature = "loom")]
    pub(super) fn wait(&self, number: u64, is_over: impl Fn() -> bool) -> bool {
        while !self.is_open(number) {
            if is_over() {
                return false;
            }
            loom::thread::yield_now();
        }
        true
    }

    #[cfg(not(feature = "loom"))]
    #[cold]
    fn sleep(&self, number: u64) {
        use rustix::thread::futex;
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = self.open_to.load(Ordering::SeqCst);
        if !self.reaches(number, seen) {
            // The kernel sleeps only if the word still is what was seen. Any other end of the sleep
            // leads back to the look.
            let _ = futex::wait(&self.open_to, futex::Flags::PRIVATE, seen, Some(&SLEEP));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(not(feature = "loom"))]
    #[cold]
    fn wake(&self) {
        use rustix::thread::futex;
        // All: who sleeps at one gate waits for different numbers. It cannot fail for a word that
        // is ours.
        let _ = futex::wake(&self.open_to, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}
