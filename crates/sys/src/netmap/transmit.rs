//! A transmit ring: frames written where the kernel sends them from.

use super::layout::{FRAGMENTS_MAX, ring, slot};
use super::memory::wrong;
use super::request::{Control, Register, RingChoice, Way};
use super::ring::Ring;
use crate::SysError;
use std::collections::VecDeque;

/// One transmit ring of a port.
pub struct TransmitRing {
    ring: Ring,
    /// Most slots of a frame.
    fragments_max: usize,
    /// The first slot that is free.
    head: u32,
    /// Slots in front of it are ours, at the last look.
    tail: u32,
    /// Slots that were out before the first frame of ours, and those that came back since and make
    /// no whole frame yet.
    before: u32,
    back: u32,
    /// Slots of each frame that has not come back, the oldest first.
    out: VecDeque<u8>,
    /// A frame of several slots, before it is cut.
    whole: Vec<u8>,
    accepted: u64,
}

impl TransmitRing {
    /// Takes a ring of a port. With `chains` a frame may take several slots: ports of a switch and
    /// pipes hand it on as one, where a card may send as many frames.
    ///
    /// # Errors
    /// The kernel refuses, or its memory is laid out as it cannot be.
    pub fn take(
        control: Box<dyn Control>,
        port: &str,
        ring: RingChoice,
        chains: bool,
    ) -> Result<TransmitRing, SysError> {
        let request =
            Register { port: port.to_owned(), ring, way: Way::Transmit, extra_buffers: 0 };
        let ring = Ring::take(control, &request)?;
        let (head, tail) = (ring.cursor(ring::HEAD)?, ring.cursor(ring::TAIL)?);
        let before = ring.slots - 1 - ring.distance(head, tail);
        // A ring without one slot more than a frame has could never take it.
        let fragments_max = if chains { FRAGMENTS_MAX.min(ring.slots as usize - 1) } else { 1 };
        let (out, whole) = (VecDeque::new(), Vec::new());
        let (back, accepted) = (0, 0);
        Ok(TransmitRing { ring, fragments_max, head, tail, before, back, out, whole, accepted })
    }

    /// Longest frame.
    pub fn frame_bytes_max(&self) -> usize {
        // A slot's length has 16 bits.
        self.fragments_max * (self.ring.buffers.bytes as usize).min(usize::from(u16::MAX))
    }

    /// True if a frame of this length has room.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.pieces(bytes) <= self.ring.distance(self.head, self.tail) as usize
    }

    /// Puts a frame, for which there is room, if `write` says that it is to be sent.
    ///
    /// # Errors
    /// The memory is damaged: the error names the slot.
    ///
    /// # Panics
    /// If there is no room.
    pub fn put(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, SysError> {
        assert!(self.has_room(bytes), "room for {bytes} bytes");
        let count = self.pieces(bytes);
        let is_meant = if count == 1 {
            let room = self.ring.room(self.head)?;
            self.check(bytes, room.len())?;
            let is_meant = write(self.ring.bytes_mut(room.start..room.start + bytes));
            self.ring.fill(self.head, bytes, 0)?;
            is_meant
        } else {
            self.put_pieces(bytes, count, write)?
        };
        if is_meant {
            self.head = self.ring.after(self.head, count);
            self.out.push_back(count as u8);
        }
        Ok(is_meant)
    }

    /// Hands over what was put, and looks what was sent.
    ///
    /// # Errors
    /// The port is gone, or its memory is damaged.
    pub fn flush(&mut self) -> Result<(), SysError> {
        let done = self.ring.sync(self.head).map(drop);
        // A port that goes may have said before what it sent.
        let tail = self.ring.cursor(ring::TAIL)?;
        self.settle(tail)?;
        done
    }

    /// Counts the frames whose slots came back.
    fn settle(&mut self, tail: u32) -> Result<(), SysError> {
        let back = self.ring.distance(self.tail, tail);
        if back > self.ring.slots - 1 - self.ring.distance(self.head, self.tail) {
            return Err(wrong(&self.ring.name, "a cursor", tail.into()));
        }
        self.tail = tail;
        self.back += back;
        let others = self.before.min(self.back);
        self.before -= others;
        self.back -= others;
        while let Some(&slots) = self.out.front()
            && u32::from(slots) <= self.back
        {
            self.out.pop_front();
            self.back -= u32::from(slots);
            self.accepted += 1;
        }
        Ok(())
    }

    /// Frames that the port has sent: those whose slots came back.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Frames that were put and have not come back.
    pub fn waiting(&self) -> u64 {
        self.out.len() as u64
    }

    fn pieces(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.ring.buffers.bytes as usize).max(1)
    }

    /// Cuts a frame over `count` slots from the head on.
    fn put_pieces(
        &mut self,
        bytes: usize,
        count: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, SysError> {
        let mut whole = std::mem::take(&mut self.whole);
        whole.resize(bytes, 0);
        let is_meant = write(&mut whole);
        for (step, piece) in whole.chunks(self.ring.buffers.bytes as usize).enumerate() {
            let index = self.ring.after(self.head, step);
            let room = self.ring.room(index)?;
            self.check(piece.len(), room.len())?;
            let flags = if step + 1 < count { slot::MORE_FRAGMENTS } else { 0 };
            self.ring.bytes_mut(room.start..room.start + piece.len()).copy_from_slice(piece);
            self.ring.fill(index, piece.len(), flags)?;
        }
        self.whole = whole;
        Ok(is_meant)
    }

    /// An offset in a slot leaves less room than its buffer has.
    fn check(&self, bytes: usize, room: usize) -> Result<(), SysError> {
        if bytes <= room { Ok(()) } else { Err(wrong(&self.ring.name, "a room", room as u64)) }
    }
}
