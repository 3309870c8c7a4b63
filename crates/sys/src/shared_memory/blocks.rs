//! Who may touch which bytes of a block, and the values that say so.
//!
//! A block is *taken* by one writer, whose bytes from the block's start on become visible in order;
//! what is visible is lent, and not written again before the block is taken anew. It can be taken
//! when all that a writer was given of it is visible and none of it is lent. That is one atomic
//! word for each block, changed by read-modify-write operations only: a thread that acquires it
//! sees what everyone did who released it before.

use super::{PIECE_BYTES, SharedMemory};
use crate::sync::{AtomicU64, Ordering};
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::Arc;

/// Largest block: that of a capture ring, and within what the fields of a block's word hold.
pub const BLOCK_BYTES_MAX: usize = 8 << 20;

/// Loans of a block at a time. A lossless reader has one or two.
const LOANS_MAX: u64 = 0xffff;
/// One byte that was given to a writer.
const GIVEN: u64 = 1 << 16;
/// Given, while the writer may give itself more: no block has that many bytes.
const GIVING: u64 = 0xff_ffff;
/// One byte that is visible.
const VISIBLE: u64 = 1 << 40;

const _: () = assert!(BLOCK_BYTES_MAX < GIVING as usize);

/// Loans (16 bits), bytes given to a writer (24), visible bytes (24).
#[derive(Default)]
pub(super) struct State(AtomicU64);

impl State {
    fn visible(word: u64) -> usize {
        (word / VISIBLE) as usize
    }

    /// A writer takes the block; false if it has one, or a byte is lent or was never shown.
    pub(super) fn take(&self) -> bool {
        let taken = |word: u64| {
            let is_free = word & LOANS_MAX == 0 && (word / GIVEN) & GIVING == word / VISIBLE;
            is_free.then_some(GIVING * GIVEN)
        };
        // Acquire: the loads of all borrowers come before the writer's stores.
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, taken).is_ok()
    }

    /// The writer of the block, who was given this number of bytes, takes no more.
    pub(super) fn leave(&self, given: usize) {
        self.0.fetch_sub((GIVING - given as u64) * GIVEN, Ordering::Release);
    }

    /// The `bytes` after the first `visible` ones, of the thread that wrote them, become visible.
    ///
    /// # Panics
    /// If those before them are not visible.
    pub(super) fn show(&self, visible: usize, bytes: usize) {
        // What is before them was written by others, who see to it that it stays so.
        let found = State::visible(self.0.load(Ordering::Relaxed));
        assert_eq!(found, visible, "bytes of a block are shown in order");
        // Release: the bytes come before the count of them.
        self.0.fetch_add(bytes as u64 * VISIBLE, Ordering::Release);
    }

    /// Lends the first `to` bytes; false if they are not visible.
    pub(super) fn lend(&self, to: usize) -> bool {
        let lent = |word: u64| {
            let can_lend = State::visible(word) >= to && word & LOANS_MAX < LOANS_MAX;
            can_lend.then_some(word + 1)
        };
        // Acquire: see `show`.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, lent).is_ok()
    }

    /// A loan is over.
    pub(super) fn give_back(&self) {
        // Release: the borrower's loads come before the next writer's stores.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The right to write the bytes of a block, from those on that were given away or shown.
pub struct BlockTail {
    memory: Arc<SharedMemory>,
    start: NonNull<u8>,
    block: u32,
    block_bytes: u32,
    /// The tail begins here.
    given: u32,
}

// SAFETY: it points into the memory that it keeps, and shared memory belongs to no thread.
unsafe impl Send for BlockTail {}
// SAFETY: as above; a shared reference gives out nothing.
unsafe impl Sync for BlockTail {}

impl BlockTail {
    /// The bytes from offset `from` of the block to its end.
    ///
    /// # Panics
    /// If some of them are not of the tail any more.
    #[inline]
    pub fn bytes(&mut self, from: usize) -> &mut [u8] {
        let (given, block_bytes) = (self.given as usize, self.block_bytes as usize);
        assert!(given <= from && from <= block_bytes, "bytes that were given away");
        // SAFETY: they lie in the block by the assertion. No other thread has them: there is one
        // tail of a block (`State::take`), rooms were cut from before `given`, and what is lent
        // ends at what is visible, which is before it too. `&mut self` makes this its only slice.
        // Copies are made from other mappings.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from).as_ptr(), block_bytes - from) }
    }

    /// Makes all bytes up to offset `to` visible: they can be lent, and not be written any more.
    ///
    /// # Panics
    /// If a room before them is not shown, or the block ends before them.
    pub fn show(&mut self, to: usize) {
        let from = self.given as usize;
        let bytes = to.checked_sub(from).expect("shown bytes stay shown");
        self.cut(bytes);
        if bytes > 0 {
            self.memory.state(self.block as usize).show(from, bytes);
        }
    }

    /// Cuts the next `bytes` off: a room that another thread may fill.
    ///
    /// # Panics
    /// If the block has no room for them.
    pub fn cut_room(&mut self, bytes: usize) -> Room {
        let from = self.given;
        self.cut(bytes);
        Room { memory: self.memory.id, block: self.block, from, bytes: self.given - from }
    }

    fn cut(&mut self, bytes: usize) {
        let room = self.block_bytes - self.given;
        assert!(bytes <= room as usize, "{bytes} bytes of {room} that are left");
        self.given += bytes as u32;
    }
}

impl Drop for BlockTail {
    fn drop(&mut self) {
        self.memory.state(self.block as usize).leave(self.given as usize);
    }
}

/// Part of a block that its holder alone may write, until it is shown. Reached through the memory
/// that it lies in. A room that is dropped instead keeps its block from being taken ever again.
#[derive(Debug)]
#[must_use = "what comes after it in the block cannot be shown before it"]
pub struct Room {
    memory: NonZeroU64,
    block: u32,
    from: u32,
    bytes: u32,
}

/// Visible bytes of blocks that follow each other: they stay as they are while this lives.
pub struct LentBytes {
    memory: Arc<SharedMemory>,
    start: NonNull<u8>,
    length: usize,
    first: usize,
    blocks: usize,
}

// SAFETY: it points into the memory that it keeps; the bytes do not change.
unsafe impl Send for LentBytes {}
// SAFETY: as above.
unsafe impl Sync for LentBytes {}

impl LentBytes {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they were visible when they were lent, and their blocks cannot be taken again
        // before they are given back (`State::take`), which takes the end of `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Which of the [`pieces`](super::pieces) they lie in; `None` if in two.
    pub fn piece(&self) -> Option<usize> {
        let from = self.start.as_ptr() as usize - self.memory.block(0).as_ptr() as usize;
        let last = from + self.length.saturating_sub(1);
        (from / PIECE_BYTES == last / PIECE_BYTES).then_some(from / PIECE_BYTES)
    }

    /// True if they are of `memory`.
    pub(crate) fn is_of(&self, memory: &SharedMemory) -> bool {
        self.memory.id == memory.id
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        (self.first..self.first + self.blocks)
            .for_each(|block| self.memory.state(block).give_back());
    }
}

impl SharedMemory {
    /// # Panics
    /// In memory that was attached to.
    fn state(&self, block: usize) -> &State {
        &self.states.as_ref().expect("only an owner lends and writes")[block]
    }

    /// The right to write a block anew; `None` while a byte of it is lent, or not all that its last
    /// writer was given is visible.
    ///
    /// # Panics
    /// If there is no such block, or the memory was attached to.
    pub fn take(self: &Arc<SharedMemory>, block: usize) -> Option<BlockTail> {
        let (start, block_bytes) = (self.block(block), self.shape.block_bytes as u32);
        self.state(block).take().then(|| {
            let memory = self.clone();
            BlockTail { memory, start, block: block as u32, block_bytes, given: 0 }
        })
    }

    /// Bytes `from..to`, counted from the start of a block; they may go on into the next ones.
    /// `None` if they are not all visible.
    ///
    /// # Panics
    /// As [`take`](SharedMemory::take), or if the bytes go beyond the last block.
    pub fn lend(
        self: &Arc<SharedMemory>,
        block: usize,
        from: usize,
        to: usize,
    ) -> Option<LentBytes> {
        let block_bytes = self.shape.block_bytes;
        let room = (self.shape.blocks - block) * block_bytes;
        assert!(from <= to && to <= room, "{from} to {to} of {room} bytes");
        let end = block + to.div_ceil(block_bytes).max(1);
        // SAFETY: the bytes lie within the blocks, by the assertion.
        let start = unsafe { self.block(block).add(from) };
        let (memory, length) = (self.clone(), to - from);
        let mut lent = LentBytes { memory, start, length, first: block, blocks: 0 };
        for next in block..end {
            let visible = (to - (next - block) * block_bytes).min(block_bytes);
            if !self.state(next).lend(visible) {
                return None;
            }
            lent.blocks += 1;
        }
        Some(lent)
    }

    /// The bytes of a room, to fill them.
    ///
    /// # Panics
    /// If it is of another memory.
    #[inline]
    pub fn room_bytes<'r>(&'r self, room: &'r mut Room) -> &'r mut [u8] {
        assert_eq!(room.memory, self.id, "a room of this memory");
        let start = self.block(room.block as usize);
        // SAFETY: the room was cut from a block of this memory, which has it (`cut_room`). Rooms
        // are cut from disjoint bytes, and the block cannot be taken again, nor these bytes be
        // lent, before the room is shown, by value. Copies are made from other mappings.
        unsafe {
            let first = start.add(room.from as usize).as_ptr();
            std::slice::from_raw_parts_mut(first, room.bytes as usize)
        }
    }

    /// Makes a room visible: its bytes can be lent, and not be written any more.
    ///
    /// # Panics
    /// If it is of another memory, or what lies before it in its block is not visible.
    pub fn show(&self, room: Room) {
        assert_eq!(room.memory, self.id, "a room of this memory");
        self.state(room.block as usize).show(room.from as usize, room.bytes as usize);
    }
}
