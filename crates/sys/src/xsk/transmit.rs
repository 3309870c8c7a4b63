//! The sending end: descriptors into the transmit ring, chunks back out of the completion ring.
//!
//! ```text
//!   slots ──write──▶ transmit ring ──▶ kernel ──▶ completion ring ──▶ slots
//! ```
//!
//! At most as many descriptors are out as each ring has entries, counted until they come back. So
//! neither ring overflows, whatever the kernel's index of the transmit ring says: that lags behind
//! frames that were refused, and may step back within a frame of several parts that is tried again
//! (__xsk_generic_xmit of net/xdp/xsk.c).

use super::cursor::{ConsumerCursor, Ordering, ProducerCursor};
use super::layout::RawDescriptor;
use super::ring::RingMemory;
use super::tx_memory::{PayloadChunk, TxLayout, TxMemory, TxRequest, TxSlot};
use crate::SysError;
use std::ops::Range;
use std::sync::Arc;

/// Most descriptors of a frame that the kernel copies: one for the linear part and one for each
/// fragment (MAX_SKB_FRAGS). A kernel that was built for more takes these too.
pub const COPIED_PARTS_MAX: usize = 18;

/// A slot in flight.
struct Flight {
    slot: TxSlot,
    /// Where a frame begins.
    head: Option<Head>,
}

/// A frame in flight.
#[derive(Clone, Copy)]
struct Head {
    /// The transmit ring's index behind its last descriptor.
    end: u32,
    /// How many frames were put before it.
    number: u64,
    wants_stamp: bool,
}

/// When a frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// How many frames were put before it.
    pub number: u64,
    /// TAI in nanoseconds: the card's time, or the kernel's where it copies.
    pub tai_ns: u64,
}

/// What has become of the frames that were put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxProgress {
    /// Frames put.
    pub put: u64,
    /// Frames that came back: sent, or dropped by who should send them.
    pub completed: u64,
    /// Frames that the kernel has taken out of the ring, and that have not come back.
    pub taken: u64,
    /// Frames that the kernel has not taken.
    pub waiting: u64,
}

/// The sending end of a socket. Used by one thread.
pub struct TxRing {
    ring: RingMemory,
    cursor: ProducerCursor,
    completions: RingMemory,
    completion_cursor: ConsumerCursor,
    memory: Arc<TxMemory>,
    free: Vec<TxSlot>,
    in_flight: Box<[Option<Flight>]>,
    payload: Vec<PayloadChunk>,
    /// A frame longer than a slot is written here first.
    long_frame: Vec<u8>,
    parts_max: usize,
    /// Descriptors that are out, the pending ones among them.
    out: u32,
    /// Descriptors written and not shown to the kernel yet.
    pending: u32,
    /// The transmit ring's index behind the last descriptor that was written.
    end: u32,
    put: u64,
    completed: u64,
    stamps: Vec<TxStamp>,
    stamps_lost: u64,
    damaged: u64,
}

impl TxRing {
    /// The end of new rings of as many entries as `memory` has slots.
    ///
    /// # Panics
    /// If the memory has its rings.
    pub(super) fn new(memory: Arc<TxMemory>, ring: RingMemory, completions: RingMemory) -> TxRing {
        let entries = memory.layout().entries;
        let (free, payload) = memory.take();
        TxRing {
            ring,
            cursor: ProducerCursor::new(entries),
            completions,
            completion_cursor: ConsumerCursor::new(entries),
            memory,
            free,
            in_flight: (0..entries).map(|_| None).collect(),
            payload,
            long_frame: Vec::new(),
            parts_max: 1,
            out: 0,
            pending: 0,
            end: 0,
            put: 0,
            completed: 0,
            stamps: Vec::new(),
            stamps_lost: 0,
            damaged: 0,
        }
    }

    /// From now on a frame may lie in up to `parts_max` parts (XDP_USE_SG).
    pub fn allow_parts(&mut self, parts_max: usize) {
        self.parts_max = parts_max.max(1);
    }

    /// How the memory is cut.
    pub fn layout(&self) -> TxLayout {
        self.memory.layout()
    }

    /// Most parts of a frame.
    pub fn parts_max(&self) -> usize {
        self.parts_max
    }

    /// Longest frame that [`put`](Self::put) takes.
    pub fn frame_bytes_max(&self) -> usize {
        self.parts_max * self.layout().room_bytes()
    }

    /// True if a frame of `descriptors` descriptors, `slots` of them slots, can be put.
    #[inline]
    fn has_room(&self, slots: usize, descriptors: usize) -> bool {
        let left = self.layout().entries - self.out;
        self.free.len() >= slots && left as usize >= descriptors
    }

    /// Puts a frame of `bytes` bytes, which `write` writes. False if there is no room now. Show it
    /// to the kernel with [`publish`](Self::publish).
    ///
    /// # Errors
    /// It is empty or too long, or its checksum lies outside of its first part.
    #[inline]
    pub fn put(
        &mut self,
        bytes: usize,
        request: TxRequest,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SysError> {
        let room = self.layout().room_bytes();
        self.check(bytes, self.frame_bytes_max(), bytes.min(room), request)?;
        if bytes > room {
            return Ok(self.put_long(bytes, request, write));
        }
        if !self.has_room(1, 1) {
            return Ok(false);
        }
        self.write_head(bytes, request, 1, write);
        Ok(true)
    }

    /// Puts a frame that begins with `header_bytes` bytes, which `write` writes, and goes on with
    /// the `pieces` of the payload memory. False if there is no room now.
    ///
    /// # Errors
    /// The header is empty or longer than a slot, the checksum's field lies outside of it, a piece
    /// outside of the payload, or they are more parts than the kernel chains.
    pub fn put_chain(
        &mut self,
        header_bytes: usize,
        request: TxRequest,
        write: impl FnOnce(&mut [u8]),
        pieces: &[Range<usize>],
    ) -> Result<bool, SysError> {
        self.check(header_bytes, self.layout().room_bytes(), header_bytes, request)?;
        let memory = self.memory.clone();
        let mut descriptors = 1;
        for piece in pieces {
            self.check_piece(piece)?;
            descriptors += memory.parts(piece.clone()).count();
            if descriptors > self.parts_max {
                return Err(SysError::Limit {
                    what: "the number of parts of a frame",
                    value: descriptors as u64,
                    limit: self.parts_max.to_string(),
                });
            }
        }
        if !self.has_room(1, descriptors) {
            return Ok(false);
        }
        self.write_head(header_bytes, request, descriptors as u32, write);
        let parts = pieces.iter().flat_map(|piece| memory.parts(piece.clone()));
        for (part, index) in parts.zip(2..) {
            let chunk = &mut self.payload[part.chunk];
            chunk.named += 1;
            let address = memory.payload_address(chunk, part.offset);
            self.describe(address, part.bytes, index < descriptors, 0);
        }
        Ok(true)
    }

    /// Has `write` write to `range` of the payload, in parts, in order. False if what is in flight
    /// needs what stands there; then nothing was written.
    ///
    /// # Errors
    /// It reaches beyond the payload.
    pub fn write_payload(
        &mut self,
        range: Range<usize>,
        mut write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SysError> {
        self.check_piece(&range)?;
        let memory = &self.memory;
        if memory.parts(range.clone()).any(|part| self.payload[part.chunk].named > 0) {
            return Ok(false);
        }
        for part in memory.parts(range) {
            let inside = part.offset..part.offset + part.bytes;
            memory.write_payload(&mut self.payload[part.chunk], inside, &mut write);
        }
        Ok(true)
    }

    /// Shows the kernel what was put.
    #[inline]
    pub fn publish(&mut self) {
        if self.pending > 0 {
            self.cursor.publish(self.ring.words(), self.pending);
            self.pending = 0;
        }
    }

    /// Takes back what came out of the completion ring. Returns how many descriptors.
    #[inline]
    pub fn reap(&mut self) -> u32 {
        let count = self.completion_cursor.ready(self.completions.words(), u32::MAX);
        for ahead in 0..count {
            let address: u64 = self.completions.read(self.completion_cursor.slot(ahead));
            self.complete(address);
        }
        if count > 0 {
            self.completion_cursor.release(self.completions.words(), count);
        }
        count
    }

    /// The descriptor that began in the chunk of `address` is done with. In copy mode the kernel
    /// drops the lowest bit of addresses, so that the chunk is all that counts. What is not out
    /// cannot come back: only a broken kernel says so, and it is counted.
    #[inline]
    fn complete(&mut self, address: u64) {
        let TxLayout { entries, chunk_bytes, .. } = self.layout();
        let chunk = usize::try_from(address / u64::from(chunk_bytes)).unwrap_or(usize::MAX);
        if chunk < entries as usize {
            let Some(flight) = self.in_flight[chunk].take() else {
                self.damaged += 1;
                return;
            };
            if let Some(head) = flight.head {
                self.completed += 1;
                self.note_stamp(head, &flight.slot);
            }
            self.free.push(flight.slot);
        } else {
            match self.payload.get_mut(chunk - entries as usize) {
                Some(chunk) if chunk.named > 0 => chunk.named -= 1,
                _ => {
                    self.damaged += 1;
                    return;
                }
            }
        }
        self.out -= 1;
    }

    #[inline]
    fn note_stamp(&mut self, head: Head, slot: &TxSlot) {
        if !head.wants_stamp {
            return;
        }
        if self.stamps.len() == self.layout().entries as usize {
            self.stamps_lost += 1;
            return;
        }
        let tai_ns = self.memory.read_stamp(slot);
        self.stamps.push(TxStamp { number: head.number, tai_ns });
    }

    /// The stamps that came back since this was last asked, as many as there are entries at most,
    /// and how many more were lost.
    pub fn take_stamps(&mut self) -> (Vec<TxStamp>, u64) {
        (std::mem::take(&mut self.stamps), std::mem::take(&mut self.stamps_lost))
    }

    /// Completions, since this was last asked, of what was not out. Only a broken kernel makes
    /// such.
    pub fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// True if the kernel wants a system call to go on (XDP_RING_NEED_WAKEUP).
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// The kernel's index of the transmit ring, to see whether it moves.
    #[inline]
    pub fn consumed(&self) -> u32 {
        self.ring.words().consumer.load(Ordering::Acquire)
    }

    /// Descriptors that are out.
    #[inline]
    pub fn out(&self) -> u32 {
        self.out
    }

    /// Frames that were put, and those of them that came back.
    #[inline]
    pub fn put_and_completed(&self) -> (u64, u64) {
        (self.put, self.completed)
    }

    /// What has become of all frames. Looks at each slot.
    pub fn progress(&self) -> TxProgress {
        let consumed = self.consumed();
        let heads = self.in_flight.iter().flatten().filter_map(|flight| flight.head);
        // Neither is further than half of the indices from the other.
        let is_taken = |head: Head| (consumed.wrapping_sub(head.end) as i32) >= 0;
        let (taken, waiting): (Vec<Head>, Vec<Head>) = heads.partition(|head| is_taken(*head));
        let (taken, waiting) = (taken.len() as u64, waiting.len() as u64);
        TxProgress { put: self.put, completed: self.completed, taken, waiting }
    }

    #[inline]
    fn check(
        &self,
        bytes: usize,
        bytes_max: usize,
        first_bytes: usize,
        request: TxRequest,
    ) -> Result<(), SysError> {
        let limit =
            |what, value: usize, limit| Err(SysError::Limit { what, value: value as u64, limit });
        if bytes == 0 || bytes > bytes_max {
            return limit("the bytes of a frame or header", bytes, format!("1 to {bytes_max}"));
        }
        match request.checksum {
            // The kernel would try such a frame for ever.
            Some(checksum) if checksum.end() > first_bytes => {
                let allowed = format!("{first_bytes}, the bytes of the first part");
                limit("the end of a checksum's field", checksum.end(), allowed)
            }
            _ => Ok(()),
        }
    }

    fn check_piece(&self, piece: &Range<usize>) -> Result<(), SysError> {
        let bytes = self.layout().payload_bytes();
        if piece.start <= piece.end && piece.end <= bytes {
            return Ok(());
        }
        let (what, limit) =
            ("the end of a piece of payload", format!("{bytes}, and behind its start"));
        Err(SysError::Limit { what, value: piece.end as u64, limit })
    }

    /// Writes and describes the first part of a frame of several descriptors.
    #[inline]
    fn write_head(
        &mut self,
        bytes: usize,
        request: TxRequest,
        descriptors: u32,
        write: impl FnOnce(&mut [u8]),
    ) {
        let mut slot = self.free.pop().expect("has_room saw it");
        self.memory.write_slot(&mut slot, bytes, write);
        let mut options = 0;
        if !request.is_empty() {
            self.memory.write_metadata(&mut slot, request);
            options = libc::XDP_TX_METADATA;
        }
        let head = Head {
            end: self.end.wrapping_add(descriptors),
            number: self.put,
            wants_stamp: request.stamp,
        };
        self.put += 1;
        let address = self.memory.address(&slot);
        let index = slot.index();
        self.in_flight[index] = Some(Flight { slot, head: Some(head) });
        self.describe(address, bytes, descriptors > 1, options);
    }

    /// A frame of several slots: written in one piece, and copied to them.
    #[cold]
    fn put_long(
        &mut self,
        bytes: usize,
        request: TxRequest,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let room = self.layout().room_bytes();
        let parts = bytes.div_ceil(room);
        if !self.has_room(parts, parts) {
            return false;
        }
        let mut frame = std::mem::take(&mut self.long_frame);
        frame.resize(frame.len().max(bytes), 0);
        write(&mut frame[..bytes]);
        let mut pieces = frame[..bytes].chunks(room);
        let first = pieces.next().expect("it is longer than a slot");
        self.write_head(room, request, parts as u32, |slot| slot.copy_from_slice(first));
        for (piece, number) in pieces.zip(2..) {
            let mut slot = self.free.pop().expect("has_room saw it");
            self.memory.write_slot(&mut slot, piece.len(), |slot| slot.copy_from_slice(piece));
            let address = self.memory.address(&slot);
            let index = slot.index();
            self.in_flight[index] = Some(Flight { slot, head: None });
            self.describe(address, piece.len(), number < parts, 0);
        }
        self.long_frame = frame;
        true
    }

    #[inline]
    fn describe(&mut self, address: u64, bytes: usize, continues: bool, options: u32) {
        let options = options | if continues { libc::XDP_PKT_CONTD } else { 0 };
        let descriptor = RawDescriptor { address, bytes: bytes as u32, options };
        self.ring.write(self.cursor.slot(self.pending), descriptor);
        self.pending += 1;
        self.out += 1;
        self.end = self.end.wrapping_add(1);
    }

    /// The new rings as if `passed` entries had passed through them.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn set_passed(&mut self, passed: u32) {
        let entries = self.layout().entries;
        self.cursor = ProducerCursor::after(passed, entries);
        self.completion_cursor = ConsumerCursor::after(passed, entries);
        self.ring.set_passed(passed);
        self.completions.set_passed(passed);
        self.end = passed;
    }

    /// Slots that are free.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Descriptors out that name payload.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn payload_named(&self) -> u32 {
        self.payload.iter().map(|chunk| chunk.named).sum()
    }
}
