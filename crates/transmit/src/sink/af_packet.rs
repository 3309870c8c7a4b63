//! The `af-packet` sink: a packet socket past the queueing discipline, many frames a call.
//!
//! The account: sendmmsg(2) counts the frames that the driver took, and stops at one that was
//! refused, which is not offered again.

use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::wait::SLEEP_MAX;
use crate::{Error, interface};
use ringside_core::{
    ChecksumRequest, Handed, Refusal, Sink, SinkCounters, SinkError, SinkFeatures,
};
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX, bound_wait};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// How a packet socket sends, where that is not as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// Through the queueing discipline. Past it the kernel takes the queue of the sending CPU
    /// instead of that of the flow's hash (packet_pick_tx_queue of net/packet/af_packet.c).
    pub through_discipline: bool,
    /// Frames begin as this interface's do, which need not be Ethernet: the caller knows.
    pub any_link: bool,
    /// No call waits for room in the socket's buffer.
    pub never_waits: bool,
}

/// A packet socket as a sink.
pub struct PacketSink {
    outlet: Outlet,
    socket: PacketTx,
    never_waits: bool,
    /// Places of one length for the frames of one call, one behind the other; the system gives
    /// the memory once something is put.
    memory: Vec<u8>,
    place_bytes: usize,
    /// Lengths of the frames that were put.
    waiting: Vec<usize>,
    /// Of these, frames of which it is known what became of them.
    judged: usize,
    counters: SinkCounters,
}

impl PacketSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such interface, it is down, or a privilege is missing (CAP_NET_RAW).
    pub fn open(config: &SinkConfig) -> Result<PacketSink, Error> {
        PacketSink::open_with(config, PacketOptions::default())
    }

    /// Opens one that sends as `options` say.
    ///
    /// # Errors
    /// As [`open`](PacketSink::open).
    pub fn open_with(config: &SinkConfig, options: PacketOptions) -> Result<PacketSink, Error> {
        let outlet = match options.any_link {
            true => Outlet::of(interface::find(&config.interface)?, SinkKind::AfPacket)?,
            false => Outlet::open(config, SinkKind::AfPacket)?,
        };
        let socket = PacketTx::open(outlet.ifindex, !options.through_discipline)?;
        bound_wait(&socket, SLEEP_MAX)?;
        let place_bytes = outlet.frame_bytes_max().next_multiple_of(64);
        Ok(PacketSink {
            outlet,
            socket,
            never_waits: options.never_waits,
            memory: vec![0; place_bytes * SEND_FRAMES_MAX],
            place_bytes,
            waiting: Vec::with_capacity(SEND_FRAMES_MAX),
            judged: 0,
            counters: SinkCounters::default(),
        })
    }

    /// Offers what waits, as far as there is room; returns how many frames it was.
    fn offer_waiting(&mut self) -> Result<usize, SinkError> {
        let mut frames: [&[u8]; SEND_FRAMES_MAX] = [&[]; SEND_FRAMES_MAX];
        let places = self.memory.chunks(self.place_bytes);
        for ((frame, place), bytes) in frames.iter_mut().zip(places).zip(&self.waiting) {
            *frame = &place[..*bytes];
        }
        let frames = &frames[self.judged..self.waiting.len()];
        let too_long = |frame: &[u8]| !self.outlet.is_short_enough(frame);
        let hand = |frames: &[&[u8]]| hand(&self.socket, self.never_waits, frames);
        let sent = offer(hand, frames, too_long, &mut self.counters);
        sent.map_err(|error| self.outlet.failed(error))
    }
}

/// One call of the system.
fn hand(socket: &PacketTx, never_waits: bool, frames: &[&[u8]]) -> io::Result<usize> {
    if never_waits { socket.send_batch_now(frames) } else { socket.send_batch(frames) }
}

/// Offers the first frames where they lie, by one call of `hand`, and counts them. A call that
/// stops does not say why: the frame is `too_long`, or there was no room.
///
/// # Errors
/// The interface failed; the first frame is counted as refused.
pub(crate) fn hand_over(
    mut hand: impl FnMut(&[&[u8]]) -> io::Result<usize>,
    frames: &[&[u8]],
    too_long: impl Fn(&[u8]) -> bool,
    counters: &mut SinkCounters,
) -> io::Result<Handed> {
    let call = &frames[..frames.len().min(SEND_FRAMES_MAX)];
    let sent = loop {
        match hand(call) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => break sent,
        }
    };
    let guess = |frame: &&[u8]| if too_long(frame) { Refusal::TooLong } else { Refusal::NoRoom };
    let (taken, refused) = match &sent {
        Ok(taken) => (*taken, call.get(*taken).map(guess)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => (0, None),
        Err(error) => (0, Some(interface::refusal(error))),
    };
    let offered = &call[..taken + usize::from(refused.is_some())];
    counters.offered += offered.len() as u64;
    counters.offered_bytes += offered.iter().map(|frame| frame.len() as u64).sum::<u64>();
    counters.accepted += taken as u64;
    refused.iter().for_each(|&cause| counters.refuse(cause, 1));
    match (sent, refused) {
        (Err(error), Some(Refusal::InterfaceGone | Refusal::Other)) => Err(error),
        _ => Ok(Handed { taken, refused }),
    }
}

/// Offers each frame once, whatever becomes of it; counts what was accepted and refused. Returns
/// how many frames these are: all, unless the socket's buffer had no room for the next one in the
/// time that it waits.
///
/// A call stops at a frame that was refused, and only the next one may say why, so `too_long` tells
/// which frames the interface does not take.
///
/// # Errors
/// The interface failed; the rest is counted as refused.
fn offer(
    hand: impl Fn(&[&[u8]]) -> io::Result<usize>,
    frames: &[&[u8]],
    too_long: impl Fn(&[u8]) -> bool,
    counters: &mut SinkCounters,
) -> io::Result<usize> {
    let mut rest = frames;
    let mut unexplained = 0;
    while !rest.is_empty() {
        let call = &rest[..rest.len().min(SEND_FRAMES_MAX)];
        match hand(call) {
            Ok(sent) => {
                counters.accepted += sent as u64;
                if let Some(refused) = call.get(sent) {
                    counters.refuse(Refusal::NoRoom, unexplained);
                    let is_too_long = too_long(refused);
                    counters.refuse(Refusal::TooLong, is_too_long.into());
                    unexplained = u64::from(!is_too_long);
                }
                rest = &rest[call.len().min(sent + 1)..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => match interface::refusal(&error) {
                cause @ (Refusal::NoRoom | Refusal::TooLong) => {
                    counters.refuse(cause, 1);
                    rest = &rest[1..];
                }
                cause => {
                    counters.refuse(cause, unexplained + rest.len() as u64);
                    return Err(error);
                }
            },
        }
    }
    counters.refuse(Refusal::NoRoom, unexplained);
    Ok(frames.len() - rest.len())
}

impl Sink for PacketSink {
    fn name(&self) -> &'static str {
        SinkKind::AfPacket.name()
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(self.outlet.frame_bytes_max())
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, checksum, false)?;
        if self.waiting.len() == SEND_FRAMES_MAX {
            self.flush()?;
            if !self.waiting.is_empty() {
                return Ok(false);
            }
        }
        let at = self.waiting.len() * self.place_bytes;
        write(&mut self.memory[at..at + bytes]);
        self.waiting.push(bytes);
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        if self.waiting.len() == SEND_FRAMES_MAX {
            self.flush()?;
        }
        Ok(true)
    }

    /// The kernel copies the frames from where they lie.
    fn send(&mut self, frames: &[&[u8]]) -> Result<Handed, SinkError> {
        if self.outlet.has_ended {
            return Err(SinkError::Ended { name: self.outlet.name.clone() });
        }
        if !self.waiting.is_empty() {
            self.flush()?;
        }
        if frames.is_empty() || !self.waiting.is_empty() {
            return Ok(Handed { taken: 0, refused: None });
        }
        let hand = |frames: &[&[u8]]| hand(&self.socket, self.never_waits, frames);
        let too_long = |frame: &[u8]| !self.outlet.is_short_enough(frame);
        let handed = hand_over(hand, frames, too_long, &mut self.counters);
        handed.map_err(|error| self.outlet.failed(error))
    }

    /// Waits for room in the socket's buffer for a moment; what finds none goes on waiting.
    fn flush(&mut self) -> Result<(), SinkError> {
        let sent = self.offer_waiting();
        // After an error nothing waits.
        self.judged = sent.as_ref().map_or(self.waiting.len(), |sent| self.judged + sent);
        if self.judged == self.waiting.len() {
            self.waiting.clear();
            self.judged = 0;
        }
        sent.map(drop)
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        let start = Instant::now();
        let failure = loop {
            match self.flush() {
                Ok(()) if self.waiting.is_empty() || start.elapsed() >= timeout => break None,
                Ok(()) => {}
                Err(failure) => break Some(failure),
            }
        };
        self.counters.refuse(Refusal::NotSent, (self.waiting.len() - self.judged) as u64);
        self.waiting.clear();
        self.judged = 0;
        self.outlet.has_ended = true;
        (self.counters(), failure)
    }
}
