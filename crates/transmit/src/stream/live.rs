//! Live frames: a program inside the driver copies headers and payload out of shared memory.

use super::{BUFFER_BYTES, Segments, device};
use crate::live::live_reaches;
use crate::sink::SinkConfig;
use crate::wire::{End, Wire, WireCounters};
use crate::{Error, LIVE_FRAME_BYTES_MAX};
use ringside_core::{Refusal, SinkCounters};
use ringside_ebpf::{LiveSegments, LiveSegmentsConfig};
use ringside_segment::{Checksum, SegPlan, Segmenter};
use ringside_wire::checksum::Sum;
use std::time::{Duration, Instant};

/// How often the counters are looked at while the last frames are under way.
const LOOK: Duration = Duration::from_millis(2);

/// Segments as live frames.
///
/// No call says what the driver took: that is read from its counters, where those of redirected
/// frames are apart (veth), and else from those of all that it sent.
pub(super) struct LiveStream {
    segments: LiveSegments,
    wire: Wire,
    before: WireCounters,
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
        let ifindex = device(config)?.ifindex;
        if !live_reaches(&wire)? {
            return Err(Error::LiveVanishes { interface: config.interface.clone() });
        }
        let segments = LiveSegments::load(&LiveSegmentsConfig {
            ifindex,
            payload_bytes: buffers * BUFFER_BYTES,
            header_bytes_max: segmenter.header_bytes_max(),
            frame_bytes_max,
        })?;
        let before = wire.counters()?;
        let is_waiting = vec![false; buffers];
        let (offered, offered_bytes, given) = (0, 0, 0);
        Ok(LiveStream { segments, wire, before, is_waiting, offered, offered_bytes, given })
    }

    fn run(&mut self) -> Result<(), Error> {
        self.is_waiting.fill(false);
        // What an error leaves behind is gone.
        self.given = self.offered;
        self.segments.run()?;
        Ok(())
    }

    /// The account, if the driver's counters can be read, and whether they say of every frame what
    /// became of it.
    fn account(&self) -> (SinkCounters, bool) {
        let (offered, offered_bytes) = (self.offered, self.offered_bytes);
        let mut counters = SinkCounters { offered, offered_bytes, ..SinkCounters::default() };
        let unmade = u64::from(self.segments.refused()).min(self.given);
        let given = self.given - unmade;
        counters.refuse(Refusal::Other, unmade);
        let Ok(now) = self.wire.counters() else { return (counters, true) };
        let before = &self.before;
        if let (Some(now), Some(before)) = (now.redirected, before.redirected) {
            counters.accepted = now.saturating_sub(before).min(given);
            counters.refuse(Refusal::NoRoom, given - counters.accepted);
            return (counters, true);
        }
        counters.accepted = now.tx_packets.saturating_sub(before.tx_packets).min(given);
        let is_whole = counters.accepted == given;
        (counters, is_whole)
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

    fn send(&mut self, buffer: usize, from: usize, plan: &SegPlan<'_>) -> Result<(), Error> {
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
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.run()
    }

    fn counters(&mut self) -> SinkCounters {
        self.account().0
    }

    fn drain(&mut self, timeout: Duration) -> SinkCounters {
        // An error shows in the account: the frames were not taken.
        let _ = self.run();
        let start = Instant::now();
        loop {
            let (mut counters, is_whole) = self.account();
            if is_whole || start.elapsed() > timeout {
                counters.refuse(Refusal::NoRoom, counters.in_flight());
                return counters;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}
