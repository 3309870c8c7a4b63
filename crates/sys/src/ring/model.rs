//! The ring's protocol under loom: every interleaving and every allowed reordering of one writer
//! with a lossless and with a copying reader, over three blocks in two slots.
//!
//! Block `s` holds two words; a word of block `s` is `s + 1`, so bytes of a wrong block show. The
//! data words are relaxed atomics, as weak as the volatile accesses of the real memory.

use super::cursor::copy::{Copied, CopyCursor, Ready, RingStart};
use super::cursor::lossless::LosslessCursor;
use super::cursor::*;
use super::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

const SLOTS: usize = 2;
const BLOCK_WORDS: usize = 2;
const BLOCKS: u64 = 3;

struct Model {
    header: LaneHeader,
    slots: Vec<SlotHeader>,
    data: Vec<AtomicU64>,
}

impl Model {
    fn new(lossless_readers: usize) -> Arc<Model> {
        let zero = || AtomicU64::new(0);
        let header = LaneHeader {
            opened: zero(),
            frames: zero(),
            finished: zero(),
            low_water_ns: zero(),
            released: [zero(), zero(), zero(), zero()],
        };
        initialise(&header, lossless_readers);
        let slot = |_| SlotHeader {
            sequence: zero(),
            committed: zero(),
            first_frame: zero(),
            first_time_ns: zero(),
            last_time_ns: zero(),
        };
        let slots = (0..SLOTS).map(slot).collect();
        let data = (0..SLOTS * BLOCK_WORDS).map(|_| zero()).collect();
        Arc::new(Model { header, slots, data })
    }

    fn lane(&self) -> Lane<'_> {
        Lane { header: &self.header, slots: &self.slots, block_bytes: BLOCK_WORDS }
    }

    fn words(&self, range: &Range) -> Vec<u64> {
        let base = range.slot * BLOCK_WORDS;
        let words = base + range.from as usize..base + range.to as usize;
        self.data[words].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// Writes one block, a word and a publication at a time; false if a reader is behind.
    fn write_block(&self, writer: &mut WriterCursor, block: u64) -> bool {
        let first_frame = block * BLOCK_WORDS as u64;
        let Ok(slot) = writer.open(self.lane(), first_frame) else { return false };
        for word in 0..BLOCK_WORDS {
            self.data[slot * BLOCK_WORDS + word].store(block + 1, Ordering::Relaxed);
            writer.fill(1, 1, BLOCK_WORDS);
            if word + 1 < BLOCK_WORDS {
                writer.publish(self.lane());
            }
        }
        writer.close(self.lane());
        true
    }
}

fn bounded(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Three preemptions reach every pair of races between two threads of this size; without a
    // bound the search takes hours.
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn loom_lossless_reader_sees_every_word_once_and_holds_the_writer() {
    bounded(|| {
        let model = Model::new(1);
        let other = model.clone();
        let writer = loom::thread::spawn(move || {
            let mut cursor = WriterCursor::default();
            let mut written = 0;
            while written < BLOCKS {
                if other.write_block(&mut cursor, written) {
                    written += 1;
                } else {
                    loom::thread::yield_now();
                }
            }
            cursor.finish(other.lane());
        });
        let mut reader = LosslessCursor::new(0);
        let mut seen = Vec::new();
        while !reader.is_finished(model.lane()) {
            match reader.ready(model.lane()) {
                Some(range) => {
                    seen.extend(model.words(&range));
                    reader.consume(model.lane());
                }
                None => loom::thread::yield_now(),
            }
        }
        writer.join().unwrap();
        assert_eq!(seen, [1, 1, 2, 2, 3, 3]);
    });
}

#[test]
fn loom_copying_reader_never_keeps_a_torn_block_and_counts_what_it_missed() {
    bounded(|| {
        let model = Model::new(0);
        let other = model.clone();
        let writer = loom::thread::spawn(move || {
            let mut cursor = WriterCursor::default();
            for block in 0..BLOCKS {
                assert!(other.write_block(&mut cursor, block), "nobody holds the writer");
            }
            cursor.finish(other.lane());
        });
        let mut reader = CopyCursor::new(model.lane(), RingStart::Oldest);
        let mut seen = Vec::new();
        loop {
            match reader.ready(model.lane()) {
                Ready::Range(range) => {
                    let words = model.words(&range);
                    if reader.confirm(model.lane(), &range) == Copied::Valid {
                        assert!(words.iter().all(|word| *word == words[0]), "one block: {words:?}");
                        seen.extend(words);
                    }
                }
                Ready::Nothing => loom::thread::yield_now(),
                Ready::Finished => break,
                Ready::Damaged => panic!("an honest writer"),
            }
        }
        writer.join().unwrap();
        assert!(seen.is_sorted() && !seen.contains(&0), "{seen:?}");
        assert_eq!(reader.delivered(), seen.len() as u64);
        let all = BLOCKS * BLOCK_WORDS as u64;
        assert_eq!(reader.first_frame() + reader.delivered() + reader.missed(), all);
    });
}
