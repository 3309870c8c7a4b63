//! Several threads on one lane: they claim in turn, copy side by side, and are shown in order.
//!
//! All that is of the lane and not of a frame (the order to stop, readings of the counters, the end
//! of a file) is looked at in the turn to claim, by whichever thread has it.

use super::{Chosen, Desk, LaneBoard, LaneContext, POLL, Tally, choose, meter, pin};
use crate::control::ConsumerCounts;
use crate::keep::{Selector, TurnedAway};
use crate::packer::{ClaimedFrames, Done, Offered, Packer, PackerScratch, Reading, SharedPacker};
use crate::start::{RunError, spawn};
use ringside_core::{Batch, Cause, LaneCounters, Padded, Source, SourceCounters};
use ringside_ring::{ClaimTurn, Claimed, LaneBroken, LaneWriter, SharedLane};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// What the threads do with their frames.
pub(crate) enum SharedSink {
    /// Count them where they lie, for the run's meter. The writer, of a ring without blocks, gives
    /// the turns.
    Meter(Box<SharedLane<Done>>, Arc<ConsumerCounts>),
    /// Copy them into the ring.
    Ring(Box<SharedPacker>),
}

impl SharedSink {
    pub(crate) fn meter(writer: LaneWriter, counts: Arc<ConsumerCounts>) -> SharedSink {
        SharedSink::Meter(Box::new(SharedLane::new(writer)), counts)
    }

    pub(crate) fn ring(packer: Packer, threads: usize) -> SharedSink {
        SharedSink::Ring(Box::new(SharedPacker::new(packer, threads)))
    }

    fn enter(&self) -> Result<ClaimTurn<'_, Done>, LaneBroken> {
        match self {
            SharedSink::Meter(lane, _) => lane.enter(),
            SharedSink::Ring(packer) => packer.enter(),
        }
    }
}

/// What the threads of a lane share.
struct LaneShared {
    lane: SharedSetup,
    /// Of the thread that has the turn to claim.
    turns: Padded<Mutex<Turns>>,
    tally: Padded<Mutex<Tally>>,
}

/// A lane and what is to be done with it.
pub(crate) struct SharedSetup {
    pub(crate) sink: SharedSink,
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
pub(crate) struct LaneHandle {
    pub(crate) source: Box<dyn Source>,
    /// Chooses and cuts frames; all are taken as they are without one.
    pub(crate) selector: Option<Selector>,
    pub(crate) thread: usize,
    pub(crate) cpu: Option<usize>,
}

/// One thread of a lane.
struct LaneThread {
    shared: Arc<LaneShared>,
    handle: LaneHandle,
}

/// Starts a thread for each of `handles`, which are the lane's, at least one. The first waits for
/// the others and ends the lane; it returns the final counters. `board` is for who closes the
/// ledger if this process dies.
pub(crate) fn start(
    name: &str,
    lane: SharedSetup,
    board: LaneBoard,
    handles: Vec<LaneHandle>,
) -> Result<JoinHandle<LaneCounters>, RunError> {
    let context = lane.context.clone();
    let shared = Arc::new(LaneShared::new(lane, board));
    let mut workers = handles
        .into_iter()
        .map(|handle| LaneThread { shared: shared.clone(), handle })
        .collect::<Vec<_>>();
    drop(shared);
    let first = workers.remove(0);
    let others = workers
        .into_iter()
        .map(|mut worker| spawn(&format!("{name}.{}", worker.handle.thread), move || worker.run()));
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

impl LaneShared {
    fn new(lane: SharedSetup, board: LaneBoard) -> LaneShared {
        let turns = Turns { desk: Desk::new(lane.context.clone(), board), lent: 0 };
        let tally = Tally { by_thread: vec![0; lane.threads], ..Tally::default() };
        LaneShared { lane, turns: Padded(Mutex::new(turns)), tally: Padded(Mutex::new(tally)) }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One round of a thread.
    fn round(
        &self,
        handle: &mut LaneHandle,
        scratch: &mut PackerScratch,
    ) -> Result<Turn, LaneBroken> {
        let turn = self.lane.sink.enter()?;
        let mut turns = self.turns();
        if self.look_after(&mut turns, &mut *handle.source) {
            drop(turns);
            let nothing = ClaimedFrames::none(handle.source.low_water());
            self.put(turn.claimed(), nothing, scratch)?;
            return Ok(Turn::Over);
        }
        let close_block = turns.desk.is_rotated();
        let LaneHandle { source, selector, thread, .. } = handle;
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
        let (claimed, offered) = if selector.is_none() || self.lane.context.control.is_limited() {
            let offered = self.choose(batch, selector, &mut done);
            drop(turns);
            (turn.claimed(), offered)
        } else {
            drop(turns);
            let claimed = turn.claimed();
            (claimed, self.choose(batch, selector, &mut done))
        };
        self.put(claimed, ClaimedFrames { offered, close_block, low_water, done }, scratch)?;
        Ok(Turn::Done)
    }

    /// The frames of a batch that are to be taken, as many as the run has left.
    fn choose<'b>(
        &self,
        batch: Option<&'b Batch<'_>>,
        selector: &'b mut Option<Selector>,
        done: &mut Done,
    ) -> Option<Offered<'b>> {
        let Some(batch) = batch else {
            selector.iter_mut().for_each(Selector::rest);
            return None;
        };
        let chosen = choose(batch, selector, &self.lane.context.control);
        let Chosen { offered, turned_away: TurnedAway { filtered, by_rule }, limited } = chosen;
        (done.filtered, done.by_rule, done.limited) = (filtered, by_rule, limited);
        Some(offered)
    }

    fn put(
        &self,
        claimed: Claimed<'_, Done>,
        frames: ClaimedFrames<'_>,
        scratch: &mut PackerScratch,
    ) -> Result<(), LaneBroken> {
        let tell = |done: Done| self.tally().add_done(&done);
        match &self.lane.sink {
            SharedSink::Ring(packer) => packer.put(claimed, frames, scratch, tell),
            SharedSink::Meter(_, counts) => {
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
        let is_wanted =
            matches!(&self.lane.sink, SharedSink::Ring(packer) if packer.wants_reading());
        let count = |context: &LaneContext, source| self.count(*lent, context, source);
        let reading = desk.look_after(source, is_wanted, count);
        if let (Some(reading), SharedSink::Ring(packer)) = (reading, &self.lane.sink) {
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
        if let SharedSink::Ring(packer) = self.lane.sink
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

impl LaneThread {
    /// Runs until the source is finished.
    fn run(&mut self) {
        pin(self.handle.cpu);
        let mut scratch = PackerScratch::default();
        loop {
            match self.shared.round(&mut self.handle, &mut scratch) {
                Ok(Turn::Done) => {}
                Ok(Turn::Over) => return,
                Err(broken) => return self.shared.lane.context.control.fail(broken.to_string()),
            }
        }
    }

    /// As [`run`](Self::run), then waits for the other threads and ends the lane; returns its final
    /// counters.
    fn run_with(mut self, others: Vec<JoinHandle<()>>) -> LaneCounters {
        self.run();
        for other in others {
            if other.join().is_err() {
                self.shared.lane.context.control.fail("a thread of a lane died".into());
            }
        }
        let LaneThread { shared, mut handle } = self;
        let status = shared.lane.context.status.clone();
        match Arc::into_inner(shared) {
            Some(shared) => shared.finish(&mut *handle.source),
            None => status.get(),
        }
    }
}
