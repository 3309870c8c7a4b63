//! The af-packet backend: TPACKET_V3 rings, one lane per fanout member.
//!
//! What the ledger gets (docs/LEDGER.md): `received` is what the filter program saw (without a
//! filter: `tp_packets`), `filtered` is seen minus accepted, dropped `by_rule` is what the
//! pre-filter of rules turned away, dropped by `kernel_ring_full` is `tp_drops`, dropped by
//! `damaged` are frames whose header in the ring was impossible. Once a source is finished these
//! and the frames lent balance exactly.
//!
//! The filter is an eBPF program with counters of its own, because the kernel counts nowhere what
//! a classic filter rejects. Where it cannot be loaded, frames are filtered here, on the whole
//! frame with its tags in place, with the same result and exact counts, only slower.
//!
//! Where rules take few frames and the default drops the rest, a pre-filter stands behind the
//! filter, in the same program: it turns away what no rule can match, before it is copied.

mod description;
pub(crate) mod kernel_side;
mod open;

pub use description::AF_PACKET;
pub use open::{AfPacketConfig, Opened, link_type, open};

use super::{not_read_for, source_error};
use ringside_core::limits::MERGE_HOLD_NS;
use ringside_core::{
    Batch, Cause, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use ringside_ebpf::socket_filter::{FilterCounters, SocketFilter};
use ringside_filter::Prepared;
use ringside_sys::clock;
use ringside_sys::packet::{Filled, FilterProgram, InterfaceEvent, PacketRing, Wakeup};
use std::time::{Duration, Instant};

/// How often the kernel's 32-bit counters are read at least while frames come: at 10 million
/// frames a second they wrap after seven minutes.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// How long a detached source waits, beyond the block time-out and without any progress, for the
/// block that the kernel was filling: a virtual CPU may be stopped for a while.
const DRAIN_MARGIN: Duration = Duration::from_secs(4);

/// One lane of an interface.
pub struct AfPacketSource {
    ring: PacketRing,
    filter: LaneFilter,
    interfaces: [SourceInterface; 1],
    state: State,
    block_timeout_ns: u64,
    snaplen_bytes: u32,
    low_water: Timestamp,
    /// When the newest block was read.
    newest_seen: Timestamp,
    statistics_read: Instant,
    gap_reported: bool,
    /// Stamps are of the interface's clock.
    hardware_stamped: bool,
}

/// Where frames are filtered.
enum LaneFilter {
    None,
    Kernel { filter: SocketFilter, last: FilterCounters },
    User(Prepared),
}

enum State {
    /// Open behind a filter that rejects everything.
    Ready,
    Live,
    /// Detached, because it was asked for or because of `event`. `since` is when a block last came.
    Draining {
        event: Option<InterfaceEvent>,
        since: Instant,
    },
    Finished,
}

impl AfPacketSource {
    fn fill(&mut self) -> Filled {
        match &self.filter {
            LaneFilter::User(program) => self
                .ring
                .fill(Some(&mut |frame| program.accepts(frame.bytes, frame.meta.wire_bytes))),
            _ => self.ring.fill(None),
        }
    }

    /// What follows from a block that was read at `now`.
    fn note_block(&mut self, now: Timestamp) -> Result<(), SourceError> {
        self.newest_seen = now;
        self.raise_low_water(self.ring.newest_stamp());
        if let State::Draining { since, .. } = &mut self.state {
            *since = Instant::now();
        } else if self.statistics_read.elapsed() >= STATISTICS_INTERVAL {
            self.statistics_read = Instant::now();
            self.ring.read_statistics().map_err(source_error)?;
        }
        Ok(())
    }

    /// What follows from the ring having been empty after `now`: whatever was received a block
    /// time-out and a margin ago has been handed over and read.
    fn note_idle(&mut self, now: Timestamp) {
        let hold_ns = self.block_timeout_ns + MERGE_HOLD_NS;
        let newest = self.ring.newest_stamp();
        let clock_now = if self.hardware_stamped && newest > Timestamp(0) {
            // The interface's clock is not ours, but it has gone on as long as ours has.
            newest.saturating_add(now.0.saturating_sub(self.newest_seen.0))
        } else {
            now
        };
        self.raise_low_water(Timestamp(clock_now.0.saturating_sub(hold_ns)));
    }

    fn raise_low_water(&mut self, to: Timestamp) {
        self.low_water = self.low_water.max(to);
    }

    /// Ends the drain if it is over. Only called when the ring was found empty.
    fn finish_if_drained(&mut self) -> Result<bool, SourceError> {
        let State::Draining { event, since } = &self.state else { return Ok(false) };
        let left = self.ring.left_in_ring();
        let wait_max = Duration::from_nanos(self.block_timeout_ns) + DRAIN_MARGIN;
        if !self.ring.is_drained() && since.elapsed() < wait_max {
            return Ok(false);
        }
        let event = *event;
        self.state = State::Finished;
        self.low_water = Timestamp::MAX;
        if left > 0 {
            let context = format!(
                "interface {}: {left} frames that the kernel accepted never came out of its ring",
                self.name()
            );
            let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(SourceError::Io { context, source });
        }
        self.check_filter()?;
        match event {
            Some(event) => Err(SourceError::InterfaceGone {
                name: self.name().to_owned(),
                event: event.to_string(),
            }),
            None => Ok(true),
        }
    }

    /// At the end of a lane: what its filter let through must have come to its socket.
    fn check_filter(&mut self) -> Result<(), SourceError> {
        let received = self.ring.statistics().received;
        let gone_round = self.ring.reading_times().too_long().is_some();
        let LaneFilter::Kernel { filter, last } = &mut self.filter else { return Ok(()) };
        if let Ok(now) = filter.counters() {
            *last = now;
        }
        let FilterCounters { seen, accepted, turned_away, .. } = *last;
        if accepted <= seen && (gone_round || accepted.checked_sub(turned_away) == Some(received)) {
            return Ok(());
        }
        let context = format!(
            "interface {}: the filter counted {seen} frames, {accepted} accepted and of these \
             {turned_away} turned away, of which {received} were found",
            self.name()
        );
        Err(SourceError::Io { context, source: std::io::ErrorKind::InvalidData.into() })
    }

    fn name(&self) -> &str {
        &self.interfaces[0].name
    }

    /// Waits for a block, at most `timeout`.
    fn wait(&mut self, timeout: Duration) -> Result<(), SourceError> {
        match self.ring.wait(timeout) {
            Ok(Wakeup::Ready | Wakeup::TimedOut) => Ok(()),
            Ok(Wakeup::Gone(event)) => self.drain(Some(event)),
            Err(error) => {
                self.state = State::Finished;
                Err(source_error(error))
            }
        }
    }

    fn drain(&mut self, event: Option<InterfaceEvent>) -> Result<(), SourceError> {
        if matches!(self.state, State::Ready | State::Live) {
            self.ring.detach().map_err(source_error)?;
            self.state = State::Draining { event, since: Instant::now() };
        }
        Ok(())
    }
}

impl Source for AfPacketSource {
    fn start(&mut self) -> Result<(), SourceError> {
        if !matches!(self.state, State::Ready) {
            return Ok(());
        }
        let program = match &self.filter {
            LaneFilter::Kernel { filter, .. } => FilterProgram::Ebpf(filter.program()),
            // The filter may look beyond the snapshot length.
            LaneFilter::User(_) => FilterProgram::AcceptAll,
            LaneFilter::None if self.snaplen_bytes < ringside_core::limits::FRAME_BYTES_MAX => {
                FilterProgram::Snaplen(self.snaplen_bytes)
            }
            LaneFilter::None => FilterProgram::AcceptAll,
        };
        self.ring.start(program).map_err(source_error)?;
        self.state = State::Live;
        Ok(())
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let start = Instant::now();
        while !self.is_finished() {
            let now = clock::realtime_now();
            match self.fill() {
                Filled::Frames => {
                    self.note_block(now)?;
                    return Ok(self.ring.lend());
                }
                Filled::Rejected => self.note_block(now)?,
                Filled::Empty => {
                    self.note_idle(now);
                    if self.finish_if_drained()? {
                        return Ok(None);
                    }
                    let left = timeout.saturating_sub(start.elapsed());
                    if !left.is_zero() {
                        self.wait(left)?;
                        continue;
                    }
                }
            }
            if start.elapsed() >= timeout {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        // Reading fails only on a bad descriptor; then the last values stand.
        let _ = self.ring.read_statistics();
        self.statistics_read = Instant::now();
        let (statistics, counts) = (self.ring.statistics(), self.ring.counts());
        let (received, filtered, by_rule) = match &mut self.filter {
            LaneFilter::None => (statistics.received, 0, 0),
            LaneFilter::User(_) => (statistics.received, counts.rejected, 0),
            LaneFilter::Kernel { filter, last } => {
                if let Ok(now) = filter.counters() {
                    *last = now;
                }
                // Of a frame under way it may have counted the one and not yet the other.
                (last.seen, last.seen.saturating_sub(last.accepted), last.turned_away)
            }
        };
        let gone_round = self.ring.reading_times().too_long();
        if let Some(time) = gone_round.filter(|_| !std::mem::replace(&mut self.gap_reported, true))
        {
            tracing::warn!("{}", not_read_for(self.name(), time));
        }
        SourceCounters {
            received: gone_round.is_none().then_some(received),
            filtered: Some(filtered),
            passed: 0,
            dropped: [
                (Cause::KernelRingFull, statistics.dropped),
                (Cause::Damaged, counts.damaged),
                (Cause::ByRule, by_rule),
            ]
            .into_iter()
            .filter(|&(_, count)| count > 0)
            .collect(),
            in_flight: Some(self.ring.waiting()),
            inversions: counts.inversions,
        }
    }

    fn low_water(&self) -> Timestamp {
        self.low_water
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.drain(None)
    }
}

#[cfg(test)]
mod tests;
