//! What a file's writer tells the index thread: which ring blocks are complete.
//!
//! Words of memory, of which each side changes its own, and no lock: the index thread runs only
//! where nothing else wants to, and must not hold a writer up while it waits for its turn.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs of ring blocks that are queued and not taken yet: one for each write, so that more than
/// this are more than a ring holds, and gone from it.
const RUNS_MAX: usize = 1024;

/// Ring blocks that lie one behind the other in the ring and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRun {
    /// Number of the first in its lane of the ring.
    pub(super) sequence: u64,
    pub(super) blocks: u64,
}

/// Of one file, from its one writer to the one index thread.
pub(super) struct Feed {
    runs: Box<[[AtomicU64; 2]]>,
    queued: AtomicU64,
    taken: AtomicU64,
    finished: AtomicBool,
    left: AtomicBool,
}

impl Default for Feed {
    fn default() -> Feed {
        let runs = (0..RUNS_MAX).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        let [queued, taken] = [AtomicU64::new(0), AtomicU64::new(0)];
        let [finished, left] = [AtomicBool::new(false), AtomicBool::new(false)];
        Feed { runs, queued, taken, finished, left }
    }
}

impl Feed {
    /// These ring blocks, which follow those before them in the file, are complete. If too much
    /// is queued, the index is left.
    pub(super) fn tell(&self, run: BlockRun) {
        let queued = self.queued.load(Ordering::Relaxed);
        if queued - self.taken.load(Ordering::Acquire) >= RUNS_MAX as u64 {
            return self.leave();
        }
        let [sequence, blocks] = &self.runs[queued as usize % RUNS_MAX];
        sequence.store(run.sequence, Ordering::Relaxed);
        blocks.store(run.blocks, Ordering::Relaxed);
        // Release: the words of the run come before the count of it.
        self.queued.store(queued + 1, Ordering::Release);
    }

    /// The next run.
    pub(super) fn take(&self) -> Option<BlockRun> {
        let taken = self.taken.load(Ordering::Relaxed);
        if self.queued.load(Ordering::Acquire) == taken {
            return None;
        }
        let [sequence, blocks] = &self.runs[taken as usize % RUNS_MAX];
        let (sequence, blocks) = (sequence.load(Ordering::Relaxed), blocks.load(Ordering::Relaxed));
        // Release: the loads come before the writer's next stores.
        self.taken.store(taken + 1, Ordering::Release);
        Some(BlockRun { sequence, blocks })
    }

    /// The file is whole: no more runs come.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// True if what is queued now is all.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// The index of the file is left to others.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// True if the index is left to others.
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_in_order_and_too_many_leave_the_index() {
        let feed = Feed::default();
        let run = |sequence| BlockRun { sequence, blocks: sequence % 3 };
        let mut taken = 0;
        for sequence in 0..3 * RUNS_MAX as u64 {
            feed.tell(run(sequence));
            if sequence % 4 > 0 {
                assert_eq!(feed.take(), Some(run(taken)));
                taken += 1;
            }
        }
        assert!(!feed.is_left());
        while let Some(next) = feed.take() {
            assert_eq!(next, run(taken));
            taken += 1;
        }
        assert_eq!(taken, 3 * RUNS_MAX as u64);
        (0..RUNS_MAX as u64).for_each(|sequence| feed.tell(run(sequence)));
        assert!(!feed.is_left());
        feed.tell(run(0));
        assert!(feed.is_left());
    }
}
