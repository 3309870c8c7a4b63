//! From a source of frames to observers.

use crate::{Ahead, DissectedFrame, Observer, Received};
use ringside_core::limits::DRAIN_MAX;
use ringside_core::{
    Batch, Frame, LaneId, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use std::time::{Duration, Instant};

/// Observers get a tick whenever the time passes a multiple of this, in nanoseconds of stamps:
/// often enough that no record is late for a reader of it, and seldom enough to cost nothing a
/// frame. On fixed times, so that it does not matter how frames came in batches.
pub const TICK_NS: u64 = 100_000_000;

/// How long a source is waited for before the order to stop is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Shows the frames of one stream to observers. A frame is dissected at most once for all of them,
/// and nothing is kept of it.
///
/// [`run`](Pump::run) drains a source. A caller with frames of another kind, as the merge behind a
/// running capture, shows them one by one and advances the time; it is the same.
pub struct Pump<'o> {
    observers: Vec<Box<dyn Observer + 'o>>,
    unknown: SourceInterface,
    /// Time of the last tick.
    ticked: Timestamp,
    seen: Seen,
}

/// Frames that were shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All of them.
    pub frames: u64,
    /// Of these, frames stamped before the last tick.
    pub late: u64,
}

/// What became of a source's frames: `received = seen + passed + filtered + dropped`, as far as the
/// source can count.
#[derive(Debug)]
pub struct Report {
    /// What was shown.
    pub seen: Seen,
    /// What the source counted; frames that it lost are there by cause.
    pub counters: SourceCounters,
    /// Why the source ended before its end.
    pub failure: Option<SourceError>,
}

impl<'o> Pump<'o> {
    /// For these observers, which see each frame in this order.
    pub fn new(observers: Vec<Box<dyn Observer + 'o>>) -> Pump<'o> {
        let unknown = SourceInterface::unknown();
        Pump { observers, unknown, ticked: Timestamp::default(), seen: Seen::default() }
    }

    /// Shows all frames of a source, as those of `lane`, and ends. Once `is_stopped` says so, the
    /// source is detached and its rest is shown; a file, which has no supply to stop, is read to
    /// its end.
    pub fn run(
        mut self,
        source: &mut dyn Source,
        lane: LaneId,
        is_stopped: &dyn Fn() -> bool,
    ) -> Report {
        let failure = self.drain(source, lane, is_stopped).err();
        Report { seen: self.finish(), counters: source.counters(), failure }
    }

    fn drain(
        &mut self,
        source: &mut dyn Source,
        lane: LaneId,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), SourceError> {
        source.start()?;
        let mut interfaces = source.interfaces().to_vec();
        let mut drain_until = None;
        while !source.is_finished() {
            if drain_until.is_none() && is_stopped() {
                source.detach()?;
                drain_until = Some(Instant::now() + DRAIN_MAX);
            }
            if let Some(batch) = source.next_batch(POLL)? {
                if batch.interfaces().len() > interfaces.len() {
                    interfaces = batch.interfaces().to_vec();
                }
                self.show_batch(&batch, &interfaces, lane);
                drain_until = drain_until.map(|_| Instant::now() + DRAIN_MAX);
            } else {
                self.advance(source.low_water());
            }
            // What is left then is in flight, as the source counts it.
            if drain_until.is_some_and(|until| Instant::now() > until) {
                break;
            }
        }
        Ok(())
    }

    /// What was shown so far.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// [Shows](Pump::show) all frames of a batch.
    pub fn show_batch(&mut self, batch: &Batch<'_>, interfaces: &[SourceInterface], lane: LaneId) {
        let frames = batch.frame_count();
        for start in (0..frames).step_by(Ahead::FRAMES_MAX) {
            let range = start..frames.min(start + Ahead::FRAMES_MAX);
            let unknown = &self.unknown;
            let ahead = Ahead { batch, range: range.clone(), interfaces, unknown, lane };
            for observer in &mut self.observers {
                observer.look_ahead(&ahead);
            }
            for frame in batch.range(range) {
                self.show(&frame, interfaces, lane);
            }
        }
    }

    /// Shows the next frame, of one of `interfaces`, after the time if its stamp brings a new one.
    /// A frame of none of them, which is a mistake of its source, has an unknown link type.
    pub fn show(&mut self, frame: &Frame<'_>, interfaces: &[SourceInterface], lane: LaneId) {
        let Frame { bytes, meta } = frame;
        self.advance(meta.timestamp);
        let interface = SourceInterface::of(meta, interfaces).unwrap_or(&self.unknown);
        self.seen.frames += 1;
        // A frame without a stamp has none that could be late.
        let has_stamp = meta.timestamp != Timestamp::default();
        self.seen.late += u64::from(has_stamp && meta.timestamp < self.ticked);
        let dissected = DissectedFrame::new(bytes, meta.wire_bytes, interface.link_type);
        let received = Received { meta, interface, lane };
        for observer in &mut self.observers {
            observer.see(&dissected, &received);
        }
    }

    /// Says that no later frame is stamped before `low_water`, where none comes that would say so.
    /// `Timestamp::MAX` says that none comes at all, which [`finish`](Pump::finish) does.
    pub fn advance(&mut self, low_water: Timestamp) {
        let time = Timestamp(low_water.0 - low_water.0 % TICK_NS);
        if time <= self.ticked || low_water == Timestamp::MAX {
            return;
        }
        self.ticked = time;
        for observer in &mut self.observers {
            observer.tick(time);
        }
    }

    /// Ends all observers.
    pub fn finish(mut self) -> Seen {
        for observer in &mut self.observers {
            observer.finish();
        }
        self.seen
    }
}

#[cfg(test)]
mod tests;
