//! What a program counts: on each CPU apart, and what user space carries over from a program
//! before.

use super::Words64;
use ringside_core::ledger::sum;
use std::sync::atomic::Ordering;

const TOTALS_WORDS: usize = 16;
const COUNTS_WORDS: usize = 2;
const OFFENDER_WORDS: usize = 4;

/// Bytes of an entry of each array.
pub(super) const TOTALS_BYTES: usize = TOTALS_WORDS * size_of::<u64>();
pub(super) const COUNTS_BYTES: usize = COUNTS_WORDS * size_of::<u64>();
pub(super) const OFFENDER_BYTES: usize = OFFENDER_WORDS * size_of::<u64>();

/// Frames that a program saw. Each is in one of the first seven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// To the host, and where no capture shares these rules, to programs behind.
    pub passed: u64,
    /// To programs behind, by a rule or the default.
    pub taken: u64,
    /// Dropped by a rule or the default. In a dry run they went on all the same.
    pub dropped: u64,
    /// Dropped because their source sent too many. In a dry run they went on all the same.
    pub limited: u64,
    /// Sent elsewhere. In a dry run they went on all the same.
    pub redirected: u64,
    /// To programs behind, which are to judge and count them.
    pub handed_up: u64,
    /// What the program cannot read: headers beyond the first kilobyte. They went on.
    pub unjudged: u64,
    /// Of all: frames that took the long way, because their headers are not the usual ones.
    pub walked: u64,
    /// Of those judged here: frames that no rule decided about, and their bytes.
    pub undecided: u64,
    /// See `undecided`.
    pub undecided_bytes: u64,
}

impl Totals {
    /// As they lie in the array.
    fn of_words(word: impl Fn(usize) -> u64) -> Totals {
        Totals {
            passed: word(0),
            taken: word(1),
            dropped: word(2),
            limited: word(3),
            redirected: word(4),
            handed_up: word(5),
            unjudged: word(6),
            walked: word(7),
            undecided: word(8),
            undecided_bytes: word(9),
        }
    }

    fn to_words(self) -> [u64; 10] {
        let Totals { passed, taken, dropped, limited, redirected, .. } = self;
        let Totals { handed_up, unjudged, walked, undecided, undecided_bytes, .. } = self;
        [
            passed,
            taken,
            dropped,
            limited,
            redirected,
            handed_up,
            unjudged,
            walked,
            undecided,
            undecided_bytes,
        ]
    }

    /// Frames that came.
    pub fn seen(&self) -> u64 {
        let Totals { passed, taken, dropped, limited, redirected, handed_up, unjudged, .. } = self;
        // Saturating: where it is pinned, another program may have written there.
        sum([passed, taken, dropped, limited, redirected, handed_up, unjudged]
            .map(|frames| *frames))
    }
}

/// The arrays in which a program counts. Each has a part for each CPU, and `totals` and `counts`
/// one more behind them, which user space alone writes: there lies what was counted before the
/// program came, so that a reader of the arrays has the sums.
#[derive(Debug)]
pub(super) struct Counters {
    pub cpus: usize,
    pub slots: usize,
    pub totals: Words64,
    pub counts: Words64,
    pub offenders: Words64,
}

impl Counters {
    /// Parts of `totals` and `counts`.
    pub fn parts(cpus: usize) -> usize {
        cpus + 1
    }

    /// Words of the arrays, for these numbers of CPUs, of slots, and of places for offenders on
    /// each CPU.
    pub fn words(cpus: usize, slots: usize, offenders: usize) -> [usize; 3] {
        let parts = Counters::parts(cpus);
        [parts * TOTALS_WORDS, parts * slots * COUNTS_WORDS, cpus * offenders * OFFENDER_WORDS]
    }

    /// Exact while no frames come.
    pub fn totals(&self) -> Totals {
        Totals::of_words(|field| {
            let parts = self.totals.chunks_exact(TOTALS_WORDS);
            parts.fold(0u64, |sum, part| sum.wrapping_add(part[field].load(Ordering::Relaxed)))
        })
    }

    /// Frames and bytes that a rule counted.
    pub fn of(&self, slot: u32) -> (u64, u64) {
        let sum = |field: usize| {
            let words = self.places(slot).map(|at| &self.counts[at + field]);
            words.fold(0u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
        };
        (sum(0), sum(1))
    }

    pub fn clear(&self, slot: u32) {
        for at in self.places(slot) {
            self.counts[at].store(0, Ordering::Relaxed);
            self.counts[at + 1].store(0, Ordering::Relaxed);
        }
    }

    pub fn carry(&self, totals: Totals) {
        let part = &self.totals[self.cpus * TOTALS_WORDS..];
        for (to, word) in part.iter().zip(totals.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
    }

    pub fn carry_counts(&self, slot: u32, (frames, bytes): (u64, u64)) {
        let at = self.place(self.cpus, slot);
        self.counts[at].store(frames, Ordering::Relaxed);
        self.counts[at + 1].store(bytes, Ordering::Relaxed);
    }

    /// Sources of dropped frames: address words, version of IP, frames.
    pub fn offenders(&self) -> impl Iterator<Item = ([u64; 2], u64, u64)> {
        self.offenders.chunks_exact(OFFENDER_WORDS).filter_map(|words| {
            let word = |at: usize| words[at].load(Ordering::Relaxed);
            (word(3) > 0).then(|| ([word(0), word(1)], word(2), word(3)))
        })
    }

    fn places(&self, slot: u32) -> impl Iterator<Item = usize> {
        (0..Counters::parts(self.cpus)).map(move |part| self.place(part, slot))
    }

    fn place(&self, part: usize, slot: u32) -> usize {
        COUNTS_WORDS * (part * self.slots + slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_over_is_added_to_what_cpus_count() {
        let [totals, counts, offenders] = Counters::words(2, 3, 1);
        let words = |count| Words64::zeroed(count).unwrap();
        let (totals, counts, offenders) = (words(totals), words(counts), words(offenders));
        let counters = Counters { cpus: 2, slots: 3, totals, counts, offenders };
        let before = Totals { passed: 5, undecided_bytes: 7, ..Totals::default() };
        counters.carry(before);
        // The first CPU passes one frame, the second drops two.
        counters.totals[0].store(1, Ordering::Relaxed);
        counters.totals[TOTALS_WORDS + 2].store(2, Ordering::Relaxed);
        assert_eq!(counters.totals(), Totals { passed: 6, dropped: 2, ..before });
        assert_eq!(Totals::of_words(|at| before.to_words()[at]), before);
        counters.carry_counts(1, (10, 100));
        for cpu in 0..2 {
            counters.counts[2 * (cpu * 3 + 1)].store(3, Ordering::Relaxed);
        }
        assert_eq!([0, 1, 2].map(|slot| counters.of(slot)), [(0, 0), (16, 100), (0, 0)]);
        counters.clear(1);
        assert_eq!(counters.of(1), (0, 0));
    }
}
