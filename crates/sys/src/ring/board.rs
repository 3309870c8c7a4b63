//! Boards: a few words that one thread keeps up to date and anyone may read, also after its death.
//!
//! A publication goes to one of two buffers in turn and is then named by the generation, so the
//! buffer that the generation names is whole whenever the writer dies. A reader copies it and looks
//! whether the generation is still the same: a later publication but one would write into it.

use super::sync::{AtomicU64, Ordering, fence, load_acquire};

/// Words of a board: as many as an encoded ledger has. The model checker has no time for more than
/// show a mixture.
pub const BOARD_WORDS: usize = if cfg!(loom) { 2 } else { 64 };

/// Boards of each lane.
pub(super) const BOARDS_PER_LANE: usize = 2;

/// Readings before a reader gives up. Publications are a batch of frames apart, a reading takes
/// less than a microsecond: only memory that is garbage gets here.
const READINGS_MAX: usize = 1_000;

/// Which board of a lane, named after who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// The lane's worker: what it took and dropped.
    Worker,
    /// The recorder: what is in files.
    Recorder,
}

/// A board in the shared memory.
#[repr(C, align(64))]
pub(super) struct BoardMemory {
    /// Number of publications.
    pub(super) generation: AtomicU64,
    /// Publication `n` lies in buffer `n % 2`.
    pub(super) buffers: [[AtomicU64; BOARD_WORDS]; 2],
}

impl BoardMemory {
    /// Makes `words` publication number `generation`.
    pub(super) fn publish(&self, generation: u64, words: &[u64]) {
        // The generation that was stored last names the other buffer. The fence: whoever sees a
        // word that follows sees that generation too (it pairs with the fence in `read`).
        fence(Ordering::Release);
        let buffer = &self.buffers[(generation % 2) as usize];
        for (place, word) in buffer.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        // Release: the words come before their name.
        self.generation.store(generation, Ordering::Release);
    }

    /// The last publication, into `words`; false if there is none.
    pub(super) fn read(&self, words: &mut [u64]) -> bool {
        for _ in 0..READINGS_MAX {
            let generation = load_acquire(&self.generation);
            if generation == 0 {
                return false;
            }
            let buffer = &self.buffers[(generation % 2) as usize];
            for (word, place) in words.iter_mut().zip(buffer) {
                *word = place.load(Ordering::Relaxed);
            }
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return true;
            }
        }
        false
    }
}
