//! A feed: what one thread tells one other of blocks that are complete, and never waits for it.
//!
//! Words of memory, of which each side changes its own, and no lock: a listener that runs only
//! where nothing else wants to must not hold the other side up while it waits for its turn.

use ringside_sys::sync::{AtomicBool, AtomicU64, Ordering};

/// Runs that are queued and not taken yet. A recorder tells one for each write, so that more than
/// this are more than its ring holds, and gone from it. The model checker has no time for more
/// than come round.
const RUNS_MAX: usize = if cfg!(feature = "loom") { 2 } else { 1024 };

/// Blocks that lie one behind the other in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldRun {
    /// Number of the first in its lane.
    pub sequence: u64,
    /// How many.
    pub blocks: u64,
}

/// From the one thread that tells to the one that takes.
pub struct BlockFeed {
    runs: Box<[[AtomicU64; 2]]>,
    queued: AtomicU64,
    taken: AtomicU64,
    finished: AtomicBool,
    left: AtomicBool,
}

impl Default for BlockFeed {
    fn default() -> BlockFeed {
        let runs = (0..RUNS_MAX).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        let [queued, taken] = [AtomicU64::new(0), AtomicU64::new(0)];
        let [finished, left] = [AtomicBool::new(false), AtomicBool::new(false)];
        BlockFeed { runs, queued, taken, finished, left }
    }
}

impl BlockFeed {
    /// These blocks are complete, which follow those before them. If too much is queued, the feed
    /// is left.
    pub fn tell(&self, run: ToldRun) {
        let queued = self.queued.load(Ordering::Relaxed);
        // Acquire: what was taken was read before it is written over.
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
    pub fn take(&self) -> Option<ToldRun> {
        let taken = self.taken.load(Ordering::Relaxed);
        if self.queued.load(Ordering::Acquire) == taken {
            return None;
        }
        let [sequence, blocks] = &self.runs[taken as usize % RUNS_MAX];
        let (sequence, blocks) = (sequence.load(Ordering::Relaxed), blocks.load(Ordering::Relaxed));
        // Release: the loads come before the other side's next stores.
        self.taken.store(taken + 1, Ordering::Release);
        Some(ToldRun { sequence, blocks })
    }

    /// No more runs come.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// True if what is queued now is all.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// One side gives it up: what is put in from now on may be lost.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// True if one side gave it up.
    pub fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_in_order_and_too_many_leave_the_feed() {
        let feed = BlockFeed::default();
        let run = |sequence| ToldRun { sequence, blocks: sequence % 3 };
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
