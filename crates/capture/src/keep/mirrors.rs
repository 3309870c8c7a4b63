//! Copies of frames that leave through other interfaces (`mirror IF`).
//!
//! A copy is the frame as it was received, whole, whatever becomes of the frame itself. Each thread
//! has a packet socket of its own for each interface, opened before the run gives up its
//! privileges. Copies of a batch go out together, straight to the driver, and nothing waits: what
//! the interface does not take is counted, by cause, and gone.

use super::rules::Rules;
use crate::interface::{BackendError, find_device, link_type};
use ringside_core::{Batch, FrameSlot, SourceInterface};
use ringside_rules::engine::Counts;
use ringside_rules::language::RuleId;
use ringside_sys::SysError;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

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
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SysError),
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

    fn of(error: &io::Error) -> MirrorFailure {
        match Errno::from_io_error(error) {
            Some(Errno::MSGSIZE) => MirrorFailure::TooLong,
            Some(Errno::NOBUFS | Errno::AGAIN | Errno::NOMEM) => MirrorFailure::NoRoom,
            Some(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => MirrorFailure::InterfaceDown,
            _ => MirrorFailure::Refused,
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
    sockets: Mutex<Vec<PacketTx>>,
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
        rules: &Rules,
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
            let mut sockets = mirror.sockets.lock().unwrap_or_else(PoisonError::into_inner);
            let socket = sockets.pop().expect("one was opened for each thread");
            Target { socket, tally: mirror.tally.clone(), waiting: Vec::new() }
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
        let sockets = (0..threads).map(|_| PacketTx::open(device.ifindex, true));
        let sockets = sockets.collect::<Result<Vec<_>, SysError>>()?;
        let tally = Arc::new(Tally::new(name.to_owned()));
        Ok(Mirror { tally, sockets: Mutex::new(sockets) })
    }
}

impl Tally {
    fn new(interface: String) -> Tally {
        let (frames, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Tally { interface, frames, bytes, failed: Default::default() }
    }

    fn fail(&self, why: MirrorFailure) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
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

/// Sends the copies of one thread. The interfaces are in the order of [`Rules::mirrors`].
pub(super) struct MirrorSender(Vec<Target>);

struct Target {
    socket: PacketTx,
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
    fn send(&self, batch: &Batch<'_>) {
        let slots = self.waiting.iter().map(|&index| &batch.slots()[index as usize]);
        let is_whole = |slot: &&FrameSlot| slot.captured_bytes() >= slot.meta().wire_bytes;
        let mut sent = Counts::default();
        let mut frames: [&[u8]; SEND_FRAMES_MAX] = [&[]; SEND_FRAMES_MAX];
        let mut count = 0;
        for slot in slots {
            if !is_whole(&slot) {
                self.tally.fail(MirrorFailure::Cut);
                continue;
            }
            frames[count] = slot.lend(batch.memory()).bytes;
            count += 1;
            if count == SEND_FRAMES_MAX {
                sent = sent + self.send_all(&frames);
                count = 0;
            }
        }
        sent = sent + self.send_all(&frames[..count]);
        self.tally.frames.fetch_add(sent.frames, Ordering::Relaxed);
        self.tally.bytes.fetch_add(sent.bytes, Ordering::Relaxed);
    }

    /// Sends what the interface takes; counts the rest.
    fn send_all(&self, frames: &[&[u8]]) -> Counts {
        let mut sent = Counts::default();
        let mut rest = frames;
        while let [_, others @ ..] = rest {
            match self.socket.send_batch_now(rest) {
                Ok(count) => {
                    let (gone, left) = rest.split_at(count);
                    sent.frames += gone.len() as u64;
                    sent.bytes += gone.iter().map(|frame| frame.len() as u64).sum::<u64>();
                    rest = left;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.tally.fail(MirrorFailure::of(&error));
                    rest = others;
                }
            }
        }
        sent
    }
}
