//! What is of a lane and not of a frame: the order to stop, readings of the counters, the end. Its
//! only thread looks after it between batches; of several whichever has the turn to claim.

use super::{LaneBoard, LaneContext};
use crate::packer::Reading;
use ringside_core::limits::DRAIN_MAX;
use ringside_core::{Cause, LaneCounters, Source, SourceCounters, Timestamp};
use ringside_sys::clock;
use std::time::{Duration, Instant};

/// How often the counters are read for the live view: reading costs system calls.
const READING_INTERVAL: Duration = Duration::from_millis(100);

/// The desk of a lane, for one thread at a time.
pub(crate) struct Desk {
    pub(super) context: LaneContext,
    /// For who closes the ledger if this process dies.
    board: LaneBoard,
    read_at: Option<Instant>,
    rotation: u64,
    drain_until: Option<Instant>,
    is_given_up: bool,
}

impl Desk {
    pub(crate) fn new(context: LaneContext, board: LaneBoard) -> Desk {
        let rotation = context.control.rotation();
        let (read_at, drain_until, is_given_up) = (None, None, false);
        Desk { context, board, read_at, rotation, drain_until, is_given_up }
    }

    /// Obeys the order to stop, and gives a new reading if it is time for one or one `is_wanted`.
    /// `count` makes the lane's ledger of what the source counted.
    pub(super) fn look_after(
        &mut self,
        source: &mut dyn Source,
        is_wanted: bool,
        count: impl FnOnce(&LaneContext, SourceCounters) -> LaneCounters,
    ) -> Option<Reading> {
        if self.drain_until.is_none() && self.context.control.is_stopping() {
            // It reads the kernel's counters, which the next reading adds.
            self.board.begin();
            if let Err(error) = source.detach() {
                self.context.control.fail(error.to_string());
            }
            self.read_at = None;
            self.drain_until = Some(Instant::now() + DRAIN_MAX);
        }
        let is_due = self.read_at.is_none_or(|at| at.elapsed() >= READING_INTERVAL);
        (is_due || is_wanted).then(|| self.read(source, count))
    }

    /// True if no frame will come again, or what is left is given up.
    pub(super) fn is_over(&mut self, source: &dyn Source) -> bool {
        if source.is_finished() {
            return true;
        }
        let is_given_up = self.drain_until.is_some_and(|until| Instant::now() > until);
        if is_given_up && !std::mem::replace(&mut self.is_given_up, true) {
            self.context.control.fail(given_up(&self.context));
        }
        is_given_up
    }

    /// A source that was detached and still has frames is not given up.
    pub(super) fn took_frames(&mut self) {
        if let Some(until) = &mut self.drain_until {
            *until = Instant::now() + DRAIN_MAX;
        }
    }

    /// True once for each period of a timed rotation.
    pub(super) fn is_rotated(&mut self) -> bool {
        let rotation = self.context.control.rotation();
        std::mem::replace(&mut self.rotation, rotation) != rotation
    }

    /// The ledger of the lane now. Frames that were lent and are in no term are in flight.
    pub(super) fn read(
        &mut self,
        source: &mut dyn Source,
        count: impl FnOnce(&LaneContext, SourceCounters) -> LaneCounters,
    ) -> Reading {
        self.board.begin();
        let counted = source.counters();
        let turned_away = turned_away_before(&counted);
        let counters = count(&self.context, counted);
        self.board.publish(&counters, turned_away);
        self.context.status.set(&counters);
        self.context.status.set_profile(source.profile());
        self.read_at = Some(Instant::now());
        Reading { counters, when: now(source) }
    }

    /// The final reading.
    pub(super) fn read_last(
        &mut self,
        source: &mut dyn Source,
        count: impl FnOnce(&LaneContext, SourceCounters) -> LaneCounters,
    ) -> Reading {
        let mut reading = self.read(source, count);
        reading.when = clock::realtime_now();
        reading.counters.note_imbalance();
        reading
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
fn given_up(LaneContext { interface, queue, .. }: &LaneContext) -> String {
    let seconds = DRAIN_MAX.as_secs();
    format!(
        "{interface} queue {queue}: the rest of what was received did not come for {seconds} s and \
         was given up"
    )
}
