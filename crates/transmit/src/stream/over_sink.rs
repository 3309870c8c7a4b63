//! Segments over a sink: chains over payload in place, or frames in one piece.

use super::calls::CallSink;
use super::{BUFFER_BYTES, Segments};
use crate::Error;
use crate::sink::{SinkConfig, XdpSink, put_chained, put_segment};
use crate::wait::{Patience, Until};
use ringside_core::{Sink, SinkCounters, SinkError};
use ringside_segment::{SegPlan, Segment, Segmenter};
use ringside_sys::xsk::CHUNK_BYTES_MAX;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Plans of each way before it is decided: some hundred segments, a fraction of a millisecond.
const TRIES: u32 = 16;

/// How frames are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cutting {
    Chains,
    Copies,
    /// Both in turns, to find the faster: plans sent, and nanoseconds a segment of each.
    Trying {
        plans: u32,
        ns: [f64; 2],
    },
}

impl Cutting {
    pub fn trying() -> Cutting {
        Cutting::Trying { plans: 0, ns: [f64::INFINITY; 2] }
    }
}

/// Bytes of a part of AF_XDP's payload memory, at least: a page less what is before the data.
const PART_BYTES_MIN: usize = 4000;

/// Where a buffer's bytes lie in the payload memory. A piece that crosses a part's border is two,
/// and where the kernel copies, each costs a page: so segments lie side by side in a part as long
/// as whole ones fit, and what is left of it stays empty. Longer ones than a part follow each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    part_bytes: usize,
    /// Bytes of a part that are used.
    used_bytes: usize,
}

impl Layout {
    fn new(mss_bytes: usize, part_bytes: usize) -> Layout {
        let used_bytes = match part_bytes / mss_bytes.max(1) {
            0 => part_bytes,
            whole => whole * mss_bytes,
        };
        Layout { part_bytes, used_bytes }
    }

    /// Buffers side by side, in memory without borders.
    const CONTIGUOUS: Layout = Layout { part_bytes: BUFFER_BYTES, used_bytes: BUFFER_BYTES };

    /// Bytes of one buffer, its gaps included.
    fn buffer_bytes(self) -> usize {
        BUFFER_BYTES.div_ceil(self.used_bytes) * self.part_bytes
    }

    /// Where byte `at` of a buffer lies.
    fn place(self, buffer: usize, at: usize) -> usize {
        let (part, inside) = (at / self.used_bytes, at % self.used_bytes);
        buffer * self.buffer_bytes() + part * self.part_bytes + inside
    }

    /// The memory from the start of a buffer to its byte `bytes`.
    fn range(self, buffer: usize, bytes: usize) -> Range<usize> {
        let start = self.place(buffer, 0);
        let last = self.place(buffer, bytes.saturating_sub(1));
        start..if bytes == 0 { start } else { last + 1 }
    }
}

/// Segments over one sink.
pub(super) struct SinkStream<K> {
    sink: K,
    cutting: Cutting,
    /// What is copied from, where frames are made in one piece.
    memory: Vec<u8>,
    layout: Layout,
    /// Payload that was summed up here, because the kernel has no checksum requests.
    has_offload: bool,
    notes: Vec<String>,
    interface: String,
}

impl SinkStream<XdpSink> {
    /// Over AF_XDP.
    pub fn xdp(
        config: &SinkConfig,
        segmenter: &Segmenter,
        cutting: Cutting,
    ) -> Result<SinkStream<XdpSink>, Error> {
        let mut notes = Vec::new();
        let mss_bytes = segmenter.mss_bytes();
        let buffers = config.payload_bytes / BUFFER_BYTES;
        let room = Layout::new(mss_bytes, PART_BYTES_MIN);
        let parts = room.buffer_bytes() / room.part_bytes;
        let payload_bytes = buffers * parts * CHUNK_BYTES_MAX as usize;
        let sink = XdpSink::open(&SinkConfig { payload_bytes, ..config.clone() }, &mut notes)?;
        let chains = sink.features().chains;
        let layout = Layout::new(mss_bytes, chains.map_or(PART_BYTES_MIN, |it| it.part_bytes));
        SinkStream::over(sink, config, cutting, layout, notes)
    }
}

impl SinkStream<CallSink> {
    /// A system call for each segment.
    pub fn calls(config: &SinkConfig) -> Result<SinkStream<CallSink>, Error> {
        let sink = CallSink::open(config)?;
        SinkStream::over(sink, config, Cutting::Chains, Layout::CONTIGUOUS, Vec::new())
    }
}

impl<K: Sink> SinkStream<K> {
    fn over(
        sink: K,
        config: &SinkConfig,
        cutting: Cutting,
        layout: Layout,
        notes: Vec<String>,
    ) -> Result<SinkStream<K>, Error> {
        let features = sink.features();
        let cutting = match (features.chains, cutting) {
            (None, Cutting::Chains) => return Err(SinkError::lacks(sink.name(), "chains").into()),
            (None, _) => Cutting::Copies,
            (Some(_), cutting) => cutting,
        };
        let memory = match cutting {
            Cutting::Chains => Vec::new(),
            _ => vec![0; config.payload_bytes],
        };
        Ok(SinkStream {
            sink,
            cutting,
            memory,
            layout,
            has_offload: features.checksums,
            notes,
            interface: config.interface.clone(),
        })
    }

    /// Puts a frame of what follows byte `from` of a buffer; waits for room. False if `until` came
    /// before there was some.
    fn put(
        &mut self,
        segment: &Segment<'_>,
        (buffer, from): (usize, usize),
        is_chain: bool,
        until: &Until,
    ) -> Result<bool, Error> {
        let mut patience = Patience::default();
        loop {
            let payload = segment.payload();
            let has_room = match is_chain {
                true => {
                    let place = self.layout.place(buffer, from + payload.start);
                    // The gaps of the layout only add to it.
                    put_chained(&mut self.sink, segment, place - payload.start)?
                }
                false => {
                    let payload = &self.memory[buffer * BUFFER_BYTES + from..];
                    put_segment(&mut self.sink, segment, payload, self.has_offload)?
                }
            };
            if has_room {
                return Ok(true);
            }
            if !patience.goes_on(until, &self.sink.counters(), &self.interface)? {
                return Ok(false);
            }
        }
    }

    /// Notes how long a plan took, and decides when both ways have had their turns.
    fn learn(&mut self, segments: usize, took: Duration) {
        let Cutting::Trying { plans, ns } = &mut self.cutting else { return };
        let best = &mut ns[*plans as usize % 2];
        *best = best.min(took.as_nanos() as f64 / segments.max(1) as f64);
        *plans += 1;
        if *plans < 2 * TRIES {
            return;
        }
        let [chains, copies] = *ns;
        let (cutting, word) = match chains < copies {
            true => (Cutting::Chains, "chains"),
            false => (Cutting::Copies, "copies"),
        };
        self.notes.push(format!(
            "segments go out as {word}: {chains:.0} ns as a chain over the payload, {copies:.0} ns \
             as a copy, measured on the first {plans} plans"
        ));
        self.cutting = cutting;
    }
}

impl<K: Sink> Segments for SinkStream<K> {
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        let own = buffer * BUFFER_BYTES..buffer * BUFFER_BYTES + bytes;
        if self.cutting == Cutting::Copies {
            write(&mut self.memory[own]);
            return Ok(true);
        }
        let (range, used_bytes) = (self.layout.range(buffer, bytes), self.layout.used_bytes);
        if !matches!(self.cutting, Cutting::Trying { .. }) {
            let write = |part: &mut [u8]| {
                let used = part.len().min(used_bytes);
                write(&mut part[..used]);
            };
            return Ok(self.sink.write_payload(range, write)?);
        }
        // Both have it while both are tried.
        let mut copies = &mut self.memory[own];
        Ok(self.sink.write_payload(range, |part| {
            let bytes = part.len().min(used_bytes);
            write(&mut part[..bytes]);
            let (now, later) = std::mem::take(&mut copies).split_at_mut(bytes);
            now.copy_from_slice(&part[..bytes]);
            copies = later;
        })?)
    }

    fn send(
        &mut self,
        buffer: usize,
        from: usize,
        plan: &SegPlan<'_>,
        until: &Until,
    ) -> Result<bool, Error> {
        let start = Instant::now();
        let is_chain = match self.cutting {
            Cutting::Chains => true,
            Cutting::Copies => false,
            Cutting::Trying { plans, .. } => plans % 2 == 0,
        };
        for segment in plan.segments() {
            if !self.put(&segment, (buffer, from), is_chain, until)? {
                return Ok(false);
            }
        }
        if matches!(self.cutting, Cutting::Trying { .. }) {
            self.sink.flush()?;
            self.learn(plan.frame_count(), start.elapsed());
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(self.sink.flush()?)
    }

    fn counters(&mut self) -> SinkCounters {
        self.sink.counters()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<Error>) {
        let (counters, failure) = self.sink.drain(timeout);
        (counters, failure.map(Error::from))
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_a_part_cross_no_border_and_nothing_overlaps() {
        for mss in [1, 536, 1220, 1448, 1460, 4072] {
            let layout = Layout::new(mss, 4072);
            let mut last = 0;
            for buffer in 0..3 {
                for at in (0..BUFFER_BYTES).step_by(mss) {
                    let bytes = mss.min(BUFFER_BYTES - at);
                    let place = layout.place(buffer, at);
                    assert!(place >= last, "{mss}: {place} after {last}");
                    assert_eq!(place / 4072, (place + bytes - 1) / 4072, "{mss}: {at}");
                    last = place + bytes;
                    assert_eq!(layout.range(buffer, at + bytes).end, last);
                }
                assert!(last <= (buffer + 1) * layout.buffer_bytes());
            }
        }
        // Longer segments lie one behind the other.
        let layout = Layout::new(8948, 4072);
        assert_eq!(layout.place(0, 5000), 5000);
        assert_eq!(layout.range(1, 0), layout.buffer_bytes()..layout.buffer_bytes());
    }
}
