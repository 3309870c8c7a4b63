//! Netmap's memory, as words that the kernel may write at any time.

use super::layout::{interface, ring, slot};
use super::request::{RingChoice, Way};
use crate::SysError;
use crate::mmap::Mapping;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the buffers lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    pub base: usize,
    /// Of one.
    pub bytes: u32,
    pub count: u32,
    /// Which bits of a slot's pointer are an offset.
    pub offset_mask: u64,
}

/// The memory, and in whose name it is wrong.
pub(super) struct View<'m> {
    pub memory: &'m Mapping,
    pub name: &'m str,
}

/// The kernel's memory says what cannot be.
pub(super) fn wrong(name: &str, what: &str, value: u64) -> SysError {
    let text = format!("{what} cannot be {value}: its memory is damaged");
    SysError::io(name, io::Error::new(io::ErrorKind::InvalidData, text))
}

impl<'m> View<'m> {
    pub fn word(&self, at: usize) -> Result<&'m AtomicU32, SysError> {
        let fits = at.checked_add(4).is_some_and(|end| end <= self.memory.len());
        if !fits || !at.is_multiple_of(4) {
            return Err(wrong(self.name, "an offset", at as u64));
        }
        // SAFETY: four bytes of the mapping, aligned (it begins at a page), which lives as long as
        // the reference; the kernel's writes to them are met by atomic access.
        Ok(unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) })
    }

    pub fn number(&self, at: usize) -> Result<u32, SysError> {
        Ok(self.word(at)?.load(Ordering::Acquire))
    }

    fn wide(&self, at: usize) -> Result<u64, SysError> {
        Ok(u64::from(self.number(at + 4)?) << 32 | u64::from(self.number(at)?))
    }

    /// A number of 64 bits, added to `base`.
    fn offset(&self, base: usize, at: usize) -> Result<usize, SysError> {
        let offset = self.wide(at)?.cast_signed();
        let sum = usize::try_from(base as i128 + i128::from(offset)).ok();
        sum.ok_or_else(|| wrong(self.name, "an offset", offset.cast_unsigned()))
    }

    pub fn cursor(&self, at: usize, slots: u32) -> Result<u32, SysError> {
        let cursor = self.number(at)?;
        if cursor < slots { Ok(cursor) } else { Err(wrong(self.name, "a cursor", cursor.into())) }
    }

    /// Where a ring begins, of the interface that begins at `offset`.
    pub fn ring(&self, offset: u64, way: Way, choice: RingChoice) -> Result<usize, SysError> {
        let base = usize::try_from(offset).map_err(|_| wrong(self.name, "an offset", offset))?;
        let count = |field: usize| {
            let at =
                base.checked_add(field).ok_or_else(|| wrong(self.name, "an offset", offset))?;
            self.number(at).map(u64::from)
        };
        let transmit = (count(interface::TX_RINGS)?, count(interface::HOST_TX_RINGS)?);
        let receive = (count(interface::RX_RINGS)?, count(interface::HOST_RX_RINGS)?);
        let (before, (card, host)) = match way {
            Way::Transmit => (0, transmit),
            Way::Receive => (transmit.0 + transmit.1, receive),
        };
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
    pub fn geometry(&self, base: usize) -> Result<(u32, Buffers), SysError> {
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
        let offset_mask = self.wide(base + ring::OFFSET_MASK)?;
        Ok((slots, Buffers { base: first, bytes, count, offset_mask }))
    }

    /// The pointer of a slot.
    pub fn pointer(&self, slot: usize) -> Result<u64, SysError> {
        self.wide(slot + slot::POINTER)
    }
}
