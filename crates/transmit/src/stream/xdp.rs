//! AF_XDP: chains over payload in place, or frames in one piece.

use super::{BUFFER_BYTES, Segments};
use crate::Error;
use crate::sink::{SinkConfig, XdpSink, put_segment, request};
use ringside_core::{Sink, SinkCounters, SinkError};
use ringside_segment::{Checksum, SegPlan, Segment, Segmenter};
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

/// Segments over one AF_XDP socket.
pub(super) struct XdpStream {
    sink: XdpSink,
    cutting: Cutting,
    /// What is copied from, where frames are made in one piece.
    memory: Vec<u8>,
    header_bytes: usize,
    /// Payload that was summed up here, because the kernel has no checksum requests.
    has_offload: bool,
    notes: Vec<String>,
}

impl XdpStream {
    pub fn open(
        config: &SinkConfig,
        segmenter: &Segmenter,
        cutting: Cutting,
    ) -> Result<XdpStream, Error> {
        let mut notes = Vec::new();
        let sink = XdpSink::open(config, &mut notes)?;
        let features = sink.features();
        let cutting = match (features.chains, cutting) {
            (None, Cutting::Chains) => return Err(SinkError::lacks("af-xdp", "chains").into()),
            (None, _) => Cutting::Copies,
            (Some(_), cutting) => cutting,
        };
        let memory = match cutting {
            Cutting::Chains => Vec::new(),
            _ => vec![0; config.payload_bytes],
        };
        Ok(XdpStream {
            sink,
            cutting,
            memory,
            header_bytes: segmenter.header_bytes_max(),
            has_offload: features.checksums,
            notes,
        })
    }

    /// Puts a frame; waits for room.
    fn put(&mut self, segment: &Segment<'_>, at: usize, is_chain: bool) -> Result<(), Error> {
        loop {
            let has_room = match is_chain {
                true => self.put_chain(segment, at)?,
                false => self.put_copy(segment, at)?,
            };
            if has_room {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    fn put_chain(&mut self, segment: &Segment<'_>, at: usize) -> Result<bool, Error> {
        let payload = segment.payload();
        let piece = at + payload.start..at + payload.end;
        let mut header = [0; ringside_segment::HEADER_BYTES_MAX];
        let written = segment.write_header(&mut header, Checksum::Offload)?;
        let header = &header[..written.bytes];
        let request = written.offload.map(request);
        Ok(self.sink.put_chain(
            header.len(),
            request,
            |slot| slot.copy_from_slice(header),
            &[piece],
        )?)
    }

    fn put_copy(&mut self, segment: &Segment<'_>, at: usize) -> Result<bool, Error> {
        put_segment(&mut self.sink, segment, &self.memory[at..], self.has_offload)
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

impl Segments for XdpStream {
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        let range = buffer * BUFFER_BYTES..buffer * BUFFER_BYTES + bytes;
        if self.cutting == Cutting::Copies {
            write(&mut self.memory[range]);
            return Ok(true);
        }
        if !matches!(self.cutting, Cutting::Trying { .. }) {
            return Ok(self.sink.write_payload(range, write)?);
        }
        // Both have it while both are tried.
        write(&mut self.memory[range.clone()]);
        let mut from = range.start;
        let memory = &self.memory;
        while !self.sink.write_payload(range.clone(), |part| {
            part.copy_from_slice(&memory[from..from + part.len()]);
            from += part.len();
        })? {
            self.sink.flush()?;
        }
        Ok(true)
    }

    fn send(&mut self, buffer: usize, from: usize, plan: &SegPlan<'_>) -> Result<(), Error> {
        let start = Instant::now();
        let is_chain = match self.cutting {
            Cutting::Chains => true,
            Cutting::Copies => false,
            Cutting::Trying { plans, .. } => plans % 2 == 0,
        };
        debug_assert!(self.header_bytes <= ringside_segment::HEADER_BYTES_MAX);
        for segment in plan.segments() {
            self.put(&segment, buffer * BUFFER_BYTES + from, is_chain)?;
        }
        if matches!(self.cutting, Cutting::Trying { .. }) {
            self.sink.flush()?;
            self.learn(plan.frame_count(), start.elapsed());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(self.sink.flush()?)
    }

    fn counters(&mut self) -> SinkCounters {
        self.sink.counters()
    }

    fn drain(&mut self, timeout: Duration) -> SinkCounters {
        self.sink.drain(timeout)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
