//! Live frames: a program inside the driver copies headers and payload out of shared memory.

use super::{BUFFER_BYTES, Segments};
use crate::interface::find;
use crate::live::check_reach;
use crate::sink::SinkConfig;
use crate::wait::Until;
use crate::wire::{End, Wire, WireCounters};
use crate::{Error, LIVE_FRAME_BYTES_MAX};
use ringside_core::{Refusal, SinkCounters};
use ringside_ebpf::{LiveSegments, LiveSegmentsConfig};
use ringside_segment::{Checksum, SegPlan, Segmenter};
use ringside_wire::checksum::Sum;
use std::time::{Duration, Instant};

/// How often the counters are looked at while the last frames are under way.
const LOOK: Duration = Duration::from_millis(2);

/// How often they are read while it runs: reading them starts a program (ethtool), and what was
/// sent after the last reading is unknown if the interface vanishes.
const READING: Duration = Duration::from_millis(500);

/// Segments as live frames.
///
/// No call says what the driver took: that is read from its counters, where those of redirected
/// frames are apart (veth), and else from those of all that it sent.
pub(super) struct LiveStream {
    segments: LiveSegments,
    wire: Wire,
    before: WireCounters,
    /// The last good reading, and when.
    last: WireCounters,
    read_at: Instant,
    /// Buffers of which something waits.
    is_waiting: Vec<bool>,
    offered: u64,
    offered_bytes: u64,
    /// Of those, frames that the kernel was given.
    given: u64,
}

impl LiveStream {
    pub fn open(
        config: &SinkConfig,
        segmenter: &Segmenter,
        buffers: usize,
    ) -> Result<LiveStream, Error> {
        let sender = End { namespace: None, interface: config.interface.clone() };
        let wire = Wire { sender, receiver: None };
        let frame_bytes_max = segmenter.frame_bytes_max();
        if frame_bytes_max > LIVE_FRAME_BYTES_MAX {
            return Err(Error::LiveSegments { bytes: frame_bytes_max });
        }
        let ifindex = find(&config.interface)?.ifindex;
        check_reach(&wire, || Error::LiveVanishes { interface: config.interface.clone() })?;
        let segments = LiveSegments::load(&LiveSegmentsConfig {
            ifindex,
            payload_bytes: buffers * BUFFER_BYTES,
            header_bytes_max: segmenter.header_bytes_max(),
            frame_bytes_max,
        })?;
        let before = wire.counters()?;
        Ok(LiveStream {
            segments,
            wire,
            before,
            last: before,
            read_at: Instant::now(),
            is_waiting: vec![false; buffers],
            offered: 0,
            offered_bytes: 0,
            given: 0,
        })
    }

    fn run(&mut self) -> Result<(), Error> {
        self.is_waiting.fill(false);
        // What an error leaves behind is gone.
        self.given = self.offered;
        self.segments.run()?;
        if self.read_at.elapsed() >= READING {
            self.read()?;
            // No call says that the frames were not taken.
            find(&self.wire.sender.interface)?;
        }
        Ok(())
    }

    /// Reads the driver's counters; what was read before stays if they cannot be read.
    fn read(&mut self) -> Result<(), Error> {
        self.last = self.wire.counters()?;
        self.read_at = Instant::now();
        Ok(())
    }

    /// The account by the last reading, and whether it says of every frame what became of it.
    fn account(&self) -> (SinkCounters, bool) {
        let (offered, offered_bytes) = (self.offered, self.offered_bytes);
        let mut counters = SinkCounters { offered, offered_bytes, ..SinkCounters::default() };
        let unmade = u64::from(self.segments.refused()).min(self.given);
        let given = self.given - unmade;
        counters.refuse(Refusal::Other, unmade);
        let (now, before) = (&self.last, &self.before);
        if let (Some(now), Some(before)) = (now.redirected, before.redirected) {
            counters.accepted = now.saturating_sub(before).min(given);
            return (counters, true);
        }
        counters.accepted = now.tx_packets.saturating_sub(before.tx_packets).min(given);
        let is_whole = counters.accepted == given;
        (counters, is_whole)
    }

    /// The account of a stream whose counters cannot be read any more: what is not in the last
    /// reading is unknown, and must not count as sent.
    fn lost(&self, failure: &Error) -> (SinkCounters, Option<Error>) {
        let (mut counters, _) = self.account();
        let frames = counters.in_flight();
        let is_gone = matches!(failure, Error::NoInterface { .. });
        counters.refuse(if is_gone { Refusal::InterfaceGone } else { Refusal::Other }, frames);
        let (interface, reason) = (self.wire.sender.place(), failure.to_string());
        (counters, Some(Error::CountersLost { interface, reason, frames }))
    }
}

impl Segments for LiveStream {
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        if self.is_waiting[buffer] {
            return Ok(false);
        }
        write(&mut self.segments.payload_mut()[buffer * BUFFER_BYTES..][..bytes]);
        Ok(true)
    }

    fn send(
        &mut self,
        buffer: usize,
        from: usize,
        plan: &SegPlan<'_>,
        _until: &Until,
    ) -> Result<bool, Error> {
        for segment in plan.segments() {
            if !self.segments.has_room() {
                self.run()?;
            }
            let part = segment.payload();
            let at = buffer * BUFFER_BYTES + from;
            self.segments.put(at + part.start..at + part.end, |slot, payload| {
                let sum = Checksum::PayloadSum(Sum::new().bytes(payload));
                segment.write_header(slot, sum).map(|written| written.bytes)
            })?;
            self.is_waiting[buffer] = true;
            self.offered += 1;
            self.offered_bytes += segment.frame_bytes() as u64;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.run()
    }

    fn counters(&mut self) -> SinkCounters {
        // A reading that fails is reported by the next call that can tell it.
        let is_read = self.read().is_ok();
        let (mut counters, is_whole) = self.account();
        if is_read && is_whole {
            let waiting = self.offered - self.given;
            counters.refuse(Refusal::NoRoom, counters.in_flight() - waiting);
        }
        counters
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<Error>) {
        let failure = self.run().err();
        let start = Instant::now();
        loop {
            if let Err(failure) = self.read() {
                return self.lost(&failure);
            }
            let (mut counters, is_whole) = self.account();
            if is_whole || start.elapsed() > timeout {
                counters.refuse(Refusal::NoRoom, counters.in_flight());
                return (counters, failure);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}
