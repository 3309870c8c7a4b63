//! A source over what user space looks into for frames: a queue of DPDK's, a ring of PF_RING's
//! or of netmap's. What they have in common is here; each gives a [`Supply`].

use super::in_driver::{WATCH_INTERVAL, refused};
use super::wait::{self, Sweep, Waiter, Waiting};
use super::{BackendError, OpenRequest, find_device, source_error};
use ringside_core::ledger::ByCause;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, Cause, FrameMeta, FrameSlot, Source, SourceCounters, SourceError, SourceInterface,
    Timestamp, TimestampKind,
};
use ringside_filter::Prepared;
use ringside_netdev::{NetDevice, Watch};
use ringside_sys::packet::{InterfaceEvent, Promiscuous};
use ringside_sys::{SysError, clock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames between two sleeps: what many cards hold for a queue, and less.
const SWEEP_FRAMES: Sweep = 64..=512;

/// Where frames are taken from. What is received before its start is thrown away.
pub(super) trait Supply: Send {
    /// Begins.
    ///
    /// # Errors
    /// It cannot.
    fn start(&mut self) -> Result<(), SourceError>;
    /// Takes the next frames, 256 at most, and gives back the last: how many there are.
    ///
    /// # Errors
    /// There will be no more.
    fn receive(&mut self) -> Result<usize, SourceError>;
    /// The frames that were taken last.
    fn frames(&self) -> impl Iterator<Item = Taken> + '_;
    /// The memory that they lie in.
    fn memory(&self) -> &[u8];
    /// True if no frame waits.
    fn is_empty(&mut self) -> bool;
    /// Waits for a frame, at most `left`. It may come back early.
    ///
    /// # Errors
    /// The system refused.
    fn wait(&self, left: Duration) -> Result<(), SysError>;
    /// Ends it: how many of the frames that came before are still to be taken, if that is known.
    /// What comes later is not taken.
    ///
    /// # Errors
    /// As [`receive`](Supply::receive).
    fn finish(&mut self) -> Result<u64, SourceError>;
    /// Frames that were lost since the start, as far as this lane tells them.
    fn missed(&mut self) -> u64;
    /// Looks at what ends nothing and may be said; called a few times a second.
    fn watch(&mut self) {}
}

/// A frame that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Where it begins.
    pub offset: usize,
    /// Bytes of it that are there.
    pub bytes: u32,
    /// Its length.
    pub wire_bytes: u32,
    /// When it came, and who says so; `None` if it is stamped now.
    pub stamp: Option<(Timestamp, TimestampKind)>,
    /// The hash of its flow, by the card.
    pub hash: Option<u32>,
}

/// The interface of the kernel's that a device is, or stands on.
pub(super) struct KernelInterface {
    name: String,
    watch: Watch,
    _promiscuous: Option<Promiscuous>,
}

impl KernelInterface {
    /// Watches it; other stations' frames come too as long as it is there, if asked for.
    pub fn new(device: NetDevice, promiscuous: bool) -> Result<KernelInterface, BackendError> {
        let failed = |error| refused(&device.name, error);
        let watch = Watch::new(device.ifindex).map_err(failed)?;
        // Another library's own way to it might outlive a process that is killed.
        let promiscuous = promiscuous.then(|| Promiscuous::keep(device.ifindex)).transpose();
        let promiscuous = promiscuous.map_err(failed)?;
        Ok(KernelInterface { name: device.name, watch, _promiscuous: promiscuous })
    }

    /// What has happened to it, if it receives no more.
    fn event(&self) -> Option<InterfaceEvent> {
        match self.watch.is_up() {
            Ok(Some(false)) => Some(InterfaceEvent::SetDown),
            Ok(None) => Some(InterfaceEvent::Removed),
            Ok(Some(true)) | Err(_) => None,
        }
    }

    fn gone(&self, event: InterfaceEvent) -> SourceError {
        SourceError::InterfaceGone { name: self.name.clone(), event: event.to_string() }
    }
}

/// The interface of that name, which must be up.
pub(super) fn find_up(name: &str) -> Result<NetDevice, BackendError> {
    let device = find_device(name)?;
    if device.is_up() { Ok(device) } else { Err(BackendError::InterfaceDown { name: device.name }) }
}

/// The filter of a request, which the worker asks.
pub(super) fn filter(request: &OpenRequest) -> Result<Option<Prepared>, BackendError> {
    let Some((program, text)) = &request.filter else { return Ok(None) };
    Prepared::new(program).map(Some).map_err(|error| {
        let (expression, reason) = (text.clone(), error.to_string());
        BackendError::Filter { expression, reason }
    })
}

/// What a source is made of.
pub(super) struct Parts<S> {
    pub supply: S,
    pub interface: Option<Arc<KernelInterface>>,
    /// The cause by which lost frames are counted; `None` if it counts none.
    pub losses: Option<Cause>,
    /// How long a frame may lie somewhere after it was stamped.
    pub hold_ns: u64,
    pub filter: Option<Prepared>,
    pub snaplen_bytes: u32,
    /// What is the same for every frame.
    pub meta: FrameMeta,
    pub waiting: Waiting,
    pub described: SourceInterface,
}

/// A lane of one device.
pub(super) struct PolledSource<S> {
    port: Port<S>,
    interface: Option<Arc<KernelInterface>>,
    losses: Option<Cause>,
    hold_ns: u64,
    filter: Option<Prepared>,
    snaplen_bytes: u32,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Live,
    /// Ended, because it was asked for or because of the event; what was there is still lent.
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
    missed: u64,
    /// There at the end, and not yet lent.
    waiting: u64,
}

/// The supply, to be waited for.
struct Port<S>(S);

impl<S: Supply> wait::Port for Port<S> {
    fn is_empty(&mut self) -> bool {
        self.0.is_empty()
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        self.0.wait(left)
    }
}

impl<S: Supply> PolledSource<S> {
    pub fn new(parts: Parts<S>) -> PolledSource<S> {
        PolledSource {
            port: Port(parts.supply),
            interface: parts.interface,
            losses: parts.losses,
            hold_ns: parts.hold_ns,
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
    fn take(&mut self) -> Result<bool, SourceError> {
        self.slots.clear();
        let count = self.port.0.receive()? as u64;
        if count == 0 {
            return Ok(false);
        }
        let now = clock::realtime_now();
        let memory = self.port.0.memory();
        for frame in self.port.0.frames() {
            let Taken { offset, bytes, wire_bytes, hash, .. } = frame;
            let accepts = |filter: &Prepared| {
                let whole = memory.get(offset..).and_then(|rest| rest.get(..bytes as usize));
                whole.is_some_and(|whole| filter.accepts(whole, wire_bytes))
            };
            let (timestamp, timestamp_kind) = frame.stamp.unwrap_or((now, TimestampKind::Poll));
            self.counted.inversions += u64::from(timestamp < self.newest);
            self.newest = timestamp;
            if self.filter.as_ref().is_none_or(accepts) {
                let meta = FrameMeta { timestamp, timestamp_kind, wire_bytes, hash, ..self.meta };
                self.slots.push(FrameSlot::new(offset, bytes.min(self.snaplen_bytes), meta));
            }
        }
        self.counted.taken += count;
        self.counted.filtered += count - self.slots.len() as u64;
        self.counted.waiting = self.counted.waiting.saturating_sub(count);
        self.low_water = self.low_water.max(self.newest);
        self.waiter.note_frames(count as u32);
        Ok(true)
    }

    /// Nothing is there now.
    fn note_empty(&mut self, now: Timestamp) -> Result<(), SourceError> {
        let settled = Timestamp(now.0.saturating_sub(self.hold_ns));
        self.low_water = self.low_water.max(settled);
        let State::Draining(event) = self.state else { return Ok(()) };
        self.end();
        match (event, &self.interface) {
            (Some(event), Some(interface)) => Err(interface.gone(event)),
            _ => Ok(()),
        }
    }

    fn end(&mut self) {
        self.state = State::Finished;
        self.low_water = Timestamp::MAX;
    }

    /// There will be no more, for a reason that the supply gives.
    fn fail(&mut self, error: SourceError) -> SourceError {
        self.read_missed();
        self.counted.waiting = 0;
        self.end();
        let Some(interface) = &self.interface else { return error };
        match interface.event() {
            Some(event) => interface.gone(event),
            None => error,
        }
    }

    /// Looks now and then whether the interface is there.
    fn watch(&mut self) -> Result<(), SourceError> {
        if self.state == State::Live && self.watched.elapsed() >= WATCH_INTERVAL {
            self.watched = Instant::now();
            self.port.0.watch();
            let event = self.interface.as_ref().and_then(|interface| interface.event());
            if event.is_some() {
                return self.stop(event);
            }
        }
        Ok(())
    }

    /// Ends the supply: what waits is taken, and nothing that comes later.
    fn stop(&mut self, event: Option<InterfaceEvent>) -> Result<(), SourceError> {
        match self.state {
            State::Ready => {
                self.end();
                return Ok(());
            }
            State::Live => match self.port.0.finish() {
                Ok(waiting) => {
                    self.counted.waiting = waiting;
                    self.read_missed();
                }
                Err(error) => return Err(self.fail(error)),
            },
            State::Draining(_) | State::Finished => return Ok(()),
        }
        self.state = State::Draining(event);
        Ok(())
    }

    /// Reads what was lost, which stands still for us once the supply has ended.
    fn read_missed(&mut self) {
        if self.state == State::Live {
            self.counted.missed = self.port.0.missed();
        }
    }
}

impl<S: Supply> Source for PolledSource<S> {
    fn start(&mut self) -> Result<(), SourceError> {
        if self.state == State::Ready {
            self.port.0.start()?;
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
            let came = match self.state {
                State::Ready => false,
                _ => self.take().map_err(|error| self.fail(error))?,
            };
            if !self.slots.is_empty() && came {
                return Ok(Some(Batch::new(self.port.0.memory(), &self.slots)));
            }
            if !came {
                self.note_empty(now)?;
            }
            self.watch()?;
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            if !came && self.state == State::Live {
                self.waiter.wait(&mut self.port, left).map_err(source_error)?;
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
        let dropped = self.losses.map(|cause| (cause, counted.missed)).into_iter();
        let dropped: ByCause = dropped.filter(|(_, count)| *count > 0).collect();
        SourceCounters {
            received: self.losses.map(|_| received),
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
        self.stop(None)
    }
}
