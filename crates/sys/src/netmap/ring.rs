//! A ring of a port, of either way, and the buffers beyond it.

use super::layout::{FIRST_BUFFER, interface, ring, slot};
use super::memory::{Buffers, View, wrong};
use super::request::{Control, Register, RingChoice, Way};
use crate::SysError;
use crate::mmap::Mapping;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most bytes of netmap's memory: what it has on the largest machines.
const MEMORY_MAX: u64 = 64 << 30;

/// A ring that was taken. Its buffers beyond those of its slots go back to the kernel with it.
pub(super) struct Ring {
    control: Box<dyn Control>,
    memory: Mapping,
    pub name: String,
    way: Way,
    /// Where the port's interface and the ring begin.
    interface: usize,
    base: usize,
    pub slots: u32,
    pub buffers: Buffers,
    /// Buffers of ours that hold nothing.
    spare: Vec<u32>,
    /// Those that were in slots before, and hold what is lent.
    lent: Vec<u32>,
    /// There are as many as were wanted.
    pub has_spare: bool,
}

impl Ring {
    pub fn take(mut control: Box<dyn Control>, request: &Register) -> Result<Ring, SysError> {
        let name = format!("netmap {}, {}", request.port, words(request));
        let refused = |error| SysError::io(name.clone(), error);
        let registered = control.register(request).map_err(refused)?;
        let within = registered.memory_bytes <= MEMORY_MAX;
        let bytes = usize::try_from(registered.memory_bytes).ok().filter(|_| within);
        let bytes = bytes.ok_or_else(|| wrong(&name, "its memory", registered.memory_bytes))?;
        let memory = control.map(bytes)?;
        let view = View { memory: &memory, name: &name };
        let base = view.ring(registered.offset, request.way, request.ring)?;
        let (slots, buffers) = view.geometry(base)?;
        let mut ring = Ring {
            control,
            memory,
            name,
            way: request.way,
            interface: registered.offset as usize,
            base,
            slots,
            buffers,
            spare: Vec::new(),
            lent: Vec::new(),
            has_spare: false,
        };
        let wanted = request.extra_buffers;
        ring.take_extra(registered.extra_buffers.min(wanted))?;
        ring.has_spare = wanted > 0 && ring.spare.len() == wanted as usize;
        Ok(ring)
    }

    pub fn view(&self) -> View<'_> {
        View { memory: &self.memory, name: &self.name }
    }

    /// A cursor as it lies in the ring.
    pub fn cursor(&self, field: usize) -> Result<u32, SysError> {
        self.view().cursor(self.base + field, self.slots)
    }

    /// Tells the kernel that all in front of `head` is its again, and asks how far what is ours
    /// goes.
    pub fn sync(&mut self, head: u32) -> Result<u32, SysError> {
        for at in [ring::HEAD, ring::CUR] {
            self.view().word(self.base + at)?.store(head, Ordering::Release);
        }
        let done = self.control.sync(self.way);
        done.map_err(|error| SysError::io(self.name.clone(), error))?;
        self.cursor(ring::TAIL)
    }

    pub fn wait(&self, time: Duration) -> Result<(), SysError> {
        self.control.wait(time).map_err(|error| SysError::io(self.name.clone(), error))
    }

    pub fn after(&self, slot: u32, count: usize) -> u32 {
        ((u64::from(slot) + count as u64) % u64::from(self.slots)) as u32
    }

    /// Slots from one on to another.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.slots - from) % self.slots
    }

    fn slot_at(&self, index: u32) -> usize {
        self.base + ring::HEADER_BYTES + index as usize * slot::BYTES
    }

    /// Where the buffer of a slot lies, from the slot's offset on.
    pub fn room(&self, index: u32) -> Result<Range<usize>, SysError> {
        let (at, view, buffers) = (self.slot_at(index), self.view(), self.buffers);
        let buffer = view.number(at + slot::BUFFER)?;
        if !self.is_buffer(buffer) {
            return Err(wrong(&self.name, &format!("the buffer of slot {index}"), buffer.into()));
        }
        let offset = view.pointer(at)? & buffers.offset_mask;
        if offset > buffers.bytes.into() {
            return Err(wrong(&self.name, &format!("the offset of slot {index}"), offset));
        }
        let start = self.buffer_at(buffer);
        Ok(start + offset as usize..start + buffers.bytes as usize)
    }

    /// Where the bytes of a slot lie, and whether its frame goes on in the next.
    pub fn slot(&self, index: u32) -> Result<(Range<usize>, bool), SysError> {
        let lengths = self.view().number(self.slot_at(index) + slot::LENGTH)?;
        // Both are half a word, whose lower half comes first here.
        let (bytes, flags) = ((lengths & 0xffff) as usize, (lengths >> 16) as u16);
        let room = self.room(index)?;
        if bytes > room.len() {
            return Err(wrong(&self.name, &format!("the length of slot {index}"), bytes as u64));
        }
        Ok((room.start..room.start + bytes, flags & slot::MORE_FRAGMENTS != 0))
    }

    /// Says how much a slot holds.
    pub fn fill(&self, index: u32, bytes: usize, flags: u16) -> Result<(), SysError> {
        let lengths = bytes as u32 & 0xffff | u32::from(flags) << 16;
        self.view().word(self.slot_at(index) + slot::LENGTH)?.store(lengths, Ordering::Relaxed);
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long, and lives as long. The kernel writes to buffers that are
        // its own, by a call that takes the ring exclusively; what is looked at is in others.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }

    /// A buffer to write to, by [`room`](Self::room).
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.memory.len());
        // SAFETY: it lies within the mapping, and no other thread has the ring meanwhile; the
        // kernel leaves alone what is ours until the next call, which takes the ring exclusively.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_ptr().add(range.start), range.len())
        }
    }

    /// Puts a spare buffer into a slot whose own is lent on, so that the slot can be given back.
    pub fn exchange(&mut self, index: u32) -> Result<(), SysError> {
        let Some(spare) = self.spare.pop() else { return Ok(()) };
        let at = self.slot_at(index) + slot::BUFFER;
        let lent = self.view().word(at)?.swap(spare, Ordering::Relaxed);
        self.lent.push(lent);
        self.fill(index, 0, slot::BUFFER_CHANGED)
    }

    /// Nothing is lent any more.
    pub fn end_loan(&mut self) {
        self.spare.append(&mut self.lent);
    }

    fn is_buffer(&self, index: u32) -> bool {
        (FIRST_BUFFER..self.buffers.count).contains(&index)
    }

    fn buffer_at(&self, index: u32) -> usize {
        self.buffers.base + index as usize * self.buffers.bytes as usize
    }

    /// Takes the list of buffers that the kernel left at the interface.
    fn take_extra(&mut self, count: u32) -> Result<(), SysError> {
        let mut at = self.interface + interface::EXTRA_BUFFERS;
        for _ in 0..count {
            let buffer = self.view().number(at)?;
            if !self.is_buffer(buffer) {
                return Err(wrong(&self.name, "a buffer beyond the ring's", buffer.into()));
            }
            self.spare.push(buffer);
            at = self.buffer_at(buffer);
        }
        Ok(())
    }

    /// Leaves the list as it was: the kernel frees what is in it when the port is let go.
    fn give_extra_back(&mut self) -> Result<(), SysError> {
        self.end_loan();
        let mut at = self.interface + interface::EXTRA_BUFFERS;
        for &buffer in &self.spare {
            self.view().word(at)?.store(buffer, Ordering::Relaxed);
            at = self.buffer_at(buffer);
        }
        self.view().word(at)?.store(0, Ordering::Release);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.spare.is_empty() || !self.lent.is_empty() {
            // Offsets that were good when they were taken.
            let _ = self.give_extra_back();
        }
    }
}

fn words(request: &Register) -> String {
    let way = match request.way {
        Way::Receive => "ring",
        Way::Transmit => "transmit ring",
    };
    match request.ring {
        RingChoice::Card(ring) => format!("{way} {ring}"),
        RingChoice::Host(ring) => format!("{way} {ring} of the host"),
    }
}
