//! The worker of a lane: from its source into the ring, or past a meter.
//!
//! [`Worker`] is a lane's only thread; several are in [`threads`].

mod desk;
pub(crate) mod threads;

use crate::control::{ConsumerCounts, Control};
use crate::keep::{Selector, TurnedAway};
use crate::packer::{Cuts, Offered, Packer, Put, Reading};
pub(crate) use desk::Desk;
use ringside_core::ledger::{ByCause, LEDGER_SPARE_AT, Words, add_frames, total};
use ringside_core::limits::DRAIN_MAX;
use ringside_core::profile::LaneProfile;
use ringside_core::{Batch, Cause, LaneCounters, Profile, Source, SourceCounters, SourceError};
use ringside_ring::{Board, BoardWriter, CaptureRing, RingView};
use ringside_store::block::captured_max;
use ringside_sys::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a worker waits for frames before it looks at the order to stop and at its counters.
const POLL: Duration = Duration::from_millis(50);
/// How often a source that can wait looks for room.
const WAIT_FOR_ROOM: Duration = Duration::from_millis(1);

/// The last reading of a lane's counters, for others to see.
#[derive(Default)]
pub(crate) struct LaneStatus {
    counters: Mutex<LaneCounters>,
    profile: Mutex<Option<Profile>>,
}

impl LaneStatus {
    pub(crate) fn get(&self) -> LaneCounters {
        self.counters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn set(&self, counters: &LaneCounters) {
        self.counters.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone_from(counters);
    }

    fn profile(&self) -> Option<Profile> {
        self.profile.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// How lanes are worked on, of those whose backends count that.
    pub(crate) fn profiles(lanes: &[Arc<LaneStatus>]) -> Vec<LaneProfile> {
        let of = |lane: &Arc<LaneStatus>| {
            let profile = lane.profile()?;
            let LaneCounters { interface, queue, .. } = lane.get();
            Some(LaneProfile { interface, queue, profile })
        };
        lanes.iter().filter_map(of).collect()
    }

    fn set_profile(&self, profile: Option<Profile>) {
        *self.profile.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = profile;
    }
}

/// What a lane is called, and where it reports.
#[derive(Clone)]
pub(crate) struct LaneContext {
    pub(crate) interface: String,
    pub(crate) queue: u16,
    pub(crate) status: Arc<LaneStatus>,
    pub(crate) control: Arc<Control>,
    /// The ring that is filled, if there is one, and the number of the lane.
    pub(crate) ring: Option<(Arc<CaptureRing>, usize)>,
}

impl LaneContext {
    /// Runs the lane's worker. One that panics fails the run, like any other thread of it. What it
    /// had put into the ring is taken; what the kernel has counted since is not known.
    pub(crate) fn run(self, worker: impl FnOnce() -> LaneCounters) -> LaneCounters {
        catch_unwind(AssertUnwindSafe(worker)).unwrap_or_else(|_| {
            let LaneContext { interface, queue, status, control, ring } = self;
            control.fail(format!("{interface} queue {queue}: the worker of the lane panicked"));
            let last = status.get();
            let taken = ring.map_or(last.taken, |(ring, lane)| ring.frames(lane));
            let (received, filtered, in_flight) = (None, None, None);
            LaneCounters { interface, queue, received, filtered, in_flight, taken, ..last }
        })
    }
}

/// What a worker does with a frame.
pub(crate) enum LaneSink {
    /// Counts it where it lies: the run's meter.
    Meter(Arc<ConsumerCounts>),
    /// Copies it into the ring.
    Ring(Packer),
}

/// Moves the frames of one source. Runs on a thread of its own until the source is finished.
pub(crate) struct Worker {
    pub(crate) source: Box<dyn Source>,
    pub(crate) desk: Desk,
    pub(crate) sink: LaneSink,
    /// Chooses and cuts frames; all are taken as they are without one.
    pub(crate) selector: Option<Selector>,
    pub(crate) snaplen: u32,
    pub(crate) cpu: Option<usize>,
}

/// The lane's counters in shared memory, as they were last read, and whether they are being read:
/// reading clears the kernel's counters, so if the process died between the two, they are lost.
pub(crate) struct LaneBoard {
    writer: BoardWriter,
    turns_away: bool,
    words: Words,
}

/// What the board says.
pub(crate) struct BoardReading {
    pub(crate) counters: LaneCounters,
    /// The process died while it read the counters: what the kernel reported then is lost.
    pub(crate) is_interrupted: bool,
    /// The process turned frames away itself: how many since the reading is lost.
    pub(crate) turns_away: bool,
    /// Of the frames dropped by rule, those that the kernel turned away and counts.
    pub(crate) turned_away_before: u64,
}

impl LaneBoard {
    /// The words of the ledger that are free for others begin here.
    const READING_AT: usize = LEDGER_SPARE_AT;
    const TURNS_AWAY_AT: usize = LEDGER_SPARE_AT + 1;
    const TURNED_AWAY_BEFORE_AT: usize = LEDGER_SPARE_AT + 2;

    pub(crate) fn new(writer: BoardWriter, turns_away: bool) -> LaneBoard {
        LaneBoard { writer, turns_away, words: LaneCounters::default().to_words() }
    }

    /// What a lane's board says; `None` if the lane was never read.
    pub(crate) fn read(view: &RingView, lane: usize) -> Option<BoardReading> {
        let words: Words = view.read_board(lane, Board::Worker)?;
        let counters = LaneCounters::from_words("", 0, &words);
        Some(BoardReading {
            counters,
            is_interrupted: words[LaneBoard::READING_AT] != 0,
            turns_away: words[LaneBoard::TURNS_AWAY_AT] != 0,
            turned_away_before: words[LaneBoard::TURNED_AWAY_BEFORE_AT],
        })
    }

    /// The kernel is about to be asked.
    fn begin(&mut self) {
        self.words[LaneBoard::READING_AT] = 1;
        self.writer.publish(&self.words);
    }

    /// The kernel's answer; `turned_away_before` frames of its `by_rule` are the source's own
    /// count.
    fn publish(&mut self, counters: &LaneCounters, turned_away_before: u64) {
        self.words = counters.to_words();
        self.words[LaneBoard::TURNS_AWAY_AT] = self.turns_away.into();
        self.words[LaneBoard::TURNED_AWAY_BEFORE_AT] = turned_away_before;
        self.writer.publish(&self.words);
    }
}

/// What the worker itself counts.
#[derive(Default)]
struct Tally {
    /// Frames that the source lent.
    lent: u64,
    taken: u64,
    taken_bytes: u64,
    cuts: Cuts,
    filtered: u64,
    dropped: ByCause,
    /// Of the frames taken, how many each of several threads took.
    by_thread: Vec<u64>,
}

impl Tally {
    /// The lane's ledger, with what the source counted.
    fn counters(&self, context: &LaneContext, source: SourceCounters) -> LaneCounters {
        let mut dropped = source.dropped;
        for (&cause, &count) in &self.dropped {
            add_frames(&mut dropped, cause, count);
        }
        let filtered = source.filtered.map(|filtered| filtered.saturating_add(self.filtered));
        // Of several threads some have frames that they have not shown yet.
        let unshown = self.lent.checked_sub(self.seen());
        let in_flight = source.in_flight.and_then(|frames| frames.checked_add(unshown?));
        LaneCounters {
            interface: context.interface.clone(),
            queue: context.queue,
            received: source.received,
            taken: self.taken,
            taken_bytes: self.taken_bytes,
            cut_frames: self.cuts.frames,
            cut_bytes: self.cuts.bytes,
            passed: source.passed,
            filtered,
            dropped,
            in_flight,
            inversions: source.inversions,
            taken_by_thread: self.by_thread.clone(),
            imbalance: None,
        }
    }

    fn add(&mut self, put: &Put) {
        self.taken += put.taken;
        self.taken_bytes += put.taken_bytes;
        self.cuts.add(put.cuts);
        self.drop_frames(Cause::RecorderBehind, put.recorder_behind);
        self.drop_frames(Cause::FrameTooLarge, put.too_large);
    }

    fn turn_away(&mut self, frames: TurnedAway) {
        self.filtered += frames.filtered;
        self.drop_frames(Cause::ByRule, frames.by_rule);
    }

    /// Frames that came, whatever became of them.
    fn seen(&self) -> u64 {
        self.taken + self.filtered + total(&self.dropped)
    }

    fn drop_frames(&mut self, cause: Cause, frames: u64) {
        add_frames(&mut self.dropped, cause, frames);
    }
}

/// Has a thread of a lane run where it was placed.
fn pin(cpu: Option<usize>) {
    if let Some(cpu) = cpu
        && let Err(error) = thread::pin_to_cpu(cpu)
    {
        tracing::warn!("{error}; the thread runs where the scheduler puts it");
    }
}

/// What becomes of the frames of a batch.
struct Chosen<'b> {
    /// Those that are to be taken.
    offered: Offered<'b>,
    turned_away: TurnedAway,
    /// Frames that are too many, because the run has reached its limit.
    limited: u64,
}

/// The frames of a batch that are to be taken, as many as the run has left.
fn choose<'b>(
    batch: &'b Batch<'_>,
    selector: &'b mut Option<Selector>,
    control: &Control,
) -> Chosen<'b> {
    let (turned_away, offered) = match selector {
        Some(selector) => (selector.choose(batch), selector.offered(batch)),
        None => (TurnedAway::default(), Offered::of(batch)),
    };
    let frames = offered.slots().len() as u64;
    let claimed = control.claim(frames);
    Chosen { offered: offered.first(claimed as usize), turned_away, limited: frames - claimed }
}

impl Worker {
    /// Runs to the end of the source; returns the lane's final counters.
    pub(crate) fn run(mut self) -> LaneCounters {
        pin(self.cpu);
        let mut tally = Tally::default();
        let count = |context: &LaneContext, source| tally.counters(context, source);
        let mut reading = self.desk.read(&mut *self.source, count);
        loop {
            let is_wanted = self.is_block_nearly_full();
            let count = |context: &LaneContext, source| tally.counters(context, source);
            if let Some(new) = self.desk.look_after(&mut *self.source, is_wanted, count) {
                reading = new;
            }
            if self.desk.is_over(&*self.source) {
                return self.finish(&tally);
            }
            if self.desk.is_rotated() {
                self.close_block(&reading);
            }
            if let Err(error) = self.step(&mut tally, &reading) {
                self.desk.context.control.fail(error.to_string());
            }
        }
    }

    /// One batch.
    fn step(&mut self, tally: &mut Tally, reading: &Reading) -> Result<(), SourceError> {
        let can_wait = self.source.can_wait();
        if let Some(batch) = self.source.next_batch(POLL)? {
            tally.lent += batch.frame_count() as u64;
            let chosen = choose(&batch, &mut self.selector, &self.desk.context.control);
            tally.turn_away(chosen.turned_away);
            tally.drop_frames(Cause::LimitReached, chosen.limited);
            let offered = chosen.offered;
            tally.add(&match &mut self.sink {
                LaneSink::Ring(packer) if can_wait => put_patiently(packer, &offered, reading),
                LaneSink::Ring(packer) => packer.put_offered(&offered, reading),
                LaneSink::Meter(counts) => meter(&offered, self.snaplen, counts),
            });
            // Only now: who waited for room was not idle.
            self.desk.took_frames();
        } else {
            self.selector.iter_mut().for_each(Selector::rest);
        }
        if let LaneSink::Ring(packer) = &mut self.sink {
            packer.publish(self.source.low_water());
        }
        Ok(())
    }

    fn is_block_nearly_full(&self) -> bool {
        matches!(&self.sink, LaneSink::Ring(packer) if packer.is_nearly_full())
    }

    fn close_block(&mut self, reading: &Reading) {
        if let LaneSink::Ring(packer) = &mut self.sink {
            packer.close(reading);
        }
    }

    fn finish(mut self, tally: &Tally) -> LaneCounters {
        let count = |context: &LaneContext, source| tally.counters(context, source);
        let reading = self.desk.read_last(&mut *self.source, count);
        if let LaneSink::Ring(packer) = self.sink {
            packer.finish(&reading);
        }
        reading.counters
    }
}

/// Counts frames where they lie, as if they were put under a snapshot length. The meter counts what
/// it sees, and the worker what it took.
fn meter(offered: &Offered<'_>, snaplen: u32, counts: &ConsumerCounts) -> Put {
    let (seen, taken_bytes, cuts) = offered.measure(captured_max(snaplen));
    counts.deliver(seen);
    Put { taken: offered.slots().len() as u64, taken_bytes, cuts, ..Put::default() }
}

/// Puts frames that are not lost by waiting for room.
fn put_patiently(packer: &mut Packer, offered: &Offered<'_>, reading: &Reading) -> Put {
    let count = offered.slots().len();
    let (mut put, mut next) = (Put::default(), 0);
    let mut give_up_at = Instant::now() + DRAIN_MAX;
    loop {
        let before = next;
        next = packer.put_while_free(offered, next..count, reading, &mut put);
        if next == count {
            return put;
        }
        // The consumer frees blocks only of what it has seen.
        packer.show();
        if next > before {
            give_up_at = Instant::now() + DRAIN_MAX;
        } else if Instant::now() > give_up_at {
            put.recorder_behind += (count - next) as u64;
            return put;
        }
        std::thread::sleep(WAIT_FOR_ROOM);
    }
}
