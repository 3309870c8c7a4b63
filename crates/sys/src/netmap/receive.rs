//! A receive ring: frames lent where they lie.

use super::layout::{FRAGMENTS_MAX, ring};
use super::memory::wrong;
use super::request::{Control, Register, RingChoice, Way};
use super::ring::Ring;
use crate::SysError;
use std::ops::Range;
use std::time::Duration;

/// Most frames that are lent at a time.
pub const FRAMES_MAX: usize = 256;

/// Bytes that frames of several slots are copied to.
const COPIES_BYTES: usize = 1 << 20;

/// Looks at a port that is emptied before the start: what comes faster is not waited for.
const DISCARDS_MAX: usize = 64;

/// A frame that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slotted {
    /// Where it begins in [`ReceiveRing::memory`].
    pub offset: usize,
    /// Its length.
    pub bytes: u32,
}

/// One receive ring of a port. With as many buffers beyond its own as frames are lent at a time it
/// has all its slots also while they are lent.
pub struct ReceiveRing {
    ring: Ring,
    /// The first slot that is not given back.
    head: u32,
    /// The first that was not lent.
    next: u32,
    /// Slots in front of it are ours, at the last look.
    tail: u32,
    frames: Vec<Slotted>,
    copies: Vec<u8>,
    /// The frames of the last burst are in the copies.
    is_copied: bool,
    has_ended: bool,
}

impl ReceiveRing {
    /// Takes a ring of a port. From now on the port gives its frames to it.
    ///
    /// # Errors
    /// The kernel refuses, or its memory is laid out as it cannot be.
    pub fn take(
        control: Box<dyn Control>,
        port: &str,
        ring: RingChoice,
    ) -> Result<ReceiveRing, SysError> {
        let extra_buffers = FRAMES_MAX as u32;
        let request = Register { port: port.to_owned(), ring, way: Way::Receive, extra_buffers };
        let ring = Ring::take(control, &request)?;
        let head = ring.cursor(ring::HEAD)?;
        Ok(ReceiveRing {
            ring,
            head,
            next: head,
            tail: head,
            frames: Vec::with_capacity(FRAMES_MAX),
            copies: Vec::new(),
            is_copied: false,
            has_ended: false,
        })
    }

    /// Throws away what came.
    ///
    /// # Errors
    /// The port is gone, or its memory is damaged.
    pub fn discard(&mut self) -> Result<(), SysError> {
        self.end_loan();
        for _ in 0..DISCARDS_MAX {
            self.sync()?;
            if self.next == self.tail {
                break;
            }
            self.next = self.tail;
        }
        Ok(())
    }

    /// Lends the next frames, and gives back the last: how many there are.
    ///
    /// # Errors
    /// The port is gone, or its memory is damaged: the error names the slot.
    pub fn receive(&mut self) -> Result<usize, SysError> {
        self.end_loan();
        if !self.has_ended && self.wants_sync()? {
            self.sync()?;
        }
        while self.frames.len() < FRAMES_MAX && self.next != self.tail {
            let Some(count) = self.slots_of_frame()? else { break };
            let is_chain = count > 1;
            if is_chain != self.is_copied && !self.frames.is_empty() {
                break;
            }
            if is_chain && !self.copy(count)? {
                break;
            }
            if !is_chain {
                self.lend()?;
            }
            self.is_copied = is_chain;
            self.next = self.ring.after(self.next, count);
        }
        let is_free = self.is_copied || self.ring.has_spare;
        if is_free && !self.has_ended && self.is_half_used() {
            // What is wrong with it, the next receiving tells: these frames are good.
            let _ = self.sync();
        }
        Ok(self.frames.len())
    }

    /// Takes what is there, for [`receive`](Self::receive) to lend, and nothing that comes later:
    /// how many frames.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn finish(&mut self) -> Result<u64, SysError> {
        self.end_loan();
        self.sync()?;
        self.has_ended = true;
        let (mut frames, mut at) = (0, self.next);
        while at != self.tail {
            let (_, goes_on) = self.ring.slot(at)?;
            frames += u64::from(!goes_on);
            at = self.ring.after(at, 1);
        }
        Ok(frames)
    }

    /// The frames that are lent.
    pub fn frames(&self) -> impl Iterator<Item = Slotted> + '_ {
        self.frames.iter().copied()
    }

    /// The memory that they lie in.
    pub fn memory(&self) -> &[u8] {
        if self.is_copied { &self.copies } else { self.ring.bytes() }
    }

    /// True if no frame waits.
    pub fn is_empty(&mut self) -> bool {
        self.end_loan();
        // What is wrong with it, the next receiving tells.
        if self.next == self.tail && !self.has_ended {
            let _ = self.sync();
        }
        self.next == self.tail
    }

    /// Waits for frames.
    ///
    /// # Errors
    /// The system refused.
    pub fn wait(&self, time: Duration) -> Result<(), SysError> {
        self.ring.wait(time)
    }

    /// The frames of the last burst are not looked at any more.
    fn end_loan(&mut self) {
        self.frames.clear();
        self.copies.clear();
        self.is_copied = false;
        self.ring.end_loan();
    }

    /// Lends the next slot's frame.
    fn lend(&mut self) -> Result<(), SysError> {
        let (range, _) = self.ring.slot(self.next)?;
        self.frames.push(Slotted { offset: range.start, bytes: range.len() as u32 });
        // After the end no slot is given back.
        if self.ring.has_spare && !self.has_ended {
            self.ring.exchange(self.next)?;
        }
        Ok(())
    }

    /// Nothing whole is there, or half of the ring is to be given back.
    fn wants_sync(&self) -> Result<bool, SysError> {
        let is_empty = self.next == self.tail || self.slots_of_frame()?.is_none();
        Ok(is_empty || self.is_half_used())
    }

    fn is_half_used(&self) -> bool {
        self.ring.distance(self.head, self.next) >= self.ring.slots / 2
    }

    /// Gives back what was lent, and looks what came.
    fn sync(&mut self) -> Result<(), SysError> {
        self.head = self.next;
        self.tail = self.ring.sync(self.head)?;
        Ok(())
    }

    /// Slots of the next frame; `None` if its end has not come.
    fn slots_of_frame(&self) -> Result<Option<usize>, SysError> {
        let mut at = self.next;
        for count in 1..=FRAGMENTS_MAX {
            let (_, goes_on) = self.ring.slot(at)?;
            if !goes_on {
                return Ok(Some(count));
            }
            at = self.ring.after(at, 1);
            if at == self.tail {
                return Ok(None);
            }
        }
        Err(wrong(&self.ring.name, "the slots of a frame", FRAGMENTS_MAX as u64 + 1))
    }

    /// Copies the next frame, of `count` slots; false if there is no room for it now.
    fn copy(&mut self, count: usize) -> Result<bool, SysError> {
        let offset = self.copies.len();
        let ranges = (0..count).map(|step| self.ring.slot(self.ring.after(self.next, step)));
        let ranges = ranges.map(|slot| slot.map(|(range, _)| range));
        let ranges: Vec<Range<usize>> = ranges.collect::<Result<_, _>>()?;
        let bytes: usize = ranges.iter().map(Range::len).sum();
        if offset > 0 && offset + bytes > COPIES_BYTES {
            return Ok(false);
        }
        for range in ranges {
            self.copies.extend_from_slice(&self.ring.bytes()[range]);
        }
        self.frames.push(Slotted { offset, bytes: bytes as u32 });
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
