//! The ring's protocol under loom: every interleaving and every allowed reordering of one writer
//! with lossless and copying readers, over three blocks in two slots, and of a board.
//!
//! Block `s` holds two words; a word of block `s` is `s + 1`, so bytes of a wrong block show. The
//! data words are relaxed atomics, as weak as the volatile accesses of the real memory. Lossless
//! readers use plain memory: next to each word is a cell whose uses loom wants ordered.

mod feed;
mod shared_lane;

use super::board::{BOARD_MEMORY_WORDS, BoardMemory};
use super::cursor::claim::{BlockRun, ClaimCursor};
use super::cursor::copy::{Copied, CopyCursor, Ready, RingStart};
use super::cursor::lossless::LosslessCursor;
use super::cursor::*;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use ringside_sys::sync::{AtomicU64, Ordering};
use ringside_testkit::by_run;

const SLOTS: usize = 2;
const BLOCK_WORDS: usize = 2;
const BLOCKS: u64 = 3;

/// Steps of one execution; a thread that waits takes many.
const BRANCHES_MAX: usize = 20_000;

struct Model {
    header: [AtomicU64; LANE_WORDS],
    slots: Vec<[AtomicU64; SLOT_WORDS]>,
    data: Vec<AtomicU64>,
    /// One for each word of `data` if only lossless readers look at it, else none.
    cells: Vec<UnsafeCell<()>>,
}

impl Model {
    fn new(lossless_readers: usize) -> Arc<Model> {
        let zero = || AtomicU64::new(0);
        let header = std::array::from_fn(|_| zero());
        initialise(LaneHeader::of(&header), lossless_readers);
        let slots = (0..SLOTS).map(|_| std::array::from_fn(|_| zero())).collect();
        let data = (0..SLOTS * BLOCK_WORDS).map(|_| zero()).collect();
        let cells = if lossless_readers > 0 { SLOTS * BLOCK_WORDS } else { 0 };
        let cells = (0..cells).map(|_| UnsafeCell::new(())).collect();
        Arc::new(Model { header, slots, data, cells })
    }

    fn load(&self, word: usize) -> u64 {
        if let Some(cell) = self.cells.get(word) {
            cell.with(|_| ());
        }
        self.data[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        if let Some(cell) = self.cells.get(word) {
            cell.with_mut(|_| ());
        }
        self.data[word].store(value, Ordering::Relaxed);
    }

    fn lane(&self) -> Lane<'_> {
        Lane { header: LaneHeader::of(&self.header), slots: &self.slots, block_bytes: BLOCK_WORDS }
    }

    fn words(&self, range: &Range) -> Vec<u64> {
        let base = range.slot * BLOCK_WORDS;
        (base + range.from as usize..base + range.to as usize).map(|word| self.load(word)).collect()
    }

    /// Writes one block, a word and a publication at a time; false if a reader is behind.
    fn write_block(&self, writer: &mut WriterCursor, block: u64) -> bool {
        let first_frame = block * BLOCK_WORDS as u64;
        let Ok(slot) = writer.open(self.lane(), first_frame) else { return false };
        for word in 0..BLOCK_WORDS {
            self.store(slot * BLOCK_WORDS + word, block + 1);
            writer.fill(1, 1, BLOCK_WORDS);
            if word + 1 < BLOCK_WORDS {
                writer.publish(self.lane());
            }
        }
        writer.close(self.lane());
        true
    }
}

/// Checks all interleavings of at most `preemptions` preemptions. Two reach every pair of races
/// between threads of this size, three every chain of two; without a bound the search takes hours.
fn bounded(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = BRANCHES_MAX;
    builder.check(check);
}

/// A thread that writes `blocks` blocks, waits where it must, and finishes.
fn write(model: &Arc<Model>, blocks: u64) -> loom::thread::JoinHandle<()> {
    let model = model.clone();
    loom::thread::spawn(move || {
        let mut cursor = WriterCursor::default();
        let mut written = 0;
        while written < blocks {
            if model.write_block(&mut cursor, written) {
                written += 1;
            } else {
                loom::thread::yield_now();
            }
        }
        cursor.finish(model.lane());
    })
}

/// The words that can be read now.
fn read_words(model: &Model, reader: &mut CopyCursor) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Ready::Range(range) = reader.ready(model.lane()) {
        let words = model.words(&range);
        if reader.confirm(model.lane(), &range) == Copied::Valid {
            seen.extend(words);
        }
    }
    seen
}

/// Reads to the end; returns the words.
fn read(model: &Model, reader: &mut CopyCursor) -> Vec<u64> {
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
            Ready::Finished => return seen,
            Ready::Damaged => panic!("the writer keeps to the protocol"),
        }
    }
}

#[test]
fn loom_lossless_reader_sees_every_word_once_and_holds_the_writer() {
    bounded(by_run(2, 3), || {
        let model = Model::new(1);
        let writer = write(&model, BLOCKS);
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
    bounded(by_run(2, 3), || {
        let model = Model::new(0);
        let mut reader = CopyCursor::new(model.lane(), RingStart::Oldest);
        let writer = write(&model, BLOCKS);
        let seen = read(&model, &mut reader);
        writer.join().unwrap();
        assert!(seen.is_sorted() && !seen.contains(&0), "{seen:?}");
        assert_eq!(reader.delivered(), seen.len() as u64);
        assert_eq!(reader.delivered() + reader.missed(), BLOCKS * BLOCK_WORDS as u64);
    });
}

#[test]
fn loom_copying_reader_that_begins_next_to_the_writer_counts_from_its_first_frame() {
    bounded(by_run(1, 2), || {
        let model = Model::new(0);
        let writer = write(&model, BLOCKS);
        let mut reader = CopyCursor::new(model.lane(), RingStart::Now);
        let first_frame = reader.first_frame();
        let seen = read(&model, &mut reader);
        writer.join().unwrap();
        assert!(seen.is_sorted() && !seen.contains(&0), "{seen:?}");
        let known = first_frame + reader.delivered() + reader.missed();
        assert_eq!(known, BLOCKS * BLOCK_WORDS as u64);
        if reader.missed() == 0 {
            let after =
                (first_frame..BLOCKS * BLOCK_WORDS as u64).map(|f| f / BLOCK_WORDS as u64 + 1);
            assert_eq!(seen, after.collect::<Vec<_>>());
        }
    });
}

/// The claimed blocks hold their own words and nothing else; returns their numbers.
fn check_claim(model: &Model, run: &BlockRun) -> std::ops::Range<u64> {
    let sequences = run.first_sequence..run.first_sequence + run.blocks as u64;
    for (sequence, slot) in sequences.clone().zip(run.slot..) {
        for word in slot * BLOCK_WORDS..(slot + 1) * BLOCK_WORDS {
            assert_eq!(model.load(word), sequence + 1);
        }
    }
    sequences
}

#[test]
fn loom_claims_next_to_the_writer_hold_whole_blocks_each_once() {
    bounded(by_run(2, 3), || {
        let model = Model::new(1);
        let writer = write(&model, BLOCKS);
        let mut reader = ClaimCursor::new(0);
        let mut blocks = Vec::new();
        while !reader.is_finished(model.lane()) {
            let Some(run) = reader.claim(model.lane(), SLOTS) else {
                loom::thread::yield_now();
                continue;
            };
            blocks.extend(check_claim(&model, &run));
            reader.release(model.lane(), &run);
        }
        writer.join().unwrap();
        assert_eq!(blocks, (0..BLOCKS).collect::<Vec<_>>());
    });
}

#[test]
fn loom_claims_of_two_threads_are_released_in_any_order_and_never_written_over() {
    bounded(3, || {
        let model = Model::new(1);
        let mut writer = WriterCursor::default();
        assert!((0..2).all(|block| model.write_block(&mut writer, block)));
        let reader = Arc::new(Mutex::new(ClaimCursor::new(0)));
        let holders = [(); 2].map(|()| {
            let run = reader.lock().unwrap().claim(model.lane(), 1).unwrap();
            let (model, reader) = (model.clone(), reader.clone());
            loom::thread::spawn(move || {
                check_claim(&model, &run);
                reader.lock().unwrap().release(model.lane(), &run);
            })
        });
        // As the writer: it may find both, one or no slot free, and must fill none that is held.
        let early =
            (2..4).take_while(|block| model.write_block(&mut writer, *block)).count() as u64;
        for holder in holders {
            holder.join().unwrap();
        }
        assert!((2 + early..4).all(|block| model.write_block(&mut writer, block)), "all released");
    });
}

#[test]
fn loom_a_board_is_read_whole_wherever_its_writer_stands() {
    bounded(3, || {
        let memory: [AtomicU64; BOARD_MEMORY_WORDS] = std::array::from_fn(|_| AtomicU64::new(0));
        let memory = Arc::new(memory);
        let board = BoardMemory::of(&memory);
        board.publish(1, &[1, 1]);
        let writer = {
            let memory = memory.clone();
            loom::thread::spawn(move || {
                let board = BoardMemory::of(&memory);
                (2..=4).for_each(|words| board.publish(words, &[words; 2]));
            })
        };
        let mut last = 1;
        for _ in 0..2 {
            let mut words = [0; 2];
            assert!(board.read(&mut words), "published once, always readable");
            assert!(words[0] == words[1] && words[0] >= last, "{words:?} after {last}");
            last = words[0];
        }
        writer.join().unwrap();
    });
}
