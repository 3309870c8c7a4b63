//! A receive ring: frames lent where they lie.

use super::layout::{FIRST_BUFFER, FRAGMENTS_MAX, interface, ring, slot};
use super::request::{Control, Register, RingChoice};
use crate::SysError;
use crate::mmap::Mapping;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Most frames that are lent at a time.
pub const FRAMES_MAX: usize = 256;

/// Most bytes of netmap's memory: what it has on the largest machines.
const MEMORY_MAX: u64 = 64 << 30;

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

/// One receive ring of a port.
pub struct ReceiveRing {
    control: Box<dyn Control>,
    memory: Mapping,
    name: String,
    /// Where it begins.
    base: usize,
    slots: u32,
    buffers: Buffers,
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

#[derive(Clone, Copy, Debug)]
struct Buffers {
    base: usize,
    bytes: u32,
    count: u32,
    offset_mask: u64,
}

impl ReceiveRing {
    /// Takes a ring of a port. From now on the port gives its frames to it.
    ///
    /// # Errors
    /// The kernel refuses, or its memory is laid out as it cannot be.
    pub fn take(
        mut control: Box<dyn Control>,
        request: &Register,
    ) -> Result<ReceiveRing, SysError> {
        let name = format!("netmap {}, ring {}", request.port, number(request.ring));
        let refused = |error| SysError::io(name.clone(), error);
        let registered = control.register(request).map_err(refused)?;
        let within = registered.memory_bytes <= MEMORY_MAX;
        let bytes = usize::try_from(registered.memory_bytes).ok().filter(|_| within);
        let bytes = bytes.ok_or_else(|| wrong(&name, "its memory", registered.memory_bytes))?;
        let memory = control.map(bytes)?;
        let view = View { memory: &memory, name: &name };
        let base = view.ring(registered.offset, request.ring)?;
        let (slots, buffers) = view.geometry(base)?;
        let head = view.cursor(base + ring::HEAD, slots)?;
        Ok(ReceiveRing {
            control,
            memory,
            name,
            base,
            slots,
            buffers,
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
        self.frames.clear();
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
        self.frames.clear();
        self.copies.clear();
        self.is_copied = false;
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
                let (range, _) = self.slot(self.next)?;
                self.frames.push(Slotted { offset: range.start, bytes: range.len() as u32 });
            }
            self.is_copied = is_chain;
            self.next = self.after(self.next, count);
        }
        Ok(self.frames.len())
    }

    /// Takes what is there, for [`receive`](Self::receive) to lend, and nothing that comes later:
    /// how many frames.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn finish(&mut self) -> Result<u64, SysError> {
        self.frames.clear();
        self.sync()?;
        self.has_ended = true;
        let (mut frames, mut at) = (0, self.next);
        while at != self.tail {
            let (_, goes_on) = self.slot(at)?;
            frames += u64::from(!goes_on);
            at = self.after(at, 1);
        }
        Ok(frames)
    }

    /// The frames that are lent.
    pub fn frames(&self) -> impl Iterator<Item = Slotted> + '_ {
        self.frames.iter().copied()
    }

    /// The memory that they lie in.
    pub fn memory(&self) -> &[u8] {
        if self.is_copied {
            return &self.copies;
        }
        // SAFETY: the mapping is as long, and lives as long. The kernel writes to buffers that were
        // given back, by a call that takes the ring exclusively; lent frames are in others.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }

    /// True if no frame waits.
    pub fn is_empty(&mut self) -> bool {
        self.frames.clear();
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
        self.control.wait(time).map_err(|error| SysError::io(self.name.clone(), error))
    }

    /// Nothing whole is there, or half of the ring is to be given back.
    fn wants_sync(&self) -> Result<bool, SysError> {
        let used = (self.next + self.slots - self.head) % self.slots;
        let is_empty = self.next == self.tail || self.slots_of_frame()?.is_none();
        Ok(is_empty || used >= self.slots / 2)
    }

    /// Gives back what was lent, and looks what came.
    fn sync(&mut self) -> Result<(), SysError> {
        self.head = self.next;
        for at in [ring::HEAD, ring::CUR] {
            self.view().word(self.base + at)?.store(self.head, Ordering::Release);
        }
        self.control.receive_sync().map_err(|error| SysError::io(self.name.clone(), error))?;
        self.tail = self.view().cursor(self.base + ring::TAIL, self.slots)?;
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { memory: &self.memory, name: &self.name }
    }

    fn after(&self, slot: u32, count: usize) -> u32 {
        ((u64::from(slot) + count as u64) % u64::from(self.slots)) as u32
    }

    /// Slots of the next frame; `None` if its end has not come.
    fn slots_of_frame(&self) -> Result<Option<usize>, SysError> {
        let mut at = self.next;
        for count in 1..=FRAGMENTS_MAX {
            let (_, goes_on) = self.slot(at)?;
            if !goes_on {
                return Ok(Some(count));
            }
            at = self.after(at, 1);
            if at == self.tail {
                return Ok(None);
            }
        }
        Err(wrong(&self.name, "the slots of a frame", FRAGMENTS_MAX as u64 + 1))
    }

    /// Copies the next frame, of `count` slots; false if there is no room for it now.
    fn copy(&mut self, count: usize) -> Result<bool, SysError> {
        let offset = self.copies.len();
        let ranges = (0..count).map(|step| self.slot(self.after(self.next, step)));
        let ranges = ranges.map(|slot| slot.map(|(range, _)| range));
        let ranges: Vec<Range<usize>> = ranges.collect::<Result<_, _>>()?;
        let bytes: usize = ranges.iter().map(Range::len).sum();
        if offset > 0 && offset + bytes > COPIES_BYTES {
            return Ok(false);
        }
        let mut copies = std::mem::take(&mut self.copies);
        self.is_copied = false;
        ranges.into_iter().for_each(|range| copies.extend_from_slice(&self.memory()[range]));
        self.copies = copies;
        self.frames.push(Slotted { offset, bytes: bytes as u32 });
        Ok(true)
    }

    /// Where the bytes of a slot lie, and whether its frame goes on in the next.
    fn slot(&self, index: u32) -> Result<(Range<usize>, bool), SysError> {
        let at = self.base + ring::HEADER_BYTES + index as usize * slot::BYTES;
        let (view, buffers) = (self.view(), self.buffers);
        let lengths = view.word(at + slot::LENGTH)?.load(Ordering::Relaxed);
        // Both are half a word, whose lower half comes first here.
        let (bytes, flags) = (lengths & 0xffff, (lengths >> 16) as u16);
        let buffer = view.word(at + slot::BUFFER)?.load(Ordering::Relaxed);
        let pointer = u64::from(view.word(at + slot::POINTER)?.load(Ordering::Relaxed))
            | u64::from(view.word(at + slot::POINTER + 4)?.load(Ordering::Relaxed)) << 32;
        let offset = pointer & buffers.offset_mask;
        if !(FIRST_BUFFER..buffers.count).contains(&buffer) {
            return Err(wrong(&self.name, &format!("the buffer of slot {index}"), buffer.into()));
        }
        if offset.saturating_add(bytes.into()) > buffers.bytes.into() {
            return Err(wrong(&self.name, &format!("the length of slot {index}"), bytes.into()));
        }
        let start = buffers.base + buffer as usize * buffers.bytes as usize + offset as usize;
        Ok((start..start + bytes as usize, flags & slot::MORE_FRAGMENTS != 0))
    }
}

fn number(choice: RingChoice) -> String {
    match choice {
        RingChoice::Card(ring) => ring.to_string(),
        RingChoice::Host(ring) => format!("{ring} of the host"),
    }
}

/// The kernel's memory says what cannot be.
fn wrong(name: &str, what: &str, value: u64) -> SysError {
    let text = format!("{what} cannot be {value}: its memory is damaged");
    SysError::io(name, io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Words of the memory, which the kernel may write at any time.
struct View<'m> {
    memory: &'m Mapping,
    name: &'m str,
}

impl<'m> View<'m> {
    fn word(&self, at: usize) -> Result<&'m AtomicU32, SysError> {
        let fits = at.checked_add(4).is_some_and(|end| end <= self.memory.len());
        if !fits || !at.is_multiple_of(4) {
            return Err(wrong(self.name, "an offset", at as u64));
        }
        // SAFETY: four bytes of the mapping, aligned (it begins at a page), which lives as long as
        // the reference; the kernel's writes to them are met by atomic access.
        Ok(unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) })
    }

    fn number(&self, at: usize) -> Result<u32, SysError> {
        Ok(self.word(at)?.load(Ordering::Acquire))
    }

    /// A number of 64 bits, added to `base`.
    fn offset(&self, base: usize, at: usize) -> Result<usize, SysError> {
        let (low, high) = (self.number(at)?, self.number(at + 4)?);
        let offset = (u64::from(high) << 32 | u64::from(low)) as i64;
        let sum = usize::try_from(base as i128 + i128::from(offset)).ok();
        sum.ok_or_else(|| wrong(self.name, "an offset", offset as u64))
    }

    fn cursor(&self, at: usize, slots: u32) -> Result<u32, SysError> {
        let cursor = self.number(at)?;
        if cursor < slots { Ok(cursor) } else { Err(wrong(self.name, "a cursor", cursor.into())) }
    }

    /// Where a ring begins.
    fn ring(&self, offset: u64, choice: RingChoice) -> Result<usize, SysError> {
        let base = usize::try_from(offset).map_err(|_| wrong(self.name, "an offset", offset))?;
        let count = |field: usize| {
            let at =
                base.checked_add(field).ok_or_else(|| wrong(self.name, "an offset", offset))?;
            self.number(at).map(u64::from)
        };
        let before = count(interface::TX_RINGS)? + count(interface::HOST_TX_RINGS)?;
        let (card, host) = (count(interface::RX_RINGS)?, count(interface::HOST_RX_RINGS)?);
        let (index, of) = match choice {
            RingChoice::Card(ring) => (u64::from(ring), card),
            RingChoice::Host(ring) => (card + u64::from(ring), card + host),
        };
        if index >= of {
            return Err(wrong(self.name, "the number of rings", of));
        }
        let at = base + interface::RING_OFFSETS + (before + index) as usize * 8;
        self.offset(base, at)
    }

    /// Slots of a ring, and its buffers.
    fn geometry(&self, base: usize) -> Result<(u32, Buffers), SysError> {
        let end = base.checked_add(ring::HEADER_BYTES).filter(|end| *end <= self.memory.len());
        let end = end.ok_or_else(|| wrong(self.name, "an offset", base as u64))?;
        let slots = self.number(base + ring::SLOTS)?;
        let room = (self.memory.len() - end) / slot::BYTES;
        if slots < 2 || slots as usize > room {
            return Err(wrong(self.name, "the number of slots", slots.into()));
        }
        let bytes = self.number(base + ring::BUFFER_BYTES)?;
        let first = self.offset(base, base + ring::BUFFERS)?;
        let room = self.memory.len().checked_sub(first);
        let count = room.and_then(|room| room.checked_div(bytes as usize));
        let count = count.and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(|| wrong(self.name, "the bytes of a buffer", bytes.into()))?;
        let (low, high) =
            (self.number(base + ring::OFFSET_MASK)?, self.number(base + ring::OFFSET_MASK + 4)?);
        let offset_mask = u64::from(high) << 32 | u64::from(low);
        Ok((slots, Buffers { base: first, bytes, count, offset_mask }))
    }
}

#[cfg(test)]
mod tests;
