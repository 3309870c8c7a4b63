//! Several threads on one lane: they claim in turn, copy side by side, and are shown in order.
//!
//! All that is of the lane and not of a frame (the order to stop, readings of the counters, the end
//! of a file) is looked at in the turn to claim, by whichever thread has it.

use super::{
    LaneBoard, LaneContext, POLL, READING_INTERVAL, Tally, given_up, meter, now, turned_away_before,
};
use crate::control::ConsumerCounts;
use crate::keep::{Chooser, TurnedAway};
use crate::packer::{ClaimedFrames, CrewPacker, Done, Offered, Packer, PackerScratch, Reading};
use crate::run::{RunError, spawn};
use ringside_core::limits::DRAIN_MAX;
use ringside_core::{Batch, Cause, LaneCounters, Padded, Source};
use ringside_sys::ring::{ClaimTurn, Claimed, CrewBroken, LaneCrew, LaneWriter};
use ringside_sys::{clock, thread};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

/// What the threads do with their frames.
pub(crate) enum CrewSink {
    /// Count them where they lie, for the run's meter. The writer, of a ring without blocks, gives
    /// the turns.
    Meter(Box<LaneCrew<Done>>, Arc<ConsumerCounts>),
    /// Copy them into the ring.
    Ring(Box<CrewPacker>),
}

impl CrewSink {
    pub(crate) fn meter(writer: LaneWriter, counts: Arc<ConsumerCounts>) -> CrewSink {
        CrewSink::Meter(Box::new(LaneCrew::new(writer)), counts)
    }

    pub(crate) fn ring(packer: Packer, threads: usize) -> CrewSink {
        CrewSink::Ring(Box::new(CrewPacker::new(packer, threads)))
    }

    fn enter(&self) -> Result<ClaimTurn<'_, Done>, CrewBroken> {
        match self {
            CrewSink::Meter(crew, _) => crew.enter(),
            CrewSink::Ring(packer) => packer.enter(),
        }
    }
}

/// What the threads of a lane share.
struct Crew {
    lane: CrewLane,
    /// Of whoever has the turn to claim.
    desk: Padded<Mutex<Desk>>,
    tally: Padded<Mutex<Tally>>,
}

/// A lane and what is to be done with it.
pub(crate) struct CrewLane {
    pub(crate) sink: CrewSink,
    pub(crate) context: LaneContext,
    pub(crate) snaplen: u32,
    pub(crate) threads: usize,
}

/// What is of the lane and not of a frame.
struct Desk {
    board: LaneBoard,
    read_at: Option<Instant>,
    rotation: u64,
    drain_until: Option<Instant>,
    is_given_up: bool,
    /// Frames that the source lent.
    lent: u64,
}

/// One thread's own part.
pub(crate) struct Hand {
    pub(crate) source: Box<dyn Source>,
    /// Chooses and cuts frames; all are taken as they are without one.
    pub(crate) chooser: Option<Chooser>,
    pub(crate) thread: usize,
    pub(crate) cpu: Option<usize>,
}

/// One thread of a lane.
struct CrewWorker {
    crew: Arc<Crew>,
    hand: Hand,
}

/// Starts a thread for each of `hands`, which are the lane's, at least one. The first waits for the
/// others and ends the lane; it returns the final counters. `board` is for who closes the ledger if
/// this process dies.
pub(crate) fn start(
    name: &str,
    lane: CrewLane,
    board: LaneBoard,
    hands: Vec<Hand>,
) -> Result<JoinHandle<LaneCounters>, RunError> {
    let context = lane.context.clone();
    let crew = Arc::new(Crew::new(lane, board));
    let mut workers =
        hands.into_iter().map(|hand| CrewWorker { crew: crew.clone(), hand }).collect::<Vec<_>>();
    drop(crew);
    let first = workers.remove(0);
    let others = workers
        .into_iter()
        .map(|mut worker| spawn(&format!("{name}.{}", worker.hand.thread), move || worker.run()));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    spawn(name, move || context.run(|| first.run_with(others)))
}

/// What a thread found in its turn.
enum Turn {
    /// Frames, or none for now; the round is done.
    Done,
    /// No frame will come again.
    Over,
}

impl Crew {
    fn new(lane: CrewLane, board: LaneBoard) -> Crew {
        let rotation = lane.context.control.rotation();
        let (read_at, drain_until, is_given_up) = (None, None, false);
        let desk = Desk { board, read_at, rotation, drain_until, is_given_up, lent: 0 };
        let tally = Tally { by_thread: vec![0; lane.threads], ..Tally::default() };
        Crew { lane, desk: Padded(Mutex::new(desk)), tally: Padded(Mutex::new(tally)) }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One round of a thread.
    fn round(&self, hand: &mut Hand, scratch: &mut PackerScratch) -> Result<Turn, CrewBroken> {
        let turn = self.lane.sink.enter()?;
        let mut desk = self.desk();
        let is_over = self.look_after(&mut desk, &mut *hand.source);
        if is_over {
            drop(desk);
            let nothing = ClaimedFrames::none(hand.source.low_water());
            self.put(turn.claimed(), nothing, scratch)?;
            return Ok(Turn::Over);
        }
        let rotation = self.lane.context.control.rotation();
        let close_block = std::mem::replace(&mut desk.rotation, rotation) != rotation;
        let Hand { source, chooser, thread, .. } = hand;
        // Before the claim: it holds for whatever is claimed later, whoever is faster.
        let low_water = source.low_water();
        // Everybody else waits meanwhile, also with the order to stop.
        let wait = POLL / self.lane.threads as u32;
        let batch = source.next_batch(wait).unwrap_or_else(|error| {
            self.lane.context.control.fail(error.to_string());
            None
        });
        if let Some(batch) = &batch {
            desk.took_frames();
            desk.lent += batch.frame_count() as u64;
        }
        let mut done = Done { thread: *thread, ..Done::default() };
        let batch = batch.as_ref();
        // Who looks at each frame lets the others claim meanwhile, unless it matters who of them
        // has the last of a budget.
        let (claimed, offered) = if chooser.is_none() || self.lane.context.control.is_limited() {
            let offered = self.choose(batch, chooser, &mut done);
            drop(desk);
            (turn.claimed(), offered)
        } else {
            drop(desk);
            let claimed = turn.claimed();
            (claimed, self.choose(batch, chooser, &mut done))
        };
        self.put(claimed, ClaimedFrames { offered, close_block, low_water, done }, scratch)?;
        Ok(Turn::Done)
    }

    /// The frames of a batch that are to be taken, as many as the run has left.
    fn choose<'b>(
        &self,
        batch: Option<&'b Batch<'_>>,
        chooser: &'b mut Option<Chooser>,
        done: &mut Done,
    ) -> Option<Offered<'b>> {
        let Some(batch) = batch else {
            chooser.iter_mut().for_each(Chooser::rest);
            return None;
        };
        let offered = match chooser {
            Some(chooser) => {
                let TurnedAway { filtered, by_rule } = chooser.choose(batch);
                (done.filtered, done.by_rule) = (filtered, by_rule);
                chooser.offered(batch)
            }
            None => Offered::of(batch),
        };
        let frames = offered.slots().len() as u64;
        let claimed = self.lane.context.control.claim(frames);
        done.limited = frames - claimed;
        Some(offered.first(claimed as usize))
    }

    fn put(
        &self,
        claimed: Claimed<'_, Done>,
        frames: ClaimedFrames<'_>,
        scratch: &mut PackerScratch,
    ) -> Result<(), CrewBroken> {
        let tell = |done: Done| self.tally().add_done(&done);
        match &self.lane.sink {
            CrewSink::Ring(packer) => packer.put(claimed, frames, scratch, tell),
            CrewSink::Meter(_, counts) => {
                let mut done = frames.done;
                let put = frames.offered.map(|offered| meter(&offered, self.lane.snaplen, counts));
                done.put = put.unwrap_or_default();
                claimed.reserve()?.reserved().finish(frames.low_water.0, done, tell);
                Ok(())
            }
        }
    }

    /// In the turn to claim: obeys orders, reads the counters when it is time. True if no frame
    /// will come again.
    fn look_after(&self, desk: &mut Desk, source: &mut dyn Source) -> bool {
        if desk.drain_until.is_none() && self.lane.context.control.is_stopping() {
            // It reads the kernel's counters, which the next reading adds.
            desk.board.begin();
            if let Err(error) = source.detach() {
                self.lane.context.control.fail(error.to_string());
            }
            desk.read_at = None;
            desk.drain_until = Some(Instant::now() + DRAIN_MAX);
        }
        let is_due = desk.read_at.is_none_or(|at| at.elapsed() >= READING_INTERVAL);
        let is_wanted = matches!(&self.lane.sink, CrewSink::Ring(packer) if packer.wants_reading());
        if is_due || is_wanted {
            let reading = self.read(desk, source);
            desk.read_at = Some(Instant::now());
            if let CrewSink::Ring(packer) = &self.lane.sink {
                packer.set_reading(reading);
            }
        }
        if source.is_finished() {
            return true;
        }
        let is_given_up = desk.drain_until.is_some_and(|until| Instant::now() > until);
        if is_given_up && !std::mem::replace(&mut desk.is_given_up, true) {
            self.lane
                .context
                .control
                .fail(given_up(&self.lane.context.interface, self.lane.context.queue));
        }
        is_given_up
    }

    /// The ledger of the lane now. What was claimed and is not yet shown is in flight.
    fn read(&self, desk: &mut Desk, source: &mut dyn Source) -> Reading {
        desk.board.begin();
        let counted = source.counters();
        let turned_away = turned_away_before(&counted);
        let mut tally = self.tally();
        tally.lent = desk.lent;
        let counters =
            tally.counters(&self.lane.context.interface, self.lane.context.queue, counted);
        drop(tally);
        desk.board.publish(&counters, turned_away);
        self.lane.context.status.set(&counters);
        self.lane.context.status.set_profile(source.profile());
        Reading { counters, when: now(source) }
    }

    /// After the last round of all threads: the final reading, and the end of the lane.
    fn finish(self, source: &mut dyn Source) -> LaneCounters {
        let mut reading = self.read(&mut self.desk(), source);
        reading.when = clock::realtime_now();
        if let CrewSink::Ring(packer) = self.lane.sink
            && let Some(packer) = packer.into_packer()
        {
            packer.finish(&reading);
        }
        reading.counters
    }
}

impl Desk {
    /// A source that was detached and still has frames is not given up.
    fn took_frames(&mut self) {
        if let Some(until) = &mut self.drain_until {
            *until = Instant::now() + DRAIN_MAX;
        }
    }
}

impl Tally {
    fn add_done(&mut self, done: &Done) {
        self.add(&done.put);
        self.turn_away(TurnedAway { filtered: done.filtered, by_rule: done.by_rule });
        self.drop_frames(Cause::LimitReached, done.limited);
        if let Some(taken) = self.by_thread.get_mut(done.thread) {
            *taken += done.put.taken;
        }
    }
}

impl CrewWorker {
    /// Runs until the source is finished.
    fn run(&mut self) {
        if let Some(cpu) = self.hand.cpu
            && let Err(error) = thread::pin_to_cpu(cpu)
        {
            tracing::warn!("{error}; the thread runs where the scheduler puts it");
        }
        let mut scratch = PackerScratch::default();
        loop {
            match self.crew.round(&mut self.hand, &mut scratch) {
                Ok(Turn::Done) => {}
                Ok(Turn::Over) => return,
                Err(broken) => return self.crew.lane.context.control.fail(broken.to_string()),
            }
        }
    }

    /// As [`run`](Self::run), then waits for the other threads and ends the lane; returns its final
    /// counters.
    fn run_with(mut self, others: Vec<JoinHandle<()>>) -> LaneCounters {
        self.run();
        for other in others {
            if other.join().is_err() {
                self.crew.lane.context.control.fail("a thread of a lane died".into());
            }
        }
        let CrewWorker { crew, mut hand } = self;
        let status = crew.lane.context.status.clone();
        match Arc::into_inner(crew) {
            Some(crew) => crew.finish(&mut *hand.source),
            None => status.get(),
        }
    }
}
