//! Segmentation between receive and send: frames of a link with a large MTU out on one with a small
//! one.
//!
//! A frame that fits goes as it is. A longer one is cut: TCP into segments, as the kernel's own
//! segmentation makes them; UDP over IPv4 into fragments, where DF does not forbid it. What cannot
//! be cut is refused and counted by cause ([`NotRelayed`]); the sender gets no report of it (no
//! ICMP "fragmentation needed"), because that would take an address.
//!
//! Before a frame is cut its checksums are verified: new ones would hide that it was damaged.
//!
//! [`relay`] moves frames from any source to any sink on the calling thread, and ends with an
//! account of every one ([`RelayReport`]).

mod judge;
mod report;
#[cfg(test)]
mod tests;

pub use report::{NotRelayed, RelayReport};

use crate::Error;
use crate::replay::Ended;
use crate::sink::put_segment;
use crate::wait::{DRAIN, ROOM_WAIT};
use judge::{Fate, Judge};
use ringside_core::{Cause, Frame, LaneCounters, LinkType, Sink, Source, SourceInterface};
use ringside_segment::{Position, Segmenter};
use ringside_wire::checksum::Sum;
use std::time::{Duration, Instant};

/// How long a source may wait for a frame before orders are looked at.
const WAIT: Duration = Duration::from_millis(50);

/// Smallest MTU (RFC 791).
pub const MTU_BYTES_MIN: usize = 68;

/// Which UDP is cut into fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragmenting {
    /// None.
    None,
    /// Over IPv4 without DF, as routers do.
    #[default]
    Ipv4,
    /// Over IPv6 too, as if the sender had done it: routers do not (RFC 8200, section 5).
    All,
}

/// How frames are relayed.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Largest packet of the next link, in bytes: what follows Ethernet and its VLAN tags; at least
    /// [`MTU_BYTES_MIN`]. The sink's longest frame is a limit in addition to it.
    pub mtu_bytes: usize,
    /// Which UDP is cut into fragments.
    pub fragmenting: Fragmenting,
    /// Identification of the first datagram that is cut over IPv6; no host should be able to guess
    /// it (RFC 7739).
    pub fragment_id: u32,
    /// Ends after this number of frames was received.
    pub count: Option<u64>,
    /// Ends after this time.
    pub duration: Option<Duration>,
}

/// Relays until the source ends, a limit is reached or `is_stopped` says so; `shown` gets how far
/// it is, once when frames are received and then after each batch. The source is detached and
/// drained, the sink too; nothing was sent through it before.
///
/// # Errors
/// An MTU outside its limits; the source does not start. What happens later is in the report.
pub fn relay<K: Sink>(
    source: &mut dyn Source,
    sink: &mut K,
    config: &RelayConfig,
    is_stopped: &dyn Fn() -> bool,
    shown: &mut dyn FnMut(&RelayReport),
) -> Result<RelayReport, Error> {
    let limits = MTU_BYTES_MIN..=ringside_segment::MTU_BYTES_MAX;
    if !limits.contains(&config.mtu_bytes) {
        let limit = format!("{} to {}", limits.start(), limits.end());
        let value = config.mtu_bytes as u64;
        return Err(Error::Limit { what: "the MTU of a relay", value, limit });
    }
    let features = sink.features();
    source.start()?;
    let start = Instant::now();
    let mut relay = Relay {
        orders: Orders { start, duration: config.duration, is_stopped, ended: None },
        judge: Judge::new(config, features.frame_bytes_max),
        has_offload: features.checksums,
        fragment_id: config.fragment_id,
        count_left: config.count.unwrap_or(u64::MAX),
        interfaces: Vec::new(),
        is_stuck: false,
        report: RelayReport::default(),
        sink,
    };
    shown(&relay.report);
    relay.run(source, shown);
    let failure;
    (relay.report.sent, failure) = relay.sink.drain(DRAIN);
    relay.fail(failure);
    let mut report = relay.report;
    report.elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    receiving_side(source, &mut report);
    Ok(report)
}

/// What ends a run from outside.
struct Orders<'k> {
    start: Instant,
    duration: Option<Duration>,
    is_stopped: &'k dyn Fn() -> bool,
    /// When a wait for room saw the end first.
    ended: Option<Instant>,
}

impl Orders<'_> {
    /// True once all waits after the end together took as long as one may.
    fn is_long_over(&mut self, now: Instant) -> bool {
        self.end().is_some() && now - *self.ended.get_or_insert(now) >= ROOM_WAIT
    }

    fn end(&self) -> Option<Ended> {
        let is_over = self.duration.is_some_and(|duration| self.start.elapsed() >= duration);
        match () {
            () if (self.is_stopped)() => Some(Ended::Stopped),
            () if is_over => Some(Ended::Time),
            () => None,
        }
    }
}

/// One run.
struct Relay<'k, K> {
    sink: &'k mut K,
    orders: Orders<'k>,
    judge: Judge,
    has_offload: bool,
    fragment_id: u32,
    count_left: u64,
    /// What the source names.
    interfaces: Vec<SourceInterface>,
    /// The last frame found no room in time: the next ones do not wait.
    is_stuck: bool,
    report: RelayReport,
}

impl<K: Sink> Relay<'_, K> {
    /// Takes frames until the source is drained.
    fn run(&mut self, source: &mut dyn Source, shown: &mut dyn FnMut(&RelayReport)) {
        let mut is_ending = false;
        while !source.is_finished() {
            let end = match () {
                () if self.report.failure.is_some() => Some(Ended::Failed),
                () if self.count_left == 0 => Some(Ended::Done),
                () => self.orders.end(),
            };
            if let Some(end) = end.filter(|_| !is_ending) {
                is_ending = true;
                self.report.ended = end;
                if let Err(error) = source.detach() {
                    return self.fail(Some(error));
                }
            }
            // What waits in a file is no loss.
            if is_ending && source.can_wait() {
                return;
            }
            let taken = self.take(source);
            self.fail(taken.err());
            shown(&self.report);
        }
    }

    /// Relays the next batch, if one comes.
    fn take(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        if source.interfaces().len() != self.interfaces.len() {
            self.interfaces = source.interfaces().to_vec();
        }
        let Some(batch) = source.next_batch(WAIT)? else {
            return Ok(self.sink.flush()?);
        };
        for frame in batch.iter() {
            // A file may have named one since.
            let found = batch.interface_of(&frame.meta);
            let found = found.or_else(|_| SourceInterface::of(&frame.meta, &self.interfaces));
            self.frame(&frame, found.map_or(LinkType::UNKNOWN, |interface| interface.link_type));
        }
        drop(batch);
        if self.report.failure.is_none() {
            self.sink.flush()?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>, link: LinkType) {
        let Some(left) = self.count_left.checked_sub(1) else {
            *self.report.lane.dropped.entry(Cause::LimitReached).or_default() += 1;
            return;
        };
        self.count_left = left;
        self.report.received += 1;
        self.report.lane.taken_bytes += frame.bytes.len() as u64;
        let fate = match link {
            _ if self.report.failure.is_some() => Err(NotRelayed::SinkFailed),
            LinkType::ETHERNET => self.judge.fate(frame, self.fragment_id),
            _ => Err(NotRelayed::LinkType),
        };
        match fate {
            Err(cause) => self.report.refuse(cause),
            Ok(Fate::Whole(bytes)) => {
                self.report.whole += 1;
                let bytes = frame.bytes.get(..bytes).unwrap_or(frame.bytes);
                self.offer(|sink| {
                    Ok(sink.put(bytes.len(), None, |slot| slot.copy_from_slice(bytes))?)
                });
            }
            Ok(Fate::Cut(segmenter, payload)) => {
                self.cut(&segmenter, frame.bytes.get(payload).unwrap_or(&[]));
            }
        }
    }

    fn cut(&mut self, segmenter: &Segmenter, payload: &[u8]) {
        // The judge planned the same and found that it can be done.
        let Ok(plan) = segmenter.plan(Position::default(), payload.len()) else {
            return self.report.refuse(NotRelayed::NotDivisible);
        };
        let plan = plan.with_datagram_sum(Sum::new().bytes(payload));
        self.fragment_id = self.fragment_id.wrapping_add(1);
        self.report.cut += 1;
        self.report.segments += plan.frame_count() as u64;
        let has_offload = self.has_offload;
        for segment in plan.segments() {
            self.offer(|sink| put_segment(sink, &segment, payload, has_offload));
        }
    }

    /// Offers one frame, as soon as there is room.
    fn offer(&mut self, mut put: impl FnMut(&mut K) -> Result<bool, Error>) {
        if self.report.failure.is_some() {
            self.report.not_offered += 1;
            return;
        }
        let mut since = None;
        loop {
            let tried = match put(self.sink) {
                Ok(true) => {
                    self.is_stuck = false;
                    self.report.sent.offered += 1;
                    return;
                }
                Ok(false) => self.sink.flush().map_err(Error::from),
                Err(error) => Err(error),
            };
            let now = Instant::now();
            let has_waited = now - *since.get_or_insert(now) >= ROOM_WAIT;
            self.is_stuck |= has_waited || self.orders.is_long_over(now);
            if tried.is_err() || self.is_stuck {
                // A sink that failed may have taken the frame before.
                let offered = self.sink.counters().offered;
                self.report.not_offered += u64::from(offered == self.report.sent.offered);
                self.report.sent.offered = offered;
                return self.fail(tried.err());
            }
            std::thread::yield_now();
        }
    }

    /// Notes the first error.
    fn fail(&mut self, error: Option<impl std::fmt::Display>) {
        if let (Some(error), None) = (error, &self.report.failure) {
            self.report.failure = Some(error.to_string());
            self.report.ended = Ended::Failed;
        }
    }
}

/// What the source counted.
fn receiving_side(source: &mut dyn Source, report: &mut RelayReport) {
    let counters = source.counters();
    // Of a source that was left before its end, it is unknown what else it holds.
    let known = |count: Option<u64>| count.filter(|_| source.is_finished());
    let mut dropped = std::mem::take(&mut report.lane.dropped);
    for (cause, count) in counters.dropped {
        *dropped.entry(cause).or_default() += count;
    }
    report.lane = LaneCounters {
        interface: source.interfaces().first().map_or_else(String::new, |each| each.name.clone()),
        received: known(counters.received),
        taken: report.received,
        taken_bytes: report.lane.taken_bytes,
        passed: counters.passed,
        filtered: known(counters.filtered),
        dropped,
        in_flight: known(counters.in_flight),
        inversions: counters.inversions,
        ..LaneCounters::default()
    };
}
