//! The worker of a lane: from its source into the ring, or past a meter.
//!
//! [`Worker`] is a lane's only thread; several are a [`crew`].

pub(crate) mod crew;

use crate::control::{ConsumerCounts, Control};
use crate::keep::{Chooser, TurnedAway};
use crate::packer::{Cuts, Offered, Packer, Put, Reading};
use ringside_core::ledger::{ByCause, LEDGER_SPARE_AT, Words, add_frames, total};
use ringside_core::limits::DRAIN_MAX;
use ringside_core::profile::LaneProfile;
use ringside_core::{Cause, LaneCounters, Profile, Source, SourceCounters, SourceError, Timestamp};
use ringside_store::block::captured_max;
use ringside_sys::ring::{Board, BoardWriter, CaptureRing, RingView};
use ringside_sys::{clock, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a worker waits for frames before it looks at the order to stop and at its counters.
const POLL: Duration = Duration::from_millis(50);
/// How often the counters are read for the live view: reading costs system calls.
const READING_INTERVAL: Duration = Duration::from_millis(100);
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
    /// Runs the lane's worker. One that panics fails the run, like any other thread of it; what it
    /// had put into the ring is taken, and what the kernel has counted since nobody knows.
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
    pub(crate) context: LaneContext,
    pub(crate) sink: LaneSink,
    /// Chooses and cuts frames; all are taken as they are without one.
    pub(crate) chooser: Option<Chooser>,
    pub(crate) snaplen: u32,
    pub(crate) cpu: Option<usize>,
    /// For who closes the ledger if this process dies.
    pub(crate) board: LaneBoard,
}

/// The lane's counters in shared memory, as they were last read, and whether they are being read:
/// the kernel forgets what it told, so of a process that died between the two nobody knows.
pub(crate) struct LaneBoard {
    writer: BoardWriter,
    turns_away: bool,
    words: Words,
}

/// What the board says.
pub(crate) struct BoardReading {
    pub(crate) counters: LaneCounters,
    /// The process died while it read the counters: what the kernel told it then is lost.
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

    /// This is what it said; of `by_rule` the source itself has so many.
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
    fn counters(&self, interface: &str, queue: u16, source: SourceCounters) -> LaneCounters {
        let mut dropped = source.dropped;
        for (&cause, &count) in &self.dropped {
            add_frames(&mut dropped, cause, count);
        }
        let filtered = source.filtered.map(|filtered| filtered.saturating_add(self.filtered));
        // Of several threads some have frames that they have not shown yet.
        let unshown = self.lent.checked_sub(self.seen());
        let in_flight = source.in_flight.and_then(|frames| frames.checked_add(unshown?));
        LaneCounters {
            interface: interface.to_owned(),
            queue,
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

impl Worker {
    /// Runs to the end of the source; returns the lane's final counters.
    pub(crate) fn run(mut self) -> LaneCounters {
        if let Some(cpu) = self.cpu
            && let Err(error) = thread::pin_to_cpu(cpu)
        {
            tracing::warn!("{error}; the worker runs where the scheduler puts it");
        }
        let mut tally = Tally::default();
        let mut reading = self.read(&tally);
        let mut read_at = Instant::now();
        let mut rotation = self.context.control.rotation();
        let mut drain_until = None;
        while !self.source.is_finished() {
            if drain_until.is_none() && self.context.control.is_stopping() {
                self.detach();
                reading = self.read(&tally);
                drain_until = Some(Instant::now() + DRAIN_MAX);
            }
            if drain_until.is_some_and(|until| Instant::now() > until) {
                self.context.control.fail(given_up(&self.context.interface, self.context.queue));
                break;
            }
            if read_at.elapsed() >= READING_INTERVAL || self.is_block_nearly_full() {
                reading = self.read(&tally);
                read_at = Instant::now();
            }
            let seen = tally.seen();
            if let Err(error) = self.step(&mut tally, &reading) {
                self.context.control.fail(error.to_string());
            }
            if drain_until.is_some() && tally.seen() > seen {
                drain_until = Some(Instant::now() + DRAIN_MAX);
            }
            if rotation != self.context.control.rotation() {
                rotation = self.context.control.rotation();
                self.close_block(&reading);
            }
        }
        self.finish(&tally)
    }

    /// One batch.
    fn step(&mut self, tally: &mut Tally, reading: &Reading) -> Result<(), SourceError> {
        let can_wait = self.source.can_wait();
        if let Some(batch) = self.source.next_batch(POLL)? {
            tally.lent += batch.frame_count() as u64;
            let offered = match &mut self.chooser {
                Some(chooser) => {
                    tally.turn_away(chooser.choose(&batch));
                    chooser.offered(&batch)
                }
                None => Offered::of(&batch),
            };
            let frames = offered.slots().len() as u64;
            let claimed = self.context.control.claim(frames);
            tally.drop_frames(Cause::LimitReached, frames - claimed);
            let offered = offered.first(claimed as usize);
            tally.add(&match &mut self.sink {
                LaneSink::Ring(packer) if can_wait => put_patiently(packer, &offered, reading),
                LaneSink::Ring(packer) => packer.put_offered(&offered, reading),
                LaneSink::Meter(counts) => meter(&offered, self.snaplen, counts),
            });
        } else {
            self.chooser.iter_mut().for_each(Chooser::rest);
        }
        if let LaneSink::Ring(packer) = &mut self.sink {
            packer.publish(self.source.low_water());
        }
        Ok(())
    }

    fn detach(&mut self) {
        // It reads the kernel's counters, which the next reading adds.
        self.board.begin();
        if let Err(error) = self.source.detach() {
            self.context.control.fail(error.to_string());
        }
    }

    fn is_block_nearly_full(&self) -> bool {
        matches!(&self.sink, LaneSink::Ring(packer) if packer.is_nearly_full())
    }

    fn close_block(&mut self, reading: &Reading) {
        if let LaneSink::Ring(packer) = &mut self.sink {
            packer.close(reading);
        }
    }

    /// The ledger of the lane now. Called between batches, so that every frame that was lent is
    /// in the tally and what is left over is in flight.
    fn read(&mut self, tally: &Tally) -> Reading {
        self.board.begin();
        let source = self.source.counters();
        let turned_away = turned_away_before(&source);
        let counters = tally.counters(&self.context.interface, self.context.queue, source);
        self.board.publish(&counters, turned_away);
        self.context.status.set(&counters);
        self.context.status.set_profile(self.source.profile());
        Reading { counters, when: now(&*self.source) }
    }

    fn finish(mut self, tally: &Tally) -> LaneCounters {
        let mut reading = self.read(tally);
        reading.when = clock::realtime_now();
        if let LaneSink::Ring(packer) = self.sink {
            packer.finish(&reading);
        }
        reading.counters
    }
}

/// Frames that a source dropped for the rules, before they were lent.
fn turned_away_before(source: &SourceCounters) -> u64 {
    source.dropped.get(&Cause::ByRule).copied().unwrap_or(0)
}

/// The time of a reading, in the clock of the stamps.
fn now(source: &dyn Source) -> Timestamp {
    match source.low_water() {
        Timestamp::MAX => clock::realtime_now(),
        low_water => low_water,
    }
}

/// What a lane says that still has frames, or cannot say that it has none, long after its end.
fn given_up(interface: &str, queue: u16) -> String {
    let seconds = DRAIN_MAX.as_secs();
    format!(
        "{interface} queue {queue}: the rest of what was received did not come for {seconds} s and \
         was given up"
    )
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
