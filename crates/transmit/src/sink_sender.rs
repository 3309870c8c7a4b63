//! Frames through a sink: the generator on any interface, and captures again and again.

use crate::job::{Load, SenderKind};
use crate::sink::{self, AnySink, PacketOptions, SinkConfig};
use crate::wait::{DRAIN, Patience, SLEEP_MAX, Until};
use crate::{Error, Table, Wire};
use ringside_core::{OwnedFrame, Sink, SinkCounters, SinkError};
use ringside_sys::clock::tai_ns;
use ringside_sys::packet_tx::SEND_FRAMES_MAX;
use std::sync::Arc;
use std::time::Instant;

/// Frames between two looks at limits and signals, at most.
pub(crate) const CALL_FRAMES_MAX: u64 = 1024;
/// Frames between two looks at the clock.
const LOOK_FRAMES: u64 = 16;

/// Where the next frames come from.
enum Supply {
    /// They are made, where the sink has them.
    Numbered(Box<Numbered>),
    /// These, again and again; the place of the next one.
    Capture(Arc<[OwnedFrame]>, usize),
}

/// Numbered frames of one stream.
struct Numbered {
    table: Table,
    stream: u16,
    /// For frames that are shorter than their headers.
    scratch: Vec<u8>,
    /// The number of the next frame.
    next: u64,
}

/// One thread's sink, on a queue of its own.
pub(crate) struct SinkSender {
    sink: AnySink,
    supply: Supply,
    interface: String,
    patience: Patience,
}

impl SinkSender {
    /// For the calling thread, which is in the sender's namespace.
    pub fn new(
        wire: &Wire,
        kind: SenderKind,
        load: &Load,
        stream: u16,
    ) -> Result<SinkSender, Error> {
        let queue = u32::from(stream);
        let config = SinkConfig { queue, ..SinkConfig::new(&wire.sender.interface) };
        let sink = match kind {
            SenderKind::Sink(kind) => {
                let opened = sink::open(Some(kind), &config)?;
                for note in opened.notes {
                    tracing::info!("{note}");
                }
                opened.sink
            }
            // The queue follows the flow's hash.
            _ => {
                let options =
                    PacketOptions { through_discipline: true, any_link: true, never_waits: false };
                AnySink::packet(&config, options)?
            }
        };
        let supply = match load {
            Load::Numbered(shape) => Supply::Numbered(Box::new(Numbered {
                table: shape.to_table(),
                stream,
                scratch: shape.buffer(),
                next: 0,
            })),
            Load::Replay(frames) => Supply::Capture(Arc::clone(frames), 0),
        };
        Ok(SinkSender { sink, supply, interface: config.interface, patience: Patience::default() })
    }

    /// Offers up to `frames` frames and returns how many it offered.
    pub fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let offered = match &mut self.supply {
            Supply::Numbered(numbered) => numbered.put(&mut self.sink, frames)?,
            Supply::Capture(captured, at) => capture(&mut self.sink, captured, at, frames)?,
        };
        self.sink.flush()?;
        match offered {
            0 => {
                let counters = self.sink.counters();
                _ = self.patience.goes_on(&Until::default(), &counters, &self.interface)?;
            }
            _ => self.patience = Patience::default(),
        }
        Ok(offered)
    }

    /// Ends what is under way: the account, also of a call that failed, and what went wrong
    /// meanwhile.
    pub fn finish(&mut self) -> (SinkCounters, Option<Error>) {
        let (counters, failure) = self.sink.drain(DRAIN);
        (counters, failure.map(Error::from))
    }
}

impl Numbered {
    /// Puts up to `frames` frames, as long as there is room.
    fn put(&mut self, sink: &mut AnySink, frames: u64) -> Result<u64, SinkError> {
        let Numbered { table, stream, scratch, next } = self;
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
        Ok(offered)
    }
}

/// Sends the frames from place `at` on, at most `frames` of them, each once: one that was refused
/// is counted and left behind.
fn capture(
    sink: &mut AnySink,
    captured: &[OwnedFrame],
    at: &mut usize,
    frames: u64,
) -> Result<u64, SinkError> {
    let count = usize::try_from(frames).unwrap_or(usize::MAX).min(SEND_FRAMES_MAX);
    let batch: Vec<&[u8]> =
        captured.iter().cycle().skip(*at).take(count).map(|frame| &frame.bytes[..]).collect();
    let handed = sink.send(&batch)?;
    let offered = handed.taken + usize::from(handed.refused.is_some());
    *at = (*at + offered) % captured.len().max(1);
    Ok(offered as u64)
}
