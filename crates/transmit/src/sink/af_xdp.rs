//! The `af-xdp` sink: an AF_XDP socket on one transmit queue.
//!
//! The account: where the kernel copies, each call sends until the driver refuses a frame, and says
//! so (EBUSY): exactly one frame for each such answer. Every frame comes back by the completion
//! ring, refused or not, so accepted = come back − refused. What the kernel has not taken out of
//! the ring at the end was not sent. Where the driver reads our memory itself, what came back was
//! sent.

use super::outlet::{Outlet, refused};
use super::{SinkConfig, SinkKind};
use crate::Error;
use ringside_core::{
    ChainFeatures, ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures,
};
use ringside_netdev as netdev;
use ringside_sys::xsk::{
    BindStep, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, COPIED_PARTS_MAX, Kick, TxConfig, TxLayout,
    TxRequest, TxRing, TxSocket, TxStamp,
};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Slots and entries of the rings: a millisecond of small frames, and 8 MiB of memory at most.
const ENTRIES: u32 = 2048;

/// Frames after which they are handed over unasked: beyond that the call does not show.
const FLUSH_FRAMES: u32 = 64;

/// How often is looked whether what is in flight has come back.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// An AF_XDP socket as a sink.
pub struct XdpSink {
    outlet: Outlet,
    socket: TxSocket,
    ring: TxRing,
    features: SinkFeatures,
    /// Frames put since the last flush.
    unflushed: u32,
    /// The kernel may not have taken all that it was shown.
    has_waiting: bool,
    offered_bytes: u64,
    /// Frames that the driver refused.
    refused: u64,
    /// The account, once closed.
    ended: Option<SinkCounters>,
}

impl XdpSink {
    /// Opens it in the best way that the kernel and the driver have; `notes` gets what was tried.
    ///
    /// # Errors
    /// There is no such interface or queue, it is down or in use by another socket, or a privilege
    /// is missing (CAP_NET_RAW).
    pub fn open(config: &SinkConfig, notes: &mut Vec<String>) -> Result<XdpSink, Error> {
        let outlet = Outlet::open(config, SinkKind::AfXdp)?;
        let bytes_max = outlet.frame_bytes_max();
        let layout = layout(bytes_max, config.payload_bytes);
        let tx = TxConfig { ifindex: outlet.ifindex, queue: config.queue, layout };
        let (socket, mut ring, step) = bound(&outlet, tx, notes)?;
        ring.allow_parts(parts_max(step, outlet.ifindex));
        if !socket.has_metadata() {
            notes.push(format!("{}: this kernel has no checksum requests for AF_XDP", outlet.name));
        }
        let chains = (layout.payload_chunks > 0 && ring.parts_max() > 1).then(|| ChainFeatures {
            parts_max: ring.parts_max() - 1,
            part_bytes: layout.room_bytes(),
            payload_bytes: layout.payload_bytes(),
        });
        let features = SinkFeatures {
            frame_bytes_max: bytes_max.min(ring.frame_bytes_max()),
            chains,
            checksums: socket.has_metadata(),
        };
        Ok(XdpSink {
            outlet,
            socket,
            ring,
            features,
            unflushed: 0,
            has_waiting: false,
            offered_bytes: 0,
            refused: 0,
            ended: None,
        })
    }

    /// Puts a frame and asks when it is sent; [`take_stamps`](Self::take_stamps) tells later.
    ///
    /// # Errors
    /// As [`Sink::put`].
    pub fn put_stamped(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        if !self.features.checksums {
            return Err(SinkError::lacks(self.name(), "stamps of sent frames"));
        }
        self.put_asking(bytes, TxRequest { checksum: None, stamp: true }, write)
    }

    /// Stamps that came back since the last call, and how many more were lost because they were not
    /// read for long.
    pub fn take_stamps(&mut self) -> (Vec<TxStamp>, u64) {
        self.ring.take_stamps()
    }

    #[inline]
    fn put_asking(
        &mut self,
        bytes: usize,
        request: TxRequest,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, request.checksum, self.features.checksums)?;
        let mut write = Some(write);
        self.put_or_flush(bytes, |ring| {
            ring.put(bytes, request, |slot| {
                if let Some(write) = write.take() {
                    write(slot);
                }
            })
        })
    }

    /// Tries once more after a flush where there is no room.
    #[inline]
    fn put_or_flush(
        &mut self,
        bytes: usize,
        mut put: impl FnMut(&mut TxRing) -> Result<bool, ringside_sys::SysError>,
    ) -> Result<bool, SinkError> {
        if !put(&mut self.ring).map_err(refused)? {
            self.flush()?;
            if !put(&mut self.ring).map_err(refused)? {
                return Ok(false);
            }
        }
        self.offered_bytes += bytes as u64;
        self.has_waiting = true;
        self.unflushed += 1;
        if self.unflushed >= FLUSH_FRAMES {
            self.flush()?;
        }
        Ok(true)
    }

    /// Has the kernel take what was shown, where it copies.
    fn hand_over(&mut self) -> Result<(), SinkError> {
        while self.has_waiting {
            let before = self.ring.consumed();
            match self.socket.kick() {
                Ok(Kick::Done) => self.has_waiting = false,
                Ok(Kick::Refused) => self.refused += 1,
                Ok(Kick::Again) => {
                    self.ring.reap();
                    if self.ring.consumed() == before {
                        break;
                    }
                }
                Err(error) => return Err(self.outlet.failed(error)),
            }
        }
        Ok(())
    }

    /// Waits until nothing is in flight any more, or nothing more comes back; returns what refused
    /// the rest, and what went wrong.
    fn settle(&mut self, timeout: Duration) -> (Refusal, Option<SinkError>) {
        let start = Instant::now();
        let mut failure = None;
        loop {
            if failure.is_none() {
                failure = self.flush().err();
            }
            self.ring.reap();
            let is_over = self.ring.out() == 0 || start.elapsed() >= timeout;
            // Of an interface that is gone, only what the kernel has taken comes back.
            if is_over || failure.is_some() && self.ring.progress().taken == 0 {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let cause = match &failure {
            None => Refusal::NotSent,
            Some(SinkError::InterfaceGone { .. }) => Refusal::InterfaceGone,
            Some(_) => Refusal::Other,
        };
        (cause, failure)
    }

    /// Frames that the kernel called damaged and did not send: a bug, and no reason to be wrong.
    fn damaged(&mut self) -> u64 {
        let invalid = self.socket.invalid_descriptors().unwrap_or(0);
        let foreign = self.ring.take_damaged();
        if invalid + foreign > 0 {
            tracing::warn!(
                "{}: {invalid} descriptors were refused as damaged and {foreign} came back that \
                 were not out; this is a bug",
                self.outlet.name
            );
        }
        invalid
    }
}

impl Sink for XdpSink {
    fn name(&self) -> &'static str {
        SinkKind::AfXdp.name()
    }

    fn features(&self) -> SinkFeatures {
        self.features
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.put_asking(bytes, TxRequest { checksum, stamp: false }, write)
    }

    #[inline]
    fn put_chain(
        &mut self,
        header_bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
        pieces: &[Range<usize>],
    ) -> Result<bool, SinkError> {
        if self.features.chains.is_none() {
            return Err(SinkError::lacks(self.name(), "chains"));
        }
        let payload_bytes = pieces.iter().map(ExactSizeIterator::len).sum::<usize>();
        let bytes = header_bytes.saturating_add(payload_bytes);
        self.outlet.check(bytes, checksum, self.features.checksums)?;
        let request = TxRequest { checksum, stamp: false };
        let mut write = Some(write);
        self.put_or_flush(bytes, |ring| {
            let write = |slot: &mut [u8]| {
                if let Some(write) = write.take() {
                    write(slot);
                }
            };
            ring.put_chain(header_bytes, request, write, pieces)
        })
    }

    fn write_payload(
        &mut self,
        range: Range<usize>,
        write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.ring.reap();
        self.ring.write_payload(range, write).map_err(refused)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.ring.publish();
        self.unflushed = 0;
        if self.socket.is_zero_copy() {
            // The driver goes on by itself unless it says that it does not.
            if self.ring.needs_wakeup() && self.ring.out() > 0 {
                self.socket.kick().map_err(|error| self.outlet.failed(error))?;
            }
        } else {
            self.hand_over()?;
        }
        self.ring.reap();
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        self.ring.reap();
        let (offered, completed) = self.ring.put_and_completed();
        let accepted = completed.saturating_sub(self.refused);
        let offered_bytes = self.offered_bytes;
        let mut counters =
            SinkCounters { offered, offered_bytes, accepted, ..SinkCounters::default() };
        counters.refuse(Refusal::NoRoom, self.refused);
        counters
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        let mut failure = None;
        if self.ended.is_none() {
            let rest;
            (rest, failure) = self.settle(timeout);
            let progress = self.ring.progress();
            let damaged = self.damaged().min(progress.taken);
            let mut counters = self.counters();
            counters.refuse(rest, progress.waiting);
            counters.refuse(Refusal::Other, damaged);
            counters.accepted = counters.offered.saturating_sub(counters.refused_total());
            self.outlet.has_ended = true;
            self.ended = Some(counters);
        }
        (self.counters(), failure)
    }
}

/// Memory for frames of `frame_bytes_max` and for `payload_bytes` of payload.
fn layout(frame_bytes_max: usize, payload_bytes: usize) -> TxLayout {
    let small = TxLayout { entries: ENTRIES, chunk_bytes: CHUNK_BYTES_MIN, payload_chunks: 0 };
    let large = TxLayout { chunk_bytes: CHUNK_BYTES_MAX, ..small };
    if payload_bytes == 0 && frame_bytes_max <= small.room_bytes() {
        return small;
    }
    let chunks = payload_bytes.div_ceil(large.room_bytes());
    TxLayout { payload_chunks: u32::try_from(chunks).unwrap_or(u32::MAX), ..large }
}

/// A socket that is bound by the best step that the kernel and the driver take.
fn bound(
    outlet: &Outlet,
    config: TxConfig,
    notes: &mut Vec<String>,
) -> Result<(TxSocket, TxRing, BindStep), Error> {
    let (name, queue) = (&outlet.name, config.queue);
    let against_zero_copy = against_zero_copy(outlet);
    let mut failures = Vec::new();
    for step in BindStep::LADDER {
        if let (true, Some(reason)) = (step.is_zero_copy(), &against_zero_copy) {
            failures.push(format!("{step}: not tried, {reason}"));
            continue;
        }
        let (mut socket, ring) = TxSocket::open(config)?;
        // Bound without a copy, a driver may still not send: it says so when it is woken.
        let woken =
            |socket: &TxSocket| if step.is_zero_copy() { socket.kick().map(drop) } else { Ok(()) };
        match socket.bind(step).and_then(|()| woken(&socket)) {
            Ok(()) => {
                notes.push(format!("{name}: queue {queue} by AF_XDP, {step}"));
                notes.extend(failures.iter().map(|why| format!("{name}: queue {queue}: {why}")));
                return Ok((socket, ring, step));
            }
            Err(error) => failures.push(format!("{step}: {error}")),
        }
    }
    let fix = "`ethtool -l` shows the queues; one socket has a queue at a time";
    let reason = format!("queue {queue} cannot be had ({}); {fix}", failures.join("; "));
    Err(Error::sink(SinkKind::AfXdp, name, &reason))
}

/// Why zero-copy is not tried. The driver would receive into our memory too, which has no room for
/// frames, and the host would miss them. And most drivers have the rings that they send from this
/// way only while an XDP program is on the interface.
fn against_zero_copy(outlet: &Outlet) -> Option<String> {
    if let Ok(Some(features)) = netdev::xdp_features(outlet.ifindex)
        && !features.zero_copy
    {
        return Some("the driver has none".to_owned());
    }
    if !outlet.has_program {
        return Some("there is no XDP program on the interface".to_owned());
    }
    match netdev::uses(&outlet.name) {
        Ok(uses) => uses.first().map(|first| format!("the host uses the interface: {first}")),
        Err(error) => Some(error.to_string()),
    }
}

/// Most parts of a frame after this step.
fn parts_max(step: BindStep, ifindex: u32) -> usize {
    let pieces = || netdev::xdp_features(ifindex).ok().flatten().map(|f| f.zero_copy_pieces_max);
    match step {
        BindStep::ZeroCopyParts => pieces().map_or(1, |pieces| pieces.max(1) as usize),
        BindStep::CopyParts => COPIED_PARTS_MAX,
        BindStep::ZeroCopy | BindStep::Copy => 1,
    }
}
