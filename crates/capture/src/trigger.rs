//! The trigger (`--on`): memory stays full, and only what surrounds a hit goes to the recorder.
//!
//! ```text
//! workers ─ first ring ─ trigger ─ second ring ─ recorder
//! ```
//!
//! One thread is a lossless reader of every lane of the first ring. It looks at each frame once for
//! hits, and keeps the blocks as long as a later hit may reach back to them, or until the memory is
//! needed: then the oldest go. What lies in a window is copied, in lane order, to the lane's second
//! ring, whose recorder knows nothing of triggers. When that recorder is behind, nothing is thrown
//! away here: the first ring fills up, and its worker counts what that costs as `recorder_behind`.

mod windows;

use crate::control::{ConsumerCounts, Control};
use crate::lane::LaneStatus;
use crate::packer::{Offered, Packer, Put, Reading};
use ringside_core::ledger::ByCause;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{Batch, Cause, Consumer, FrameSlot, Timestamp};
use ringside_filter::Prepared;
use ringside_ring::{BlockReader, Board, BoardWriter, CaptureRing, Claim};
use ringside_store::block::{PACKET_DATA_AT, blocks, packet};
use ringside_sys::clock;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use windows::{Decision, Windows};

/// How often quiet lanes are looked at. A hit must be on disk within a second.
const POLL: Duration = Duration::from_millis(5);
/// How often a recorder that is behind is looked at: it frees at most a few blocks meanwhile.
const POLL_BEHIND: Duration = Duration::from_millis(1);
/// The part of each lane's blocks that the trigger leaves to the worker, at least two (one is
/// filled, one is waiting): what comes while the trigger sleeps or is held up.
const PART_LEFT_FREE: usize = 8;

/// When frames are kept.
#[derive(Clone)]
pub struct TriggerConfig {
    /// What a hit is: a filter for each interface of the run, by id.
    pub filters: Vec<Prepared>,
    /// Frames are kept from this long before a hit, as far as the memory reaches back.
    pub before: Duration,
    /// … to this long after it.
    pub after: Duration,
}

/// What a trigger did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerSummary {
    /// Frames that matched.
    pub hits: u64,
    /// Frames that were given up, for want of memory, before the time that `before` asks for was
    /// over.
    pub given_up_early: u64,
}

/// One lane of both rings.
pub(crate) struct TriggerLane {
    lane: usize,
    first: Arc<CaptureRing>,
    reader: BlockReader,
    packer: Packer,
    status: Arc<LaneStatus>,
    held: VecDeque<Held>,
    held_max: usize,
    /// What was looked at of the block after the held ones, which is still open.
    open: Scan,
    /// Where in the oldest block (held, or else the open one) deciding goes on.
    decided: usize,
    /// Every frame stamped before this was looked at, but for inversions of the lane's clock.
    scanned_ns: u64,
    tally: Tally,
    outside: Outside,
    finished: bool,
}

/// A closed block whose frames are not all decided.
struct Held {
    claim: Claim,
    scan: Scan,
}

/// How far a block was looked at, and the stamps that were seen.
#[derive(Clone, Copy)]
struct Scan {
    bytes: usize,
    first_ns: u64,
    last_ns: u64,
}

const NOT_SCANNED: Scan = Scan { bytes: 0, first_ns: u64::MAX, last_ns: 0 };

#[derive(Clone, Copy, Default)]
struct Tally {
    outside: u64,
    given_up_early: u64,
}

/// The frames of a lane that were left out, for who closes the ledger if this process dies.
struct Outside {
    board: BoardWriter,
    frames: u64,
}

impl Outside {
    fn add(&mut self, frames: u64) {
        if frames > 0 {
            self.frames += frames;
            let missed = ByCause::from([(Cause::OutsideTrigger, self.frames)]);
            self.board.publish(&Consumer { missed, ..Consumer::default() }.to_words());
        }
    }
}

/// Why deciding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Everything was decided.
    Done,
    /// A frame must wait for what comes.
    Waiting,
    /// The recorder is behind.
    Stalled,
}

impl TriggerLane {
    pub(crate) fn new(
        lane: usize,
        first: Arc<CaptureRing>,
        reader: BlockReader,
        packer: Packer,
        status: Arc<LaneStatus>,
    ) -> TriggerLane {
        let blocks = first.layout().blocks_per_lane;
        let held_max = (blocks - (blocks / PART_LEFT_FREE).max(2).min(blocks - 1)).max(1);
        let board = first.board_writer(lane, Board::Recorder).expect("the trigger takes it, once");
        TriggerLane {
            lane,
            outside: Outside { board, frames: 0 },
            first,
            reader,
            packer,
            status,
            held: VecDeque::new(),
            held_max,
            open: NOT_SCANNED,
            decided: 0,
            scanned_ns: 0,
            tally: Tally::default(),
            finished: false,
        }
    }

    /// Looks at what was published since, for hits; returns how many there were, and whether there
    /// was anything to look at.
    fn scan(&mut self, filters: &[Prepared], windows: &mut Windows) -> (u64, bool) {
        // In this order: what the low-water time and the end speak of was published before.
        let low_water = self.first.low_water_ns(self.lane);
        let finished = self.reader.is_finished();
        let (mut hits, before) = (0, self.open.bytes);
        let mut progress = false;
        while self.held.len() <= self.held_max
            && let Some(claim) = self.reader.claim(1)
        {
            progress = true;
            let mut scan = std::mem::replace(&mut self.open, NOT_SCANNED);
            hits += scan.look(claim.bytes(), filters, windows);
            self.held.push_back(Held { claim, scan });
            self.scanned_ns = self.scanned_ns.max(scan.last_ns);
            if self.held.len() > self.held_max && !self.make_room(windows) {
                return (hits, progress);
            }
        }
        if let Some(open) = self.reader.open_block() {
            hits += self.open.look(open.bytes, filters, windows);
            self.scanned_ns = self.scanned_ns.max(self.open.last_ns);
        }
        self.scanned_ns = self.scanned_ns.max(low_water);
        self.finished = finished;
        (hits, progress || self.open.bytes != before)
    }

    /// Gives the oldest block up for want of memory. False if the recorder must catch up first.
    fn make_room(&mut self, windows: &Windows) -> bool {
        let Some(held) = self.held.front() else { return true };
        let reading = Reading { counters: self.status.get(), when: clock::realtime_now() };
        let decide = |stamp| match windows.decide(stamp, 0) {
            Decision::Wait => Verdict::GiveUp,
            decision => decision.into(),
        };
        let mut mover = Mover::new(&mut self.packer, &reading, &mut self.tally);
        let stop = mover.decide(held.claim.bytes(), &mut self.decided, decide);
        if stop == Stop::Done {
            self.release_oldest();
        }
        stop == Stop::Done
    }

    /// Decides frame after frame, from the oldest on, until one must wait.
    fn decide(&mut self, windows: &Windows, scanned_ns: u64) -> Stop {
        let reading = Reading { counters: self.status.get(), when: clock::realtime_now() };
        let decide = |stamp| windows.decide(stamp, scanned_ns).into();
        while let Some(held) = self.held.front() {
            let Scan { first_ns, last_ns, .. } = held.scan;
            if self.decided == 0 && windows.discards_all(first_ns, last_ns, scanned_ns) {
                self.tally.outside += held.claim.frames();
                self.release_oldest();
                continue;
            }
            let mut mover = Mover::new(&mut self.packer, &reading, &mut self.tally);
            match mover.decide(held.claim.bytes(), &mut self.decided, decide) {
                Stop::Done => self.release_oldest(),
                stop => return stop,
            }
        }
        let Some(open) = self.reader.open_block() else { return Stop::Done };
        // Not what was published since the scan: it was not looked at yet.
        let bytes = &open.bytes[..self.open.bytes.min(open.bytes.len())];
        let mut mover = Mover::new(&mut self.packer, &reading, &mut self.tally);
        mover.decide(bytes, &mut self.decided, decide)
    }

    fn release_oldest(&mut self) {
        if let Some(held) = self.held.pop_front() {
            self.reader.release(held.claim);
        }
        self.decided = 0;
    }

    /// Ends the second ring's lane. What still waits was decided by the end of the first ring.
    fn finish(self) {
        let reading = Reading { counters: self.status.get(), when: clock::realtime_now() };
        self.packer.finish(&reading);
    }
}

/// A decision, or giving a frame up that had to wait.
enum Verdict {
    Keep,
    Discard,
    Wait,
    GiveUp,
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Verdict {
        match decision {
            Decision::Keep => Verdict::Keep,
            Decision::Discard => Verdict::Discard,
            Decision::Wait => Verdict::Wait,
        }
    }
}

/// Moves frames of one block, in runs, to the second ring.
struct Mover<'t> {
    packer: &'t mut Packer,
    reading: &'t Reading,
    tally: &'t mut Tally,
    /// Frames to keep that were not moved yet, and where the block behind each begins.
    slots: Vec<FrameSlot>,
    ends: Vec<usize>,
}

impl<'t> Mover<'t> {
    fn new(packer: &'t mut Packer, reading: &'t Reading, tally: &'t mut Tally) -> Mover<'t> {
        Mover { packer, reading, tally, slots: Vec::new(), ends: Vec::new() }
    }

    /// Decides the frames of `bytes` from `decided` on.
    fn decide(
        &mut self,
        bytes: &[u8],
        decided: &mut usize,
        decide: impl Fn(u64) -> Verdict,
    ) -> Stop {
        let mut end = *decided;
        for (_, block) in blocks(&bytes[end..]) {
            let start = end;
            end += block.len();
            let Some(frame) = packet(block) else { continue };
            let verdict = decide(frame.meta.timestamp.0);
            if let Verdict::Keep = verdict {
                let length = frame.bytes.len() as u32;
                self.slots.push(FrameSlot::new(start + PACKET_DATA_AT, length, frame.meta));
                self.ends.push(end);
            }
            let is_run = matches!(verdict, Verdict::Keep) && self.slots.len() < BATCH_FRAMES_MAX;
            if !is_run && !self.flush(bytes, decided) {
                return Stop::Stalled;
            }
            match verdict {
                Verdict::Keep => continue,
                Verdict::Wait => {
                    *decided = start;
                    return Stop::Waiting;
                }
                Verdict::Discard => {}
                Verdict::GiveUp => self.tally.given_up_early += 1,
            }
            self.tally.outside += 1;
            *decided = end;
        }
        if !self.flush(bytes, decided) {
            return Stop::Stalled;
        }
        *decided = end;
        Stop::Done
    }

    /// Moves the run; false if the second ring is full.
    fn flush(&mut self, bytes: &[u8], decided: &mut usize) -> bool {
        if self.slots.is_empty() {
            return true;
        }
        let moved = {
            let (batch, mut put) = (Batch::new(bytes, &self.slots), Put::default());
            self.packer.put_while_free(
                &Offered::of(&batch),
                0..self.slots.len(),
                self.reading,
                &mut put,
            )
        };
        if let Some(last) = moved.checked_sub(1) {
            *decided = self.ends[last];
        }
        let all = moved == self.slots.len();
        self.slots.clear();
        self.ends.clear();
        all
    }
}

impl Scan {
    /// Looks at the frames of `bytes` that are new; returns how many are hits.
    fn look(&mut self, bytes: &[u8], filters: &[Prepared], windows: &mut Windows) -> u64 {
        let mut hits = 0;
        for (_, block) in blocks(&bytes[self.bytes..]) {
            self.bytes += block.len();
            let Some(frame) = packet(block) else { continue };
            let stamp = frame.meta.timestamp.0;
            self.first_ns = self.first_ns.min(stamp);
            self.last_ns = self.last_ns.max(stamp);
            let filter = filters.get(frame.meta.interface.0 as usize);
            if filter.is_some_and(|filter| filter.accepts(frame.bytes, frame.meta.wire_bytes)) {
                windows.hit(stamp);
                hits += 1;
            }
        }
        hits
    }
}

/// Moves what surrounds a hit from the first ring to the second. Runs on a thread of its own until
/// all lanes are finished.
pub(crate) struct Trigger {
    pub(crate) lanes: Vec<TriggerLane>,
    pub(crate) config: TriggerConfig,
    pub(crate) counts: Arc<ConsumerCounts>,
    pub(crate) control: Arc<Control>,
}

/// A trigger that dies ends the run: no other thread would see its frames.
struct EndsTheRun(Arc<Control>);

impl Drop for EndsTheRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the trigger died".into());
        }
    }
}

impl Trigger {
    pub(crate) fn run(mut self) -> TriggerSummary {
        let _guard = EndsTheRun(self.control.clone());
        let before_ns = nanos(self.config.before);
        let mut windows = Windows::new(before_ns, nanos(self.config.after));
        let mut summary = TriggerSummary::default();
        loop {
            let (mut progress, mut behind) = (false, false);
            for lane in &mut self.lanes {
                let (hits, some) = lane.scan(&self.config.filters, &mut windows);
                summary.hits += hits;
                progress |= some;
            }
            let ended = self.lanes.iter().all(|lane| lane.finished);
            let scanned_ns = if ended { u64::MAX } else { self.scanned_ns() };
            let mut drained = ended;
            for lane in &mut self.lanes {
                let stop = lane.decide(&windows, scanned_ns);
                drained &= stop == Stop::Done;
                behind |= stop == Stop::Stalled;
                lane.packer.publish(Timestamp(scanned_ns));
                let tally = std::mem::take(&mut lane.tally);
                self.counts.miss(Cause::OutsideTrigger, tally.outside);
                lane.outside.add(tally.outside);
                summary.given_up_early += tally.given_up_early;
            }
            if drained {
                break;
            }
            windows.forget_before(self.undecided_ns());
            if behind {
                sleep(POLL_BEHIND);
            } else if !progress {
                sleep(POLL);
            }
        }
        self.lanes.into_iter().for_each(TriggerLane::finish);
        summary
    }

    /// Every frame of any lane stamped before this was looked at.
    fn scanned_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.scanned_ns).min().unwrap_or(u64::MAX)
    }

    /// No undecided frame is stamped before this.
    fn undecided_ns(&self) -> u64 {
        let oldest = |lane: &TriggerLane| match lane.held.front() {
            Some(held) => held.scan.first_ns,
            None => lane.open.first_ns,
        };
        let held = self.lanes.iter().map(oldest).min().unwrap_or(u64::MAX);
        held.min(self.scanned_ns())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
