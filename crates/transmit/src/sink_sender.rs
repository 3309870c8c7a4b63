//! Numbered frames through a sink: the generator on any interface.

use crate::job::FrameSender;
use crate::sink::{self, AnySink, SinkConfig, SinkKind};
use crate::wait::{DRAIN, Patience, SLEEP_MAX, Until};
use crate::{Error, Shape, Table, Wire};
use ringside_core::{Refusal, Sink, SinkCounters};
use ringside_sys::clock::tai_ns;
use std::time::Instant;

/// Frames between two looks at limits and signals, at most.
const CALL_FRAMES_MAX: u64 = 1024;
/// Frames between two looks at the clock.
const LOOK_FRAMES: u64 = 16;

/// One thread's sink, on a queue of its own.
pub(crate) struct SinkSender {
    sink: AnySink,
    table: Table,
    stream: u16,
    /// For frames that are shorter than their headers.
    scratch: Vec<u8>,
    /// The number of the next frame.
    next: u64,
    interface: String,
    patience: Patience,
    /// At the end.
    counters: SinkCounters,
}

impl SinkSender {
    /// For the calling thread, which is in the sender's namespace.
    pub fn new(
        wire: &Wire,
        kind: SinkKind,
        shape: &Shape,
        stream: u16,
    ) -> Result<SinkSender, Error> {
        let queue = u32::from(stream);
        let config = SinkConfig { queue, ..SinkConfig::new(&wire.sender.interface) };
        let opened = sink::open(Some(kind), &config)?;
        for note in opened.notes {
            tracing::info!("{note}");
        }
        Ok(SinkSender {
            sink: opened.sink,
            table: shape.to_table(),
            stream,
            scratch: shape.buffer(),
            next: 0,
            interface: config.interface,
            patience: Patience::default(),
            counters: SinkCounters::default(),
        })
    }
}

impl FrameSender for SinkSender {
    fn call_frames_max(&self) -> u64 {
        CALL_FRAMES_MAX
    }

    fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let SinkSender { sink, table, stream, scratch, next, interface, patience, .. } = self;
        let (mut offered, start) = (0, Instant::now());
        // A sink that waits a little with each frame must not hold limits and signals up.
        let is_late =
            |offered| offered % LOOK_FRAMES == LOOK_FRAMES - 1 && start.elapsed() > SLEEP_MAX;
        while offered < frames && !is_late(offered) {
            let sequence = *next;
            let now = if table.is_stamped() { tai_ns() } else { 0 };
            let bytes = table.bytes_of(sequence);
            let put = sink.put(bytes, None, |slot| {
                table.write_whole(*stream, sequence, now, slot, scratch);
            })?;
            if !put {
                break;
            }
            offered += 1;
            *next += 1;
        }
        sink.flush()?;
        match offered {
            0 => _ = patience.goes_on(&Until::default(), &sink.counters(), interface)?,
            _ => *patience = Patience::default(),
        }
        Ok(offered)
    }

    fn finish(&mut self) -> Result<(), Error> {
        let (counters, failure) = self.sink.drain(DRAIN);
        self.counters = counters;
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn offered(&self) -> u64 {
        self.counters.offered
    }

    fn bytes(&self) -> u64 {
        self.counters.offered_bytes
    }

    fn refused(&self) -> u64 {
        self.counters.refused_total()
    }

    fn refused_for_room(&self) -> u64 {
        self.counters.refused.get(&Refusal::NoRoom).copied().unwrap_or(0)
    }
}
