//! The ledger of a lane as words of 64 bits, for memory that is shared between processes.
//!
//! The layout holds between processes of one version only: they are one binary. A reader of
//! the words finds out by other means whether they were whole when it read them.

use super::{ByCause, Cause, Consumer, LaneCounters};

/// Words of an encoded ledger.
pub const LEDGER_WORDS: usize = 64;
/// An encoded ledger.
pub type Words = [u64; LEDGER_WORDS];

/// Stands for "cannot be counted".
const UNKNOWN: u64 = u64::MAX;
/// Where the counts by cause begin; the words before them are the other terms, in the order of the
/// functions below.
const CAUSES_AT: usize = 16;
/// The words from here to 16 are 0: the publisher of a ledger may put words of its own there.
pub const LEDGER_SPARE_AT: usize = 10;

const _: () = assert!(CAUSES_AT + Cause::ALL.len() <= LEDGER_WORDS);

impl LaneCounters {
    /// The counts; the names of interface and queue are left out, and the threads.
    pub fn to_words(&self) -> Words {
        let mut words = words(&self.dropped);
        let optional = |count: Option<u64>| count.unwrap_or(UNKNOWN);
        let counts = [
            optional(self.received),
            self.taken,
            self.taken_bytes,
            self.passed,
            optional(self.filtered),
            optional(self.in_flight),
            self.inversions,
            self.cut_frames,
            self.cut_bytes,
        ];
        words[..counts.len()].copy_from_slice(&counts);
        words
    }

    /// The counters of an interface's queue from [`to_words`](LaneCounters::to_words).
    pub fn from_words(interface: &str, queue: u16, words: &Words) -> LaneCounters {
        let optional = |word: u64| Some(word).filter(|&word| word != UNKNOWN);
        let [received, taken, taken_bytes, passed, filtered, in_flight, inversions, rest @ ..] =
            *words;
        let [cut_frames, cut_bytes, ..] = rest;
        LaneCounters {
            interface: interface.to_owned(),
            queue,
            received: optional(received),
            taken,
            taken_bytes,
            cut_frames,
            cut_bytes,
            passed,
            filtered: optional(filtered),
            dropped: by_cause(words),
            in_flight: optional(in_flight),
            inversions,
            taken_by_thread: Vec::new(),
            imbalance: None,
        }
    }
}

impl Consumer {
    /// The counts; the name is left out.
    pub fn to_words(&self) -> Words {
        let mut words = words(&self.missed);
        words[..2].copy_from_slice(&[self.delivered, self.late]);
        words
    }

    /// The consumer of this name from [`to_words`](Consumer::to_words).
    pub fn from_words(name: &str, words: &Words) -> Consumer {
        let [delivered, late, ..] = *words;
        Consumer { name: name.to_owned(), delivered, late, missed: by_cause(words) }
    }
}

fn words(by_cause: &ByCause) -> Words {
    let mut words = [0; LEDGER_WORDS];
    for (cause, &count) in by_cause {
        words[CAUSES_AT + cause.index()] = count;
    }
    words
}

fn by_cause(words: &Words) -> ByCause {
    let counts = &words[CAUSES_AT..];
    Cause::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0).map(pair).collect()
}

fn pair((cause, &count): (Cause, &u64)) -> (Cause, u64) {
    (cause, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_back_with_what_cannot_be_counted() {
        for filtered in [None, Some(0), Some(7)] {
            let counters = LaneCounters {
                interface: "eth1".into(),
                queue: 3,
                received: Some(100),
                taken: 90,
                taken_bytes: 9_000,
                cut_frames: 3,
                cut_bytes: 4,
                passed: 1,
                filtered,
                dropped: Cause::ALL.into_iter().zip(1..).collect(),
                in_flight: filtered.map(|count| count + 2),
                inversions: 5,
                imbalance: None,
                taken_by_thread: Vec::new(),
            };
            assert_eq!(LaneCounters::from_words("eth1", 3, &counters.to_words()), counters);
        }
    }

    #[test]
    fn a_consumer_comes_back() {
        let missed = ByCause::from([(Cause::DiskFull, 3), (Cause::Damaged, 1)]);
        let consumer = Consumer { name: "writer".into(), delivered: 12, late: 4, missed };
        assert_eq!(Consumer::from_words("writer", &consumer.to_words()), consumer);
    }
}
