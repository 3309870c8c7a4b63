//! Copies of frames that leave through other interfaces (`mirror IF`).
//!
//! A copy is the frame as it was received, whole, whatever becomes of the frame itself. Each thread
//! has a sink of its own for each interface (`af-packet`), opened before the run gives up its
//! privileges. Copies of a batch go out together, from where the frames lie and straight to the
//! driver, and nothing waits: what the interface does not take is counted, by cause, and gone.

use super::rules::RulesBuilder;
use crate::interface::{BackendError, find_device, link_type};
use ringside_core::{Batch, Handed, Refusal, Sink, SourceInterface};
use ringside_rules::engine::Counts;
use ringside_rules::language::RuleId;
use ringside_transmit::sink::{PacketOptions, PacketSink, SinkConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Copies that a sink is given together.
const CALL_FRAMES: usize = 64;

/// Why copies cannot be sent.
#[derive(Debug, Error)]
#[error("rule {id}: `mirror {name}`: {why}")]
pub struct MirrorError {
    /// The rule.
    pub id: RuleId,
    /// Where copies were to go.
    pub name: String,
    /// Why copies cannot go there.
    pub why: Box<NoMirror>,
}

/// Why copies cannot be sent to an interface.
#[derive(Debug, Error)]
pub enum NoMirror {
    /// There is none of this name, or it is none that can be used.
    #[error(transparent)]
    Interface(#[from] BackendError),
    /// A copy would come back.
    #[error("it is captured itself, and would get its own frames back: name another interface")]
    Loop,
    /// Frames begin otherwise there.
    #[error(
        "frames of {received} do not begin as those of this one do: name an interface of the same \
         kind"
    )]
    LinkType {
        /// An interface that is captured.
        received: String,
    },
    /// The sink.
    #[error(transparent)]
    Sink(#[from] ringside_transmit::Error),
}

/// Why a copy was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorFailure {
    /// It is longer than the interface takes.
    TooLong,
    /// The interface, or the socket before it, had no room.
    NoRoom,
    /// The interface is down, or gone.
    InterfaceDown,
    /// Not all of the frame was received.
    Cut,
    /// Refused for another reason.
    Refused,
}

impl MirrorFailure {
    /// All of them.
    pub const ALL: [MirrorFailure; 5] = [
        MirrorFailure::TooLong,
        MirrorFailure::NoRoom,
        MirrorFailure::InterfaceDown,
        MirrorFailure::Cut,
        MirrorFailure::Refused,
    ];

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            MirrorFailure::TooLong => "too_long",
            MirrorFailure::NoRoom => "no_room",
            MirrorFailure::InterfaceDown => "interface_down",
            MirrorFailure::Cut => "cut",
            MirrorFailure::Refused => "refused",
        }
    }

    fn of(cause: Refusal) -> MirrorFailure {
        match cause {
            Refusal::TooLong => MirrorFailure::TooLong,
            Refusal::NoRoom => MirrorFailure::NoRoom,
            Refusal::InterfaceGone => MirrorFailure::InterfaceDown,
            Refusal::NotSent | Refusal::Other => MirrorFailure::Refused,
        }
    }
}

/// Copies that were to go to one interface: each is sent, or failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Name of the interface.
    pub interface: String,
    /// Copies that it took.
    pub sent: Counts,
    /// Copies that it did not take, by reason.
    pub failed: Vec<(MirrorFailure, u64)>,
}

/// The interfaces that copies go to, opened for all threads.
pub struct Mirrors(Vec<Mirror>);

struct Mirror {
    tally: Arc<Tally>,
    /// For threads to come.
    sinks: Mutex<Vec<PacketSink>>,
}

/// What all threads count together, once a batch.
#[derive(Debug)]
struct Tally {
    interface: String,
    frames: AtomicU64,
    bytes: AtomicU64,
    failed: [AtomicU64; MirrorFailure::ALL.len()],
}

impl Mirrors {
    /// Opens the interfaces that rules name, in the calling thread's network namespace, for
    /// `threads` threads that receive frames of `received`.
    ///
    /// # Errors
    /// There is none of this name, it is down, it is received from itself, its frames begin
    /// otherwise, or a privilege is missing.
    pub fn open(
        rules: &RulesBuilder,
        received: &[SourceInterface],
        threads: usize,
    ) -> Result<Mirrors, MirrorError> {
        let open = |(id, name): (RuleId, String)| {
            let mirror = Mirror::open(&name, received, threads);
            mirror.map_err(|why| MirrorError { id, name, why: Box::new(why) })
        };
        rules.mirrors().into_iter().map(open).collect::<Result<_, _>>().map(Mirrors)
    }

    /// What copies of one thread leave through.
    ///
    /// # Panics
    /// If more than `threads` threads ask.
    pub(super) fn sender(&self) -> MirrorSender {
        let target = |mirror: &Mirror| {
            let mut sinks = mirror.sinks.lock().unwrap_or_else(PoisonError::into_inner);
            let sink = sinks.pop().expect("one was opened for each thread");
            Target { sink, tally: mirror.tally.clone(), waiting: Vec::new() }
        };
        MirrorSender(self.0.iter().map(target).collect())
    }

    /// How the counts are read while the run goes on.
    pub(super) fn reader(&self) -> MirrorReader {
        MirrorReader(self.0.iter().map(|mirror| mirror.tally.clone()).collect())
    }
}

impl Mirror {
    fn open(name: &str, received: &[SourceInterface], threads: usize) -> Result<Mirror, NoMirror> {
        if received.iter().any(|interface| interface.name == name) {
            return Err(NoMirror::Loop);
        }
        let device = find_device(name)?;
        if !device.is_up() {
            return Err(BackendError::InterfaceDown { name: device.name }.into());
        }
        let link = link_type(name)?;
        if let Some(other) = received.iter().find(|interface| interface.link_type != link) {
            return Err(NoMirror::LinkType { received: other.name.clone() });
        }
        // How frames begin there was compared above.
        let options =
            PacketOptions { through_discipline: false, any_link: true, never_waits: true };
        let open = |_| PacketSink::open_with(&SinkConfig::new(name), options);
        let sinks = (0..threads).map(open).collect::<Result<Vec<_>, _>>()?;
        let tally = Arc::new(Tally::new(name.to_owned()));
        Ok(Mirror { tally, sinks: Mutex::new(sinks) })
    }
}

impl Tally {
    fn new(interface: String) -> Tally {
        let (frames, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Tally { interface, frames, bytes, failed: Default::default() }
    }

    fn fail(&self, why: MirrorFailure, frames: usize) {
        self.failed[why as usize].fetch_add(frames as u64, Ordering::Relaxed);
    }

    fn counts(&self) -> MirrorCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failed = MirrorFailure::ALL.into_iter().zip(self.failed.iter().map(read));
        MirrorCounts {
            interface: self.interface.clone(),
            sent: Counts { frames: read(&self.frames), bytes: read(&self.bytes) },
            failed: failed.filter(|(_, frames)| *frames > 0).collect(),
        }
    }
}

/// Reads what was counted.
#[derive(Clone, Default)]
pub(super) struct MirrorReader(Vec<Arc<Tally>>);

impl MirrorReader {
    pub(super) fn counts(&self) -> Vec<MirrorCounts> {
        self.0.iter().map(|tally| tally.counts()).collect()
    }
}

/// Sends the copies of one thread. The interfaces are in the order of [`RulesBuilder::mirrors`].
pub(super) struct MirrorSender(Vec<Target>);

struct Target {
    sink: PacketSink,
    tally: Arc<Tally>,
    /// Frames of the batch, as indices of its slots. Its room is kept; a batch bounds it.
    waiting: Vec<u32>,
}

impl MirrorSender {
    /// Has the frame at `slot` of the batch copied to the interfaces that have a bit in `mirrors`.
    pub(super) fn note(&mut self, mirrors: u8, slot: usize) {
        for (bit, target) in self.0.iter_mut().enumerate() {
            if mirrors >> bit & 1 == 1 {
                target.waiting.push(slot as u32);
            }
        }
    }

    /// Sends the copies of a batch.
    pub(super) fn send(&mut self, batch: &Batch<'_>) {
        for target in self.0.iter_mut().filter(|target| !target.waiting.is_empty()) {
            target.send(batch);
            target.waiting.clear();
        }
    }
}

impl Target {
    fn send(&mut self, batch: &Batch<'_>) {
        let mut sent = Counts::default();
        for indices in self.waiting.chunks(CALL_FRAMES) {
            let mut frames: [&[u8]; CALL_FRAMES] = [&[]; CALL_FRAMES];
            let mut whole = 0;
            for &index in indices {
                let slot = &batch.slots()[index as usize];
                if slot.captured_bytes() < slot.meta().wire_bytes {
                    self.tally.fail(MirrorFailure::Cut, 1);
                    continue;
                }
                frames[whole] = slot.lend(batch.memory()).bytes;
                whole += 1;
            }
            sent = sent + send_all(&mut self.sink, &frames[..whole], &self.tally);
        }
        self.tally.frames.fetch_add(sent.frames, Ordering::Relaxed);
        self.tally.bytes.fetch_add(sent.bytes, Ordering::Relaxed);
    }
}

/// Sends what the interface takes; counts the rest.
fn send_all(sink: &mut impl Sink, frames: &[&[u8]], tally: &Tally) -> Counts {
    let mut sent = Counts::default();
    let mut rest = frames;
    while !rest.is_empty() {
        let (taken, cause) = match sink.send(rest) {
            Ok(Handed { taken, refused }) => (taken, refused.unwrap_or(Refusal::NoRoom)),
            Err(error) => (0, error.refusal()),
        };
        let (gone, left) = rest.split_at(taken);
        sent.frames += gone.len() as u64;
        sent.bytes += gone.iter().map(|frame| frame.len() as u64).sum::<u64>();
        let failed = match cause {
            // If there is a next one, why it was not taken is reported when it is the first.
            Refusal::NoRoom if taken > 0 => 0,
            // Nor does it take the others.
            Refusal::InterfaceGone => left.len(),
            _ => 1,
        };
        tally.fail(MirrorFailure::of(cause), failed);
        rest = &left[failed..];
    }
    sent
}

#[cfg(test)]
mod tests;
