//! Several threads on one lane: they claim in turn, copy side by side, and are shown in order.
//!
//! All that is of the lane and not of a frame (the order to stop, readings of the counters, the end
//! of a file) is looked at in the turn to claim, by whichever thread has it.

use super::{Chosen, Desk, LaneBoard, LaneContext, POLL, Tally, choose, meter, pin};
use crate::control::ConsumerCounts;
use crate::keep::{Chooser, TurnedAway};
use crate::packer::{ClaimedFrames, CrewPacker, Done, Offered, Packer, PackerScratch, Reading};
use crate::start::{RunError, spawn};
use ringside_core::{Batch, Cause, LaneCounters, Padded, Source, SourceCounters};
use ringside_ring::{ClaimTurn, Claimed, CrewBroken, LaneCrew, LaneWriter};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

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
    /// Of the thread that has the turn to claim.
    turns: Padded<Mutex<Turns>>,
    tally: Padded<Mutex<Tally>>,
}

/// A lane and what is to be done with it.
pub(crate) struct CrewLane {
    pub(crate) sink: CrewSink,
    pub(crate) context: LaneContext,
    pub(crate) snaplen: u32,
    pub(crate) threads: usize,
}

/// What the thread that has the turn to claim looks after.
struct Turns {
    desk: Desk,
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
        let turns = Turns { desk: Desk::new(lane.context.clone(), board), lent: 0 };
        let tally = Tally { by_thread: vec![0; lane.threads], ..Tally::default() };
        Crew { lane, turns: Padded(Mutex::new(turns)), tally: Padded(Mutex::new(tally)) }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One round of a thread.
    fn round(&self, hand: &mut Hand, scratch: &mut PackerScratch) -> Result<Turn, CrewBroken> {
        let turn = self.lane.sink.enter()?;
        let mut turns = self.turns();
        if self.look_after(&mut turns, &mut *hand.source) {
            drop(turns);
            let nothing = ClaimedFrames::none(hand.source.low_water());
            self.put(turn.claimed(), nothing, scratch)?;
            return Ok(Turn::Over);
        }
        let close_block = turns.desk.is_rotated();
        let Hand { source, chooser, thread, .. } = hand;
        // Before the claim: it holds for whatever is claimed later, by any thread.
        let low_water = source.low_water();
        // Everybody else waits meanwhile, also with the order to stop.
        let wait = POLL / self.lane.threads as u32;
        let batch = source.next_batch(wait).unwrap_or_else(|error| {
            self.lane.context.control.fail(error.to_string());
            None
        });
        if let Some(batch) = &batch {
            turns.desk.took_frames();
            turns.lent += batch.frame_count() as u64;
        }
        let mut done = Done { thread: *thread, ..Done::default() };
        let batch = batch.as_ref();
        // Who looks at each frame lets the others claim meanwhile, unless it matters who of them
        // has the last of a budget.
        let (claimed, offered) = if chooser.is_none() || self.lane.context.control.is_limited() {
            let offered = self.choose(batch, chooser, &mut done);
            drop(turns);
            (turn.claimed(), offered)
        } else {
            drop(turns);
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
        let chosen = choose(batch, chooser, &self.lane.context.control);
        let Chosen { offered, turned_away: TurnedAway { filtered, by_rule }, limited } = chosen;
        (done.filtered, done.by_rule, done.limited) = (filtered, by_rule, limited);
        Some(offered)
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

    /// In the turn to claim. True if no frame will come again.
    fn look_after(&self, Turns { desk, lent }: &mut Turns, source: &mut dyn Source) -> bool {
        let is_wanted = matches!(&self.lane.sink, CrewSink::Ring(packer) if packer.wants_reading());
        let count = |context: &LaneContext, source| self.count(*lent, context, source);
        let reading = desk.look_after(source, is_wanted, count);
        if let (Some(reading), CrewSink::Ring(packer)) = (reading, &self.lane.sink) {
            packer.set_reading(reading);
        }
        desk.is_over(source)
    }

    /// The ledger of the lane. What was claimed and is not yet shown is in flight.
    fn count(&self, lent: u64, context: &LaneContext, source: SourceCounters) -> LaneCounters {
        let mut tally = self.tally();
        tally.lent = lent;
        tally.counters(context, source)
    }

    fn read_last(&self, source: &mut dyn Source) -> Reading {
        let Turns { desk, lent } = &mut *self.turns();
        desk.read_last(source, |context, source| self.count(*lent, context, source))
    }

    /// After the last round of all threads: the final reading, and the end of the lane.
    fn finish(self, source: &mut dyn Source) -> LaneCounters {
        let reading = self.read_last(source);
        if let CrewSink::Ring(packer) = self.lane.sink
            && let Some(packer) = packer.into_packer()
        {
            packer.finish(&reading);
        }
        reading.counters
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
        pin(self.hand.cpu);
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
