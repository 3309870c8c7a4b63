//! Several threads on one lane under loom: they claim in turn, reserve in that order, write side by
//! side, and are shown in order, to lossless and copying readers; and what they claimed is given
//! back independently of all that.
//!
//! A ticket is one frame of one word, whose value is its number plus 1. The last tests break one
//! rule each, and the model must see it.

use super::{BLOCK_WORDS, Model, bounded, read_words};
use crate::cursor::copy::{CopyCursor, RingStart};
use crate::cursor::lossless::LosslessCursor;
use crate::cursor::shared_lane::{LaneBroken, Pass, SharedCursor, Step, TakeError};
use crate::cursor::*;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread::{JoinHandle, spawn, yield_now};
use ringside_sys::sync::{AtomicU64, Ordering};
use ringside_testkit::by_run;

/// Chunks of the source; the third frame comes in the first that was given back.
const CHUNKS: usize = 2;

/// A source of which threads take in turn, and to which they give back at any time.
struct Supply {
    frames: u64,
    next: AtomicU64,
    /// Its uses are ordered if threads take one after the other.
    taking: UnsafeCell<()>,
    free: Mutex<Vec<usize>>,
    /// A chunk is written when a frame comes, and read until it is given back.
    chunks: [UnsafeCell<()>; CHUNKS],
}

/// A frame that was taken.
struct Taken {
    number: u64,
    chunk: usize,
}

impl Supply {
    fn new(frames: u64) -> Supply {
        Supply {
            frames,
            next: AtomicU64::new(0),
            taking: UnsafeCell::new(()),
            free: Mutex::new((0..CHUNKS).collect()),
            chunks: std::array::from_fn(|_| UnsafeCell::new(())),
        }
    }

    /// The next frame; `None` after the last. One thread at a time.
    fn take(&self) -> Option<Taken> {
        self.taking.with_mut(|_| ());
        let number = self.next.load(Ordering::Relaxed);
        if number == self.frames {
            return None;
        }
        self.next.store(number + 1, Ordering::Relaxed);
        let chunk = loop {
            if let Some(chunk) = self.free.lock().unwrap().pop() {
                break chunk;
            }
            yield_now();
        };
        self.chunks[chunk].with_mut(|_| ());
        Some(Taken { number, chunk })
    }

    fn give_back(&self, taken: Taken) {
        self.free.lock().unwrap().push(taken.chunk);
    }
}

/// What the threads share.
struct ModelLane {
    model: Arc<Model>,
    cursor: SharedCursor<(), Vec<Step>>,
    supply: Supply,
    /// Frames that have room; of the thread that has the turn to reserve.
    reserved: AtomicU64,
}

/// How a thread goes through a round. All but the first are broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Kept,
    /// Shows what it wrote at once, whatever is before it.
    ShowsAtOnce,
    /// Does not wait for its turn to claim.
    ClaimsAtOnce,
    /// Gives the chunk back before the copy.
    GivesBackEarly,
    /// Says that it wrote before it did.
    FinishesEarly,
}

impl ModelLane {
    fn new(lossless_readers: usize, frames: u64) -> Arc<ModelLane> {
        let cursor = SharedCursor::new(WriterCursor::default(), ());
        let (model, supply) = (Model::new(lossless_readers), Supply::new(frames));
        Arc::new(ModelLane { model, cursor, supply, reserved: AtomicU64::new(0) })
    }

    /// The first frames, before there are threads.
    fn begin(&self, frames: u64) {
        (0..frames).for_each(|_| self.round(Rule::Kept));
    }

    /// Takes a frame, if there is one left, and puts it where it belongs.
    fn round(&self, rule: Rule) {
        let early = (rule == Rule::ClaimsAtOnce).then(|| self.supply.take());
        let mut pass = self.cursor.enter().unwrap();
        let taken = early.unwrap_or_else(|| self.supply.take());
        pass.claimed();
        pass.wait_for_reservation().unwrap();
        let mut steps = Vec::new();
        let word = taken.as_ref().map(|taken| self.reserve(&mut pass, taken.number, &mut steps));
        pass.reserved();
        let (Some(taken), Some(word)) = (taken, word) else {
            return pass.finish(steps, |steps| self.show(&steps));
        };
        let (number, chunk) = (taken.number, taken.chunk);
        let copy = || {
            self.supply.chunks[chunk].with(|_| ());
            self.model.store(word, number + 1);
        };
        match rule {
            Rule::Kept | Rule::ClaimsAtOnce => {
                copy();
                self.supply.give_back(taken);
                pass.finish(steps, |steps| self.show(&steps));
            }
            Rule::ShowsAtOnce => {
                copy();
                self.supply.give_back(taken);
                self.show(&steps);
                pass.finish(Vec::new(), |_| ());
            }
            Rule::GivesBackEarly => {
                self.supply.give_back(taken);
                copy();
                pass.finish(steps, |steps| self.show(&steps));
            }
            Rule::FinishesEarly => {
                pass.finish(steps, |steps| self.show(&steps));
                copy();
                self.supply.give_back(taken);
            }
        }
    }

    /// Room for one word; waits where a lossless reader is behind.
    fn reserve(
        &self,
        pass: &mut Pass<'_, (), Vec<Step>>,
        number: u64,
        steps: &mut Vec<Step>,
    ) -> usize {
        while pass.with_cursor(|cursor| cursor.slot().is_none()) {
            let sequence = pass.with_cursor(|cursor| cursor.next_sequence());
            let first_frame = self.reserved.load(Ordering::Relaxed);
            match pass.take(self.model.lane(), first_frame) {
                Ok(taken) => {
                    taken.expect("one opening a ticket");
                    steps.push(Step::Opened(sequence));
                }
                Err(TakeError::Full) => yield_now(),
                Err(TakeError::Broken) => panic!("no thread dies here"),
            }
        }
        self.reserved.store(self.reserved.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        pass.with_cursor(|cursor| {
            let word = cursor.slot().unwrap() * BLOCK_WORDS + cursor.filled_bytes() as usize;
            cursor.fill(1, 1, BLOCK_WORDS);
            let is_full = cursor.filled_bytes() as usize == BLOCK_WORDS;
            let mark = if is_full { cursor.end() } else { cursor.mark() };
            steps.push(Step::Filled(mark.unwrap(), Some((number + 1, number + 1))));
            word
        })
    }

    fn show(&self, steps: &[Step]) {
        steps.iter().for_each(|step| step.show(self.model.lane()));
    }
}

/// A thread that goes `rounds` rounds.
fn thread(lane: &Arc<ModelLane>, rule: Rule, rounds: usize) -> JoinHandle<()> {
    let lane = lane.clone();
    spawn(move || (0..rounds).for_each(|_| lane.round(rule)))
}

/// Two threads that share the rounds: one for each frame that is left.
fn two_threads(lane: &Arc<ModelLane>, rule: Rule) -> [JoinHandle<()>; 2] {
    let frames = (lane.supply.frames - lane.supply.next.load(Ordering::Relaxed)) as usize;
    [thread(lane, rule, frames.div_ceil(2)), thread(lane, rule, frames / 2)]
}

/// Ends the lane once all threads have ended.
fn finish(lane: Arc<ModelLane>) {
    let lane = Arc::try_unwrap(lane).unwrap_or_else(|_| panic!("a thread has it still"));
    let (mut cursor, ()) = lane.cursor.into_parts().expect("all tickets are shown");
    cursor.finish(lane.model.lane());
}

/// Two threads and a lossless reader that sees all frames in order; the first few are there
/// already.
fn next_to_a_lossless_reader(rule: Rule, frames: u64, begun: u64) {
    let lane = ModelLane::new(1, frames);
    lane.begin(begun);
    let model = lane.model.clone();
    let threads = two_threads(&lane, rule);
    let mut reader = LosslessCursor::new(0);
    let mut seen = Vec::new();
    while seen.len() < frames as usize {
        match reader.ready(model.lane()) {
            Some(range) => {
                seen.extend(model.words(&range));
                reader.consume(model.lane());
            }
            None => yield_now(),
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    finish(lane);
    assert!(seen.iter().copied().eq(1..=frames), "{seen:?}");
    while let Some(range) = reader.ready(model.lane()) {
        assert_eq!(range.from, range.to, "nothing comes twice");
        reader.consume(model.lane());
    }
    assert!(reader.is_finished(model.lane()));
}

#[test]
fn loom_threads_of_a_lane_are_seen_as_one_writer_in_the_order_of_claims() {
    // With a second preemption the search of three threads takes more than ten minutes.
    bounded(1, || next_to_a_lossless_reader(Rule::Kept, 2, 0));
}

#[test]
fn loom_threads_of_a_lane_wait_for_a_lossless_reader_and_use_its_blocks_again() {
    bounded(1, || next_to_a_lossless_reader(Rule::Kept, 5, 4));
}

#[test]
fn loom_a_copying_reader_next_to_threads_of_a_lane_keeps_no_torn_block() {
    bounded(by_run(1, 2), || {
        let frames = 6;
        let lane = ModelLane::new(0, frames);
        let model = lane.model.clone();
        // It stands at the first block, which the threads write over.
        let mut reader = CopyCursor::new(model.lane(), RingStart::Oldest);
        lane.begin(4);
        let threads = two_threads(&lane, Rule::Kept);
        let mut seen = read_words(&model, &mut reader);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        finish(lane);
        seen.extend(read_words(&model, &mut reader));
        assert!(seen.is_sorted_by(|a, b| a < b) && !seen.contains(&0), "{seen:?}");
        assert_eq!(reader.delivered(), seen.len() as u64);
        assert_eq!(reader.delivered() + reader.missed(), frames);
    });
}

#[test]
fn loom_a_reader_that_begins_next_to_threads_of_a_lane_counts_from_its_first_frame() {
    bounded(2, || {
        let frames = 3;
        let lane = ModelLane::new(0, frames);
        let model = lane.model.clone();
        let threads = two_threads(&lane, Rule::Kept);
        let mut reader = CopyCursor::new(model.lane(), RingStart::Now);
        let first_frame = reader.first_frame();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        finish(lane);
        let seen = read_words(&model, &mut reader);
        assert!(seen.is_sorted_by(|a, b| a < b) && !seen.contains(&0), "{seen:?}");
        assert_eq!(first_frame + reader.delivered() + reader.missed(), frames);
    });
}

#[test]
fn loom_a_ticket_that_needs_several_blocks_shows_the_first_of_them_early() {
    bounded(2, || {
        let lane = ModelLane::new(0, 1);
        let model = lane.model.clone();
        let one = thread(&lane, Rule::Kept, 1);
        // As the other thread: four words, which need a third block if a word is before them.
        let mut pass = lane.cursor.enter().unwrap();
        pass.claimed();
        pass.wait_for_reservation().unwrap();
        let mut steps = Vec::new();
        for _ in 0..4 {
            let has_opened = steps.iter().any(|step| matches!(step, Step::Opened(_)));
            if has_opened && pass.with_cursor(|cursor| cursor.slot().is_none()) {
                pass.show_early(|| lane.show(&steps)).unwrap();
                steps.clear();
            }
            let word = lane.reserve(&mut pass, 6, &mut steps);
            model.store(word, 7);
        }
        pass.reserved();
        pass.finish(steps, |steps| lane.show(&steps));
        one.join().unwrap();
        finish(lane);
        let mut reader = CopyCursor::new(model.lane(), RingStart::Oldest);
        let seen = read_words(&model, &mut reader);
        assert_eq!(reader.first_frame() + seen.len() as u64, 5);
        assert!([&[7, 7, 7][..], &[7, 7, 1]].contains(&&seen[..]), "{seen:?}");
    });
}

#[test]
fn loom_after_a_thread_that_died_nothing_is_shown_and_nobody_waits_for_ever() {
    bounded(2, || {
        let lane = ModelLane::new(0, 0);
        let model = lane.model.clone();
        let dies = {
            let lane = lane.clone();
            spawn(move || {
                if let Ok(pass) = lane.cursor.enter() {
                    pass.claimed();
                }
            })
        };
        let goes_on = || -> Result<(), LaneBroken> {
            let mut pass = lane.cursor.enter()?;
            pass.claimed();
            pass.wait_for_reservation()?;
            let mut steps = Vec::new();
            let word = lane.reserve(&mut pass, 0, &mut steps);
            pass.reserved();
            model.store(word, 1);
            pass.finish(steps, |steps| lane.show(&steps));
            Ok(())
        };
        let result = goes_on();
        dies.join().unwrap();
        // Either it came first, or it got the error.
        assert_eq!(u64::from(result.is_ok()), model.lane().header.opened.load(Ordering::Relaxed));
        assert!(lane.cursor.is_broken());
    });
}

#[test]
#[should_panic]
fn loom_the_model_sees_a_thread_that_shows_before_its_turn() {
    bounded(2, || next_to_a_lossless_reader(Rule::ShowsAtOnce, 2, 0));
}

#[test]
#[should_panic]
fn loom_the_model_sees_a_claim_out_of_turn() {
    bounded(2, || next_to_a_lossless_reader(Rule::ClaimsAtOnce, 2, 0));
}

#[test]
#[should_panic]
fn loom_the_model_sees_a_chunk_that_is_given_back_before_the_copy() {
    bounded(2, || next_to_a_lossless_reader(Rule::GivesBackEarly, 3, 0));
}

#[test]
#[should_panic]
fn loom_the_model_sees_a_copy_after_its_end() {
    bounded(2, || next_to_a_lossless_reader(Rule::FinishesEarly, 2, 0));
}
