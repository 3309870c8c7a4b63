//! Waking a thread that waits for work, cheaply while it is awake.

use crate::SysError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// One thread waits, others ring. While the thread is awake a ring is one load; only the first
/// ring after it went to sleep costs a system call.
///
/// The waiting thread calls [`listen`](Bell::listen), then looks for work once more, and sleeps
/// only if there is none: so no ring is lost between the look and the sleep. It is an eventfd, so
/// that one wait can cover it and an I/O ring.
#[derive(Debug)]
pub struct Bell {
    event: OwnedFd,
    listening: AtomicBool,
}

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn new() -> Result<Bell, SysError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| SysError::io("making an eventfd", errno))?;
        Ok(Bell { event, listening: AtomicBool::new(false) })
    }

    /// Wakes the thread if it listens. What it is to see was written before.
    pub fn ring(&self) {
        // Pairs with the fence in `listen`: either this load sees that the thread listens, or the
        // thread's look for work after `listen` sees what was written before the ring.
        fence(Ordering::SeqCst);
        if self.listening.load(Ordering::Relaxed) && self.listening.swap(false, Ordering::AcqRel) {
            // It can fail only if it was rung 2^64 times without being heard.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// From now on a ring is kept until [`stop_listening`](Bell::stop_listening).
    pub fn listen(&self) {
        self.listening.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Forgets what was rung: the thread is awake and looks for work by itself.
    pub fn stop_listening(&self) {
        self.listening.store(false, Ordering::Release);
        // Nothing to read: no thread rang, or the ring that took the flag is about to write. The
        // next sleep then ends early, once. A sleep in which no thread rang also takes out what is
        // there.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Sleeps until it is rung or `timeout` is over.
    pub fn wait(&self, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // An interrupted sleep is a short one: the caller looks for work either way.
        let _ = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], Some(&timeout));
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The bells of several threads that wait for the same.
#[derive(Debug)]
pub struct Bells(Vec<Bell>);

impl Bells {
    /// One for each of `threads`.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn new(threads: usize) -> Result<Bells, SysError> {
        (0..threads).map(|_| Bell::new()).collect::<Result<_, _>>().map(Bells)
    }

    /// Wakes every thread that listens.
    pub fn ring(&self) {
        self.0.iter().for_each(Bell::ring);
    }

    /// The bell of one thread.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn of(&self, thread: usize) -> &Bell {
        &self.0[thread]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Far longer than the test runs; a wait that takes as long has missed its ring.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_ring_between_the_look_and_the_sleep_is_kept() {
        let bell = Bell::new().unwrap();
        bell.listen();
        bell.ring();
        let start = Instant::now();
        bell.wait(LONG);
        assert!(start.elapsed() < LONG);
        bell.stop_listening();
        bell.wait(Duration::ZERO);
        assert!(rustix::io::read(&bell, &mut [0; 8]).is_err(), "it was silenced");
    }

    #[test]
    fn a_ring_costs_nothing_while_nobody_listens() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(rustix::io::read(&bell, &mut [0; 8]).is_err(), "nothing was written");
    }

    #[test]
    fn a_ring_that_comes_late_ends_one_sleep_early_and_no_other() {
        let bell = Bell::new().unwrap();
        bell.listen();
        bell.stop_listening();
        // What a ringing thread does that took the flag and was stopped before its write.
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        bell.listen();
        bell.wait(LONG);
        bell.stop_listening();
        assert!(rustix::io::read(&bell, &mut [0; 8]).is_err(), "every later sleep would be none");
    }

    #[test]
    fn a_sleeping_thread_is_woken() {
        let bell = Bell::new().unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            bell.listen();
            scope.spawn(|| bell.ring());
            bell.wait(LONG);
        });
        assert!(start.elapsed() < LONG);
    }
}
