//! How writes reach the kernel: by io_uring, or one by one.

use ringside_ring::Claim;
use ringside_sys::bell::Bell;
use ringside_sys::disk::write_counted;
use ringside_sys::uring::{Completion, Uring};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The writes of one writer. Both kinds take the same calls and give the same completions.
pub(super) enum Queue {
    /// Writes go on while the writer looks after other lanes.
    Uring(Box<Uring<Claim>>),
    /// A write is over when it was submitted.
    Plain(VecDeque<Completion<Claim>>),
    /// As `Plain`, and fails as a test wants it.
    #[cfg(test)]
    Failing(super::tests::FailingQueue),
}

impl Queue {
    /// Writes in flight that will be reported as completions.
    pub(super) fn in_flight(&self) -> usize {
        match self {
            Queue::Uring(uring) => uring.in_flight(),
            Queue::Plain(completed) => completed.len(),
            #[cfg(test)]
            Queue::Failing(queue) => queue.completed.len(),
        }
    }

    /// Gives up all writes in flight: the queue has none any more, and what it lent to the kernel
    /// is never freed while the kernel has it.
    pub(super) fn abandon(&mut self) {
        // The ring's own end waits for the kernel, or leaks what that still reads.
        *self = Queue::Plain(VecDeque::new());
    }

    /// Writes the claim's bytes from `from` on to `file` at `offset`.
    pub(super) fn write(
        &mut self,
        file: &Arc<File>,
        claim: Claim,
        from: usize,
        offset: u64,
        token: u64,
    ) {
        match self {
            Queue::Uring(uring) => uring.submit_write(file, claim, from, offset, token),
            Queue::Plain(completed) => {
                let (written, result) = write_counted(file, &claim.bytes()[from..], offset);
                completed.push_back(Completion { token, claim, written, result });
            }
            #[cfg(test)]
            Queue::Failing(queue) => {
                let (written, result) = write_counted(file, &claim.bytes()[from..], offset);
                queue.completed.push_back(Completion { token, claim, written, result });
            }
        }
    }

    /// Hands over what was written since the last call.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        match self {
            Queue::Uring(uring) => uring.submit(),
            Queue::Plain(_) => Ok(()),
            #[cfg(test)]
            Queue::Failing(queue) => queue.submit(),
        }
    }

    /// The end of a write.
    pub(super) fn next_completion(&mut self) -> Option<Completion<Claim>> {
        match self {
            Queue::Uring(uring) => uring.next_completion(),
            Queue::Plain(completed) => completed.pop_front(),
            #[cfg(test)]
            Queue::Failing(queue) => queue.next_completion(),
        }
    }

    /// Waits until a write has ended, the bell rings, or the time is over.
    pub(super) fn wait(&mut self, bell: &Bell, timeout: Duration) -> io::Result<()> {
        match self {
            Queue::Uring(uring) => uring.wait(bell, timeout),
            Queue::Plain(_) => {
                bell.wait(timeout);
                Ok(())
            }
            #[cfg(test)]
            Queue::Failing(queue) => queue.wait(),
        }
    }
}
