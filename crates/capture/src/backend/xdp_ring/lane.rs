//! A ring as a source.

use crate::backend::in_driver::{Interface, Stamping, State, WATCH_INTERVAL};
use crate::backend::source_error;
use crate::backend::wait::{Port, Sweep, Waiter, Waiting};
use ringside_core::ledger::ByCause;
use ringside_core::limits::{BATCH_FRAMES_MAX, MERGE_HOLD_NS};
use ringside_core::profile::{BATCH_CLASSES, batch_class};
use ringside_core::{
    Batch, Cause, Direction, FrameMeta, FrameSlot, InterfaceId, Profile, QueueId, Source,
    SourceCounters, SourceError, SourceInterface, Timestamp, TimestampKind,
};
use ringside_ebpf::capture::{CaptureHandles, QueueCounters};
use ringside_sys::packet::InterfaceEvent;
use ringside_sys::xdp_ring::XdpRing;
use ringside_sys::{SysError, clock};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at nothing between two looks at the ring, about a microsecond: each look takes the line
/// with the position away from the program, which writes it for every frame.
const PAUSES: u32 = 64;

/// Frames between two sleeps: small ones fit the second-level cache many times.
const SWEEP_FRAMES: Sweep = 1024..=8192;

/// Longest sleep while no frame comes: nothing wakes a reader of this ring.
const IDLE_SLEEP: Duration = Duration::from_millis(1);

/// A lane of one interface.
pub struct XdpRingSource {
    ring: RingPort,
    interface: Arc<Interface>,
    queue: u32,
    /// What is the same for every frame.
    meta: FrameMeta,
    has_stamps: bool,
    waiting: Waiting,
    waiter: Waiter,
    stamping: Stamping,
    state: State,
    low_water: Timestamp,
    watched: Instant,
    counted: QueueCounters,
    slots: Box<[FrameSlot; BATCH_FRAMES_MAX]>,
    batches: [u64; BATCH_CLASSES],
    /// Frames since the last look at the program's position, and most of any.
    found: u32,
    found_max: u32,
    /// Frames since the start.
    lent: u64,
    is_first_batch: bool,
    described: [SourceInterface; 1],
}

/// What a source is made of.
pub(super) struct Parts {
    pub ring: XdpRing,
    pub interface: Arc<Interface>,
    pub interface_id: InterfaceId,
    pub queue: u32,
    pub has_stamps: bool,
    pub waiting: Waiting,
    pub described: SourceInterface,
}

/// The ring, to be waited for.
struct RingPort(XdpRing);

impl Port for RingPort {
    fn is_empty(&mut self) -> bool {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        self.0.is_empty()
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        std::thread::sleep(IDLE_SLEEP.min(left));
        Ok(())
    }
}

impl XdpRingSource {
    pub(super) fn new(parts: Parts) -> XdpRingSource {
        let meta = FrameMeta {
            timestamp_kind: TimestampKind::Kernel,
            interface: parts.interface_id,
            queue: QueueId(parts.queue as u16),
            direction: Direction::Inbound,
            ..FrameMeta::default()
        };
        let tai_offset_ns = clock::tai_offset_ns();
        XdpRingSource {
            ring: RingPort(parts.ring),
            interface: parts.interface,
            queue: parts.queue,
            meta,
            has_stamps: parts.has_stamps,
            waiting: parts.waiting,
            waiter: Waiter::new(parts.waiting, SWEEP_FRAMES),
            stamping: Stamping { tai_offset_ns, ..Stamping::default() },
            state: State::Ready,
            low_water: Timestamp(0),
            watched: Instant::now(),
            counted: QueueCounters::default(),
            slots: Box::new([FrameSlot::new(0, 0, FrameMeta::default()); BATCH_FRAMES_MAX]),
            batches: [0; BATCH_CLASSES],
            found: 0,
            found_max: 0,
            lent: 0,
            is_first_batch: true,
            described: [parts.described],
        }
    }

    /// The receive queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Where in the ring that begins which was taken last, as [`XdpRing::position`].
    #[cfg(test)]
    pub(super) fn position(&self) -> u64 {
        self.ring.0.position()
    }

    /// Copies of the program's descriptors, with the first lane of its interface, and the counters
    /// that go with the lane's own.
    pub(super) fn handles(&self) -> io::Result<(Option<CaptureHandles>, Range<u32>)> {
        self.interface.handles(self.queue)
    }

    /// Takes the next frames into the slots; waits up to `timeout` for the first of them.
    fn fill(&mut self, timeout: Duration) -> Result<usize, SourceError> {
        if std::mem::take(&mut self.is_first_batch) {
            self.waiting.ready_thread();
        }
        let start = Instant::now();
        while !matches!(self.state, State::Finished) {
            // Who has all that was there waits before the next look: most looks would find one
            // frame, and cost the program more than the frame.
            let has_all = self.found > 0 && !self.ring.0.has_more();
            if has_all && !matches!(self.state, State::Draining(_)) {
                self.found = 0;
                // What was lent goes back before the wait.
                self.ring.0.give_back();
                self.wait(timeout.saturating_sub(start.elapsed()))?;
            }
            let count = self.take();
            if count > 0 {
                return Ok(count);
            }
            self.note_empty()?;
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            self.wait(left)?;
        }
        Ok(0)
    }

    /// Takes what is in the ring; 0 if nothing is.
    fn take(&mut self) -> usize {
        if !self.ring.0.has_more() {
            self.found = 0;
        }
        let XdpRingSource { stamping, slots, meta, has_stamps, .. } = self;
        let count = self.ring.0.take(BATCH_FRAMES_MAX, |index, record| {
            let mut meta = FrameMeta { wire_bytes: record.wire_bytes, ..*meta };
            if *has_stamps {
                meta.timestamp = stamping.utc(record.stamp_tai_ns);
                stamping.note(meta.timestamp);
            }
            slots[index] = FrameSlot::new(record.offset, record.bytes, meta);
        });
        self.lent += count as u64;
        self.waiter.note_frames(count as u32);
        self.batches[batch_class(count)] += u64::from(count > 0);
        self.found = self.found.saturating_add(count as u32);
        self.found_max = self.found_max.max(self.found);
        self.low_water = self.low_water.max(self.stamping.newest);
        count
    }

    /// The ring was found empty.
    fn note_empty(&mut self) -> Result<(), SourceError> {
        self.found = 0;
        // A frame is in the ring a moment after it was stamped.
        let idle = Timestamp(clock::realtime_now().0.saturating_sub(MERGE_HOLD_NS));
        self.low_water = self.low_water.max(idle);
        if let State::Draining(event) = &self.state {
            let event = *event;
            if !self.ring.0.is_empty() {
                // What was left out was damaged.
                return Ok(());
            }
            self.state = State::Finished;
            self.low_water = Timestamp::MAX;
            self.read();
            if self.ring.0.damaged() == 0 {
                let steered = self.counted.steered;
                self.interface.check_steered(self.queue, steered, self.lent)?;
            }
            return event.map_or(Ok(()), |event| Err(self.interface.gone(event)));
        }
        Ok(())
    }

    /// Waits for frames, and looks after the interface meanwhile.
    fn wait(&mut self, left: Duration) -> Result<(), SourceError> {
        if !matches!(self.state, State::Draining(_)) && self.watched.elapsed() >= WATCH_INTERVAL {
            self.watched = Instant::now();
            let event = self.interface.event();
            if event.is_some() {
                return self.stop(event);
            }
            self.interface.look_after_program();
        }
        self.waiter.wait(&mut self.ring, left).map_err(source_error)
    }

    fn read(&mut self) {
        if let Some(counted) = self.interface.counters(self.queue) {
            self.counted = counted;
        }
    }

    /// Frames in the ring that were not lent: what the program has put there, less those, for the
    /// ring has no count of its own; none once it was found empty at the end.
    fn in_flight(&self) -> u64 {
        match self.state {
            State::Finished => 0,
            _ => self.counted.steered.saturating_sub(self.lent),
        }
    }

    fn stop(&mut self, event: Option<InterfaceEvent>) -> Result<(), SourceError> {
        if matches!(self.state, State::Ready | State::Live) {
            self.interface.stop()?;
            self.state = State::Draining(event);
        }
        Ok(())
    }
}

/// Frames that did not get into a lane's ring, by what the program counted.
pub(super) fn dropped(counted: &QueueCounters) -> ByCause {
    let counts =
        [(Cause::KernelRingFull, counted.no_room), (Cause::FrameTooLarge, counted.too_long)];
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl Source for XdpRingSource {
    fn start(&mut self) -> Result<(), SourceError> {
        if matches!(self.state, State::Ready) {
            self.interface.start()?;
            self.state = State::Live;
        }
        Ok(())
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        match self.fill(timeout)? {
            0 => Ok(None),
            count => Ok(Some(Batch::new(self.ring.0.taken(), &self.slots[..count]))),
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.described
    }

    fn counters(&mut self) -> SourceCounters {
        // A time daemon may tell the system only now; then the clock that stamps steps too.
        self.stamping.tai_offset_ns = clock::tai_offset_ns();
        self.read();
        let mut dropped = dropped(&self.counted);
        if self.ring.0.damaged() > 0 && matches!(self.state, State::Finished) {
            // What the ring did not hold any more as it was put there.
            dropped.insert(Cause::Damaged, self.counted.steered.saturating_sub(self.lent));
        }
        SourceCounters {
            received: Some(self.counted.seen),
            filtered: Some(0),
            passed: self.counted.passed,
            dropped,
            in_flight: Some(self.in_flight()),
            inversions: self.stamping.inversions,
        }
    }

    fn profile(&self) -> Option<Profile> {
        let laps = self.ring.0.laps();
        Some(Profile {
            waiting: self.waiter.name().to_owned(),
            batches: self.batches,
            empty_polls: self.waiter.empty_polls,
            ring_high_water: self.found_max,
            laps_back: laps.back,
            laps_ahead: laps.ahead,
            laps_round: laps.round,
            ..Profile::default()
        })
    }

    fn low_water(&self) -> Timestamp {
        self.low_water
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.stop(None)
    }
}
