//! A receive queue as a source.

use super::drivers::Stamps;
use crate::backend::in_driver::WATCH_INTERVAL;
use crate::backend::source_error;
use crate::backend::wait::{self, Sweep, Waiter, Waiting};
use ringside_core::ledger::ByCause;
use ringside_core::limits::{BATCH_FRAMES_MAX, MERGE_HOLD_NS};
use ringside_core::{
    Batch, Cause, FrameMeta, FrameSlot, Source, SourceCounters, SourceError, SourceInterface,
    Timestamp, TimestampKind,
};
use ringside_dpdk::{Port, Queue, Received};
use ringside_filter::Prepared;
use ringside_netdev::Watch;
use ringside_sys::packet::{InterfaceEvent, Promiscuous};
use ringside_sys::{SysError, clock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames between two sleeps: what many cards hold for a queue, and less.
const SWEEP_FRAMES: Sweep = 64..=512;

/// Longest sleep while no frame comes: nothing wakes who polls.
const IDLE_SLEEP: Duration = Duration::from_micros(500);

/// How long libpcap may hold frames back that the kernel has stamped.
const STAMPED_BEFORE_NS: u64 = 100_000_000 + MERGE_HOLD_NS;

/// The interface of the kernel's that a device stands on.
pub(super) struct KernelInterface {
    pub name: String,
    pub watch: Watch,
    pub _promiscuous: Option<Promiscuous>,
}

impl KernelInterface {
    /// What has happened to it, if it receives no more.
    fn event(&self) -> Option<InterfaceEvent> {
        match self.watch.is_up() {
            Ok(Some(false)) => Some(InterfaceEvent::SetDown),
            Ok(None) => Some(InterfaceEvent::Removed),
            Ok(Some(true)) | Err(_) => None,
        }
    }
}

/// What the lanes of a device share.
pub(super) struct Shared {
    pub port: Arc<Port>,
    pub interface: Option<KernelInterface>,
    pub counts_losses: bool,
    /// Nothing came before the start: its frames wait.
    pub plays_files: bool,
    pub stamps: Stamps,
}

/// A lane of one device.
pub(super) struct DpdkSource {
    queue: Polled,
    shared: Arc<Shared>,
    /// The driver's losses are of all queues together: the first lane tells them.
    is_first: bool,
    filter: Option<Prepared>,
    snaplen_bytes: u32,
    /// What is the same for every frame.
    meta: FrameMeta,
    waiter: Waiter,
    waiting: Waiting,
    is_first_batch: bool,
    state: State,
    slots: Vec<FrameSlot>,
    counted: Counted,
    newest: Timestamp,
    low_water: Timestamp,
    watched: Instant,
    described: [SourceInterface; 1],
}

/// What a source is made of.
pub(super) struct Parts {
    pub queue: Queue,
    pub shared: Arc<Shared>,
    pub filter: Option<Prepared>,
    pub snaplen_bytes: u32,
    pub meta: FrameMeta,
    pub waiting: Waiting,
    pub described: SourceInterface,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Live,
    /// Ended, because it was asked for or because of the event; what was taken is still lent.
    Draining(Option<InterfaceEvent>),
    Finished,
}

/// Frames since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Lent or filtered.
    taken: u64,
    filtered: u64,
    inversions: u64,
    /// The driver's count of missed frames at the start.
    missed_before: u64,
    missed: u64,
    /// Taken from the driver by the end, and not yet lent.
    waiting: u64,
}

/// The queue, to be waited for.
struct Polled(Queue);

impl wait::Port for Polled {
    fn is_empty(&mut self) -> bool {
        self.0.waiting() == 0
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        std::thread::sleep(IDLE_SLEEP.min(left));
        Ok(())
    }
}

impl DpdkSource {
    pub fn new(parts: Parts) -> DpdkSource {
        let is_first = parts.meta.queue.0 == 0;
        DpdkSource {
            queue: Polled(parts.queue),
            shared: parts.shared,
            is_first,
            filter: parts.filter,
            snaplen_bytes: parts.snaplen_bytes,
            meta: parts.meta,
            waiter: Waiter::new(parts.waiting, SWEEP_FRAMES),
            waiting: parts.waiting,
            is_first_batch: true,
            state: State::Ready,
            slots: Vec::with_capacity(BATCH_FRAMES_MAX),
            counted: Counted::default(),
            newest: Timestamp(0),
            low_water: Timestamp(0),
            watched: Instant::now(),
            described: [parts.described],
        }
    }

    /// Takes the next frames into the slots, those that the filter accepts; false if none came.
    fn take(&mut self) -> bool {
        self.slots.clear();
        let count = self.queue.0.receive() as u64;
        if count == 0 {
            return false;
        }
        let now = clock::realtime_now();
        let memory = self.queue.0.memory();
        for frame in self.queue.0.frames() {
            let Received { offset, bytes, wire_bytes, hash, .. } = frame;
            let accepts = |filter: &Prepared| {
                let whole = memory.get(offset..).and_then(|rest| rest.get(..bytes as usize));
                whole.is_some_and(|whole| filter.accepts(whole, wire_bytes))
            };
            let timestamp = self.shared.stamps.of(&frame, now);
            self.counted.inversions += u64::from(timestamp < self.newest);
            self.newest = timestamp;
            if self.filter.as_ref().is_none_or(accepts) {
                let meta = FrameMeta { timestamp, wire_bytes, hash, ..self.meta };
                self.slots.push(FrameSlot::new(offset, bytes.min(self.snaplen_bytes), meta));
            }
        }
        self.counted.taken += count;
        self.counted.filtered += count - self.slots.len() as u64;
        self.counted.waiting = self.counted.waiting.saturating_sub(count);
        self.low_water = self.low_water.max(self.newest);
        self.waiter.note_frames(count as u32);
        true
    }

    /// Nothing is there now.
    fn note_empty(&mut self, now: Timestamp) -> Result<(), SourceError> {
        let hold_ns = match self.shared.stamps.kind {
            TimestampKind::Poll => 0,
            _ => STAMPED_BEFORE_NS,
        };
        self.low_water = self.low_water.max(Timestamp(now.0.saturating_sub(hold_ns)));
        let State::Draining(event) = self.state else { return Ok(()) };
        self.state = State::Finished;
        self.low_water = Timestamp::MAX;
        match (event, &self.shared.interface) {
            (Some(event), Some(KernelInterface { name, .. })) => {
                let name = name.clone();
                Err(SourceError::InterfaceGone { name, event: event.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Looks now and then whether the interface that the device stands on is there.
    fn watch(&mut self) {
        if self.state == State::Live && self.watched.elapsed() >= WATCH_INTERVAL {
            self.watched = Instant::now();
            let event = self.shared.interface.as_ref().and_then(KernelInterface::event);
            if event.is_some() {
                self.stop(event);
            }
        }
    }

    /// Ends the supply: what waits is taken now, and nothing that comes later.
    fn stop(&mut self, event: Option<InterfaceEvent>) {
        match self.state {
            State::Ready => {
                self.queue.0.discard();
                self.queue.0.finish();
                self.queue.0.discard();
            }
            State::Live => {
                self.counted.waiting = self.queue.0.finish() as u64;
                self.read_missed();
            }
            State::Draining(_) | State::Finished => return,
        }
        self.state = State::Draining(event);
    }

    /// Reads what the driver missed, which stands still for us once the supply has ended.
    fn read_missed(&mut self) {
        if self.is_first
            && self.state == State::Live
            && let Ok(counters) = self.shared.port.counters()
        {
            self.counted.missed = counters.missed.saturating_sub(self.counted.missed_before);
        }
    }
}

impl Stamps {
    /// The time of a frame that was taken now.
    fn of(&self, frame: &Received, now: Timestamp) -> Timestamp {
        match (self.kind, frame.stamp) {
            (TimestampKind::Poll, _) | (_, None) => now,
            (_, Some(stamp)) => Timestamp(stamp.saturating_mul(self.unit_ns)),
        }
    }
}

impl Source for DpdkSource {
    fn start(&mut self) -> Result<(), SourceError> {
        if self.state == State::Ready {
            // Drivers without a card receive from their opening on.
            if !self.shared.plays_files {
                self.queue.0.discard();
            }
            if let Ok(counters) = self.shared.port.counters() {
                self.counted.missed_before = counters.missed;
            }
            self.state = State::Live;
        }
        Ok(())
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        if std::mem::take(&mut self.is_first_batch) {
            self.waiting.ready_thread();
        }
        let start = Instant::now();
        while self.state != State::Finished {
            let now = clock::realtime_now();
            let came = self.state != State::Ready && self.take();
            if !self.slots.is_empty() && came {
                return Ok(Some(Batch::new(self.queue.0.memory(), &self.slots)));
            }
            if !came {
                self.note_empty(now)?;
            }
            self.watch();
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            if !came && self.state == State::Live {
                self.waiter.wait(&mut self.queue, left).map_err(source_error)?;
            } else if self.state == State::Ready {
                std::thread::sleep(left);
            }
        }
        Ok(None)
    }

    fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.described
    }

    fn counters(&mut self) -> SourceCounters {
        self.read_missed();
        let counted = self.counted;
        let received = counted.taken + counted.waiting + counted.missed;
        let dropped = [(Cause::InterfaceDrop, counted.missed)].into_iter();
        let dropped: ByCause = dropped.filter(|(_, count)| *count > 0).collect();
        SourceCounters {
            received: self.shared.counts_losses.then_some(received),
            filtered: Some(counted.filtered),
            passed: 0,
            dropped,
            in_flight: Some(counted.waiting),
            inversions: counted.inversions,
        }
    }

    fn low_water(&self) -> Timestamp {
        self.low_water
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.stop(None);
        Ok(())
    }
}
