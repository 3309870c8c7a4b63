//! A lane as a source.

use super::depth::Depth;
use super::frames::{self, FrameRules, Slots};
use super::kernel_side;
use super::port::SocketPort;
use crate::backend::in_driver::{Interface, Stamping, State, WATCH_INTERVAL, lock};
use crate::backend::source_error;
use crate::backend::wait::{Waiter, Waiting};
use ringside_core::ledger::total;
use ringside_core::limits::MERGE_HOLD_NS;
use ringside_core::profile::{BATCH_CLASSES, batch_class};
use ringside_core::{
    Batch, BatchOwner, Cause, Profile, Source, SourceCounters, SourceError, SourceInterface,
    Timestamp,
};
use ringside_ebpf::capture::QueueCounters;
use ringside_sys::clock;
use ringside_sys::packet::InterfaceEvent;
use ringside_sys::xsk::{Claim, FillRing, LaneArena, RxRing, XskSocket, XskStatistics};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a thread needs to take frames out.
pub(super) struct Supply {
    pub rx: RxRing,
    pub waiter: Waiter,
    pub depth: Depth,
    pub stamping: Stamping,
    pub state: State,
    pub low_water: Timestamp,
    pub watched: Instant,
    /// Batches by size, as in [`Profile`].
    pub batches: [u64; BATCH_CLASSES],
    /// Frames that were lent.
    pub lent: u64,
    /// Frames whose place in the memory was impossible.
    pub damaged: u64,
    /// The kernel's counters as last read.
    pub statistics: XskStatistics,
    pub counted: QueueCounters,
}

/// Where chunks go back.
pub(super) struct FillEnd {
    pub ring: FillRing,
    /// Chunks that went back, and how often some did.
    pub returned: u64,
    pub returns: u64,
}

/// A lane, shared by its handles.
pub(super) struct Lane {
    // The socket goes before the program, which then passes the frames of its queue.
    pub socket: XskSocket,
    pub supply: Mutex<Supply>,
    pub fill: Mutex<FillEnd>,
    pub interface: Arc<Interface>,
    pub queue: u32,
    /// The driver puts frames into our memory itself.
    pub zero_copy: bool,
    pub waiting: Waiting,
    pub rules: FrameRules,
    /// For handles that are still to come.
    pub arenas: Mutex<Vec<LaneArena>>,
    pub described: [SourceInterface; 1],
}

/// A handle on one lane of an interface.
pub struct AfXdpSource {
    held: Held,
    slots: Slots,
    arena: LaneArena,
    is_first_batch: bool,
}

/// What a batch gives back.
struct Held {
    claim: RefCell<Claim>,
    lane: Arc<Lane>,
}

impl BatchOwner for Held {
    fn memory(&self) -> &[u8] {
        self.lane.socket.umem().memory()
    }

    fn give_back(&self) {
        let mut claim = self.claim.borrow_mut();
        if !claim.parts().is_empty() {
            let mut fill = lock(&self.lane.fill);
            fill.returned += u64::from(fill.ring.give_back(&mut claim));
            fill.returns += 1;
            if fill.ring.needs_wakeup() {
                self.lane.socket.kick();
            }
        }
    }
}

impl AfXdpSource {
    /// The first handle on a lane, or another one; `None` if the lane has none left.
    pub(super) fn new(lane: Arc<Lane>) -> Option<AfXdpSource> {
        let arena = lock(&lane.arenas).pop()?;
        let claim = RefCell::new(Claim::new(lane.socket.umem().clone()));
        let held = Held { claim, lane };
        Some(AfXdpSource { held, slots: frames::new_slots(), arena, is_first_batch: true })
    }

    /// The receive queue.
    pub fn queue(&self) -> u32 {
        self.held.lane.queue
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.held.lane
    }

    /// Takes the next frames into the slots; waits up to `timeout` for the first of them.
    fn fill(&mut self, timeout: Duration) -> Result<usize, SourceError> {
        // What a batch that was leaked held.
        self.held.give_back();
        if std::mem::take(&mut self.is_first_batch) {
            self.held.lane.waiting.ready_thread();
        }
        let lane = &self.held.lane;
        let mut supply = lock(&lane.supply);
        let start = Instant::now();
        while !matches!(supply.state, State::Finished) {
            let count = lane.take(&mut supply, &self.held, &mut self.slots, &mut self.arena);
            if count > 0 {
                return Ok(count);
            }
            lane.note_empty(&mut supply)?;
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            lane.wait(&mut supply, left)?;
        }
        Ok(0)
    }
}

impl Lane {
    /// Takes what is in the ring; 0 if nothing is.
    fn take(
        &self,
        supply: &mut Supply,
        held: &Held,
        slots: &mut Slots,
        arena: &mut LaneArena,
    ) -> usize {
        let mut claim = held.claim.borrow_mut();
        let parts = supply.rx.claim(&mut claim);
        let Supply { stamping, damaged, .. } = supply;
        *damaged += claim.take_damaged();
        if parts == 0 {
            return 0;
        }
        let count = frames::collect(&mut claim, &self.rules, stamping, arena, slots, damaged);
        let waiting = parts as u32 + supply.rx.waiting_as_seen();
        supply.lent += count as u64;
        supply.waiter.note_frames(count as u32);
        supply.batches[batch_class(count)] += u64::from(count > 0);
        if supply.depth.note_waiting(waiting, count as u32) {
            lock(&self.fill).ring.set_level(supply.depth.chunks());
        }
        supply.low_water = supply.low_water.max(supply.stamping.newest);
        if count == 0 {
            drop(claim);
            held.give_back();
        }
        count
    }

    /// The ring was found empty.
    fn note_empty(&self, supply: &mut Supply) -> Result<(), SourceError> {
        // What is stamped is in the ring when the round of the NAPI that stamped it ends.
        let idle = Timestamp(clock::realtime_now().0.saturating_sub(MERGE_HOLD_NS));
        supply.low_water = supply.low_water.max(idle);
        if let State::Draining(event) = &supply.state {
            let event = *event;
            supply.state = State::Finished;
            supply.low_water = Timestamp::MAX;
            self.read(supply);
            let lost = total(&kernel_side::dropped(&supply.statistics, self.zero_copy));
            let found = supply.lent + supply.damaged + lost;
            self.interface.check_steered(self.queue, supply.counted.steered, found)?;
            return event.map_or(Ok(()), |event| Err(self.interface.gone(event)));
        }
        Ok(())
    }

    /// Waits for frames, and looks after the interface meanwhile.
    fn wait(&self, supply: &mut Supply, left: Duration) -> Result<(), SourceError> {
        if !matches!(supply.state, State::Draining(_)) && supply.watched.elapsed() >= WATCH_INTERVAL
        {
            supply.watched = Instant::now();
            let event = self.interface.event();
            if event.is_some() {
                return self.stop(supply, event);
            }
            self.interface.look_after_program();
        }
        // A driver that ran out of chunks may have said so after the last of them went back.
        if lock(&self.fill).ring.needs_wakeup() {
            self.socket.kick();
        }
        let Supply { waiter, rx, .. } = supply;
        waiter.wait(&mut SocketPort { socket: &self.socket, rx }, left).map_err(source_error)
    }

    fn stop(&self, supply: &mut Supply, event: Option<InterfaceEvent>) -> Result<(), SourceError> {
        if matches!(supply.state, State::Ready | State::Live) {
            self.interface.stop()?;
            supply.state = State::Draining(event);
        }
        Ok(())
    }

    fn read(&self, supply: &mut Supply) {
        // A time daemon may tell the system only now; then the clock that stamps steps too.
        supply.stamping.tai_offset_ns = clock::tai_offset_ns();
        // Reading fails only on a bad descriptor; then the last values stand.
        if let Ok(statistics) = self.socket.statistics() {
            supply.statistics = statistics;
        }
        if let Some(counted) = self.interface.counters(self.queue) {
            supply.counted = counted;
        }
    }

    fn counters(&self, supply: &mut Supply) -> SourceCounters {
        self.read(supply);
        if supply.depth.note_time(Instant::now()) {
            lock(&self.fill).ring.set_level(supply.depth.chunks());
        }
        let mut dropped = kernel_side::dropped(&supply.statistics, self.zero_copy);
        if supply.damaged > 0 {
            dropped.insert(Cause::Damaged, supply.damaged);
        }
        SourceCounters {
            received: Some(supply.counted.seen),
            filtered: Some(0),
            passed: supply.counted.passed,
            dropped,
            in_flight: Some(supply.rx.frames_waiting()),
            inversions: supply.stamping.inversions,
        }
    }
}

impl Source for AfXdpSource {
    fn start(&mut self) -> Result<(), SourceError> {
        let lane = &self.held.lane;
        let mut supply = lock(&lane.supply);
        if matches!(supply.state, State::Ready) {
            lane.interface.start()?;
            supply.state = State::Live;
        }
        Ok(())
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        match self.fill(timeout)? {
            0 => Ok(None),
            count => Ok(Some(Batch::lent_by(&self.held, &self.slots[..count]))),
        }
    }

    fn is_finished(&self) -> bool {
        matches!(lock(&self.held.lane.supply).state, State::Finished)
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.held.lane.described
    }

    fn counters(&mut self) -> SourceCounters {
        let lane = &self.held.lane;
        lane.counters(&mut lock(&lane.supply))
    }

    fn profile(&self) -> Option<Profile> {
        let lane = &self.held.lane;
        let (supply, fill) = (lock(&lane.supply), lock(&lane.fill));
        Some(Profile {
            waiting: supply.waiter.name().to_owned(),
            batches: supply.batches,
            empty_polls: supply.waiter.empty_polls,
            fill_starved: fill.ring.starved(),
            fill_level: supply.depth.chunks(),
            ring_high_water: supply.rx.high_water(),
            returned: fill.returned,
            returns: fill.returns,
            ..Profile::default()
        })
    }

    fn low_water(&self) -> Timestamp {
        lock(&self.held.lane.supply).low_water
    }

    fn another_handle(&mut self) -> Option<Box<dyn Source>> {
        let handle = AfXdpSource::new(self.held.lane.clone())?;
        Some(Box::new(handle))
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        let lane = &self.held.lane;
        lane.stop(&mut lock(&lane.supply), None)
    }
}
