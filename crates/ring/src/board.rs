//! Boards: a few words that one thread keeps up to date and anyone may read, also after its death.
//!
//! A publication goes to one of two buffers in turn, and its number is stored after it. So the
//! buffer of the latest publication is whole whenever the writer dies. A reader copies it and looks
//! whether it still is the latest: the next but one is written over it.

use ringside_sys::sync::{AtomicU64, Ordering, fence, load_acquire};

/// Words of a board: as many as an encoded ledger has. The model checker has no time for more than
/// show a mixture.
pub const BOARD_WORDS: usize = if cfg!(feature = "loom") { 2 } else { 64 };

/// Boards of each lane.
pub(crate) const BOARDS_PER_LANE: usize = 2;

/// Words of the memory of a board: whole cache lines.
pub(crate) const BOARD_MEMORY_WORDS: usize = (1 + 2 * BOARD_WORDS).next_multiple_of(8);
pub(crate) const BOARD_BYTES: usize = BOARD_MEMORY_WORDS * 8;

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
#[derive(Clone, Copy)]
pub(crate) struct BoardMemory<'r> {
    /// Number of the latest publication, from 1; 0 before it.
    latest: &'r AtomicU64,
    /// Publication `n` lies in buffer `n % 2`.
    buffers: [&'r [AtomicU64]; 2],
}

impl<'r> BoardMemory<'r> {
    /// The board that these words are: the number, and one buffer behind the other.
    pub(crate) fn of(words: &'r [AtomicU64; BOARD_MEMORY_WORDS]) -> BoardMemory<'r> {
        let (first, second) = words[1..=2 * BOARD_WORDS].split_at(BOARD_WORDS);
        BoardMemory { latest: &words[0], buffers: [first, second] }
    }

    /// Makes `words` the latest publication, with the next number.
    pub(crate) fn publish(&self, number: u64, words: &[u64]) {
        // The latest publication lies in the other buffer. The fence: a reader that sees a word
        // that follows sees its number too (it pairs with the fence in `read`).
        fence(Ordering::Release);
        let buffer = self.buffers[(number % 2) as usize];
        for (place, word) in buffer.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        // Release: the words come before their number.
        self.latest.store(number, Ordering::Release);
    }

    /// Number of the latest publication: it grows as long as the thread that publishes moves.
    pub(crate) fn latest(&self) -> u64 {
        load_acquire(self.latest)
    }

    /// The latest publication, into `words`; false if there is none.
    pub(crate) fn read(&self, words: &mut [u64]) -> bool {
        for _ in 0..READINGS_MAX {
            let latest = load_acquire(self.latest);
            if latest == 0 {
                return false;
            }
            let buffer = self.buffers[(latest % 2) as usize];
            for (word, place) in words.iter_mut().zip(buffer) {
                *word = place.load(Ordering::Relaxed);
            }
            fence(Ordering::Acquire);
            if self.latest.load(Ordering::Relaxed) == latest {
                return true;
            }
        }
        false
    }
}
