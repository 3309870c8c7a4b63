//! Memory that a process shares with others: words, then blocks of bytes.
//!
//! A memfd, mapped by its owner to write and by others to read. Safe code cannot misuse it:
//!
//! - The **words** at its beginning are atomic, for everybody. Memory that was attached to is
//!   mapped to read: a store there ends the process by a signal, and changes nothing.
//! - The **blocks** behind them are bytes that one thread at a time may write, each byte once, and
//!   that are lent once they are written. The owner keeps for each block what is written of it and
//!   to whom it is lent, in memory of its own that no other process reaches, and checks it with
//!   each loan ([`BlockTail`], [`Room`], [`LentBytes`]). A protocol that decides by the words who
//!   may do what never meets a refusal; where it is wrong, that is a panic and no damage.
//! - Others only copy bytes out, from a mapping that no writer stores through, and find out from
//!   the words what a copy is worth.

mod blocks;
mod mapping;
#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;

pub use blocks::{BLOCK_BYTES_MAX, BlockTail, LentBytes, Room};
pub use mapping::{HugePages, is_sealed};

use crate::sync::{AtomicU64, Ordering};
use blocks::State;
use rustix::fs::fstat;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
// Of the mapping that is copied out of, which is no part of loom's models.
use std::sync::atomic::AtomicU64 as MappedU64;

/// Largest piece of memory that io_uring registers as one buffer (io_buffer_validate).
pub const PIECE_BYTES: usize = 1 << 30;

/// What the blocks' beginning is a multiple of, so that they can go to a disk past the page cache.
pub const PAGE_BYTES: usize = 4096;

/// The parts of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the words, a multiple of [`PAGE_BYTES`].
    pub words_bytes: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Bytes of each, at most [`BLOCK_BYTES_MAX`].
    pub block_bytes: usize,
    /// Bytes of the memory: at least those of words and blocks.
    pub total_bytes: usize,
}

impl Shape {
    /// # Errors
    /// The parts do not fit (`InvalidInput`).
    fn check(&self) -> io::Result<()> {
        let blocks_bytes = self.blocks.checked_mul(self.block_bytes);
        let end = blocks_bytes.and_then(|bytes| bytes.checked_add(self.words_bytes));
        let fits = end.is_some_and(|end| end <= self.total_bytes)
            && self.words_bytes.is_multiple_of(PAGE_BYTES)
            && (1..=BLOCK_BYTES_MAX).contains(&self.block_bytes)
            && u32::try_from(self.blocks).is_ok()
            && isize::try_from(self.total_bytes).is_ok();
        fits.then_some(()).ok_or(io::ErrorKind::InvalidInput.into())
    }
}

/// Shared memory, mapped.
pub struct SharedMemory {
    shape: Shape,
    base: NonNull<u8>,
    is_huge: bool,
    memfd: OwnedFd,
    /// No other memory of this process has it.
    id: NonZeroU64,
    /// Of each block; `None` in memory that was attached to, of which nothing is lent.
    states: Option<Box<[State]>>,
}

// SAFETY: the memory owns its mapping, which belongs to no thread. What is shared in it is reached
// as atomic words, or by loans that `State` keeps apart, or copied out of a mapping that no thread
// stores through.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of zeros, touched (first touch costs ten to fifty times a copy).
    ///
    /// # Errors
    /// Not enough memory, or parts that do not fit.
    pub fn create(shape: Shape, huge_pages: HugePages) -> io::Result<SharedMemory> {
        shape.check()?;
        let (base, memfd, is_huge) = mapping::create(shape.total_bytes, huge_pages)?;
        Ok(SharedMemory::owned(shape, base, memfd, is_huge))
    }

    /// New memory of zeros that takes no space before it is written.
    ///
    /// # Errors
    /// As [`create`](SharedMemory::create).
    pub fn create_untouched(shape: Shape) -> io::Result<SharedMemory> {
        shape.check()?;
        let (base, memfd) = mapping::create_untouched(shape.total_bytes)?;
        Ok(SharedMemory::owned(shape, base, memfd, false))
    }

    fn owned(shape: Shape, base: NonNull<u8>, memfd: OwnedFd, is_huge: bool) -> SharedMemory {
        let states = Some((0..shape.blocks).map(|_| State::default()).collect());
        SharedMemory { shape, base, is_huge, memfd, id: next_id(), states }
    }

    /// The memory behind `memfd`, to read, of an owner who does not shrink it (see [`is_sealed`]):
    /// then a read would end this process by SIGBUS.
    ///
    /// # Errors
    /// It is smaller than the parts, or cannot be mapped.
    pub fn attach(memfd: OwnedFd, shape: Shape) -> io::Result<SharedMemory> {
        shape.check()?;
        let status = fstat(&memfd)?;
        if usize::try_from(status.st_size).is_ok_and(|bytes| bytes < shape.total_bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (base, is_huge) = mapping::attach(&memfd, shape.total_bytes, &status)?;
        Ok(SharedMemory { shape, base, is_huge, memfd, id: next_id(), states: None })
    }

    /// The shared memory, for [`attach`](SharedMemory::attach) in another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// From now on no process can map the memory to write, nor change its size. This mapping stays.
    ///
    /// # Errors
    /// The system refuses.
    pub fn seal(&self) -> io::Result<()> {
        mapping::seal(&self.memfd)
    }

    /// True if the memory lies in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.is_huge
    }

    /// `count` words from byte `from` of the memory on.
    ///
    /// # Panics
    /// If they are not all words of [`Shape::words_bytes`], or `from` is no multiple of 8. Under
    /// loom, whose words lie in no memory of ours.
    #[inline]
    pub fn words(&self, from: usize, count: usize) -> &[AtomicU64] {
        let room = self.shape.words_bytes.checked_sub(from).map(|bytes| bytes / 8);
        let fits = from.is_multiple_of(8) && room.is_some_and(|words| count <= words);
        assert!(
            fits && !cfg!(feature = "loom"),
            "{count} words at {from} of {}",
            self.shape.words_bytes
        );
        // SAFETY: in bounds and aligned by the assertion, as the mapping begins at a page; atomic
        // words have no wrong bytes, and nothing else is made of this part of the memory.
        unsafe {
            let first = self.base.add(from).cast::<AtomicU64>().as_ptr();
            std::slice::from_raw_parts(first, count)
        }
    }

    /// First byte of a block.
    fn block(&self, block: usize) -> NonNull<u8> {
        assert!(block < self.shape.blocks, "block {block} of {}", self.shape.blocks);
        // SAFETY: the block lies within the mapping, by the assertion and `Shape::check`.
        unsafe { self.base.add(self.shape.words_bytes + block * self.shape.block_bytes) }
    }

    /// Appends bytes `from..to` of a block to `buffer`. In memory that was attached to somebody may
    /// be writing them: the caller then finds out from the words what the copy is worth. In own
    /// memory, nothing is appended unless all of them are written.
    ///
    /// # Panics
    /// If there are no such bytes.
    pub fn copy_out(&self, block: usize, from: usize, to: usize, buffer: &mut Vec<u8>) {
        assert!(from <= to && to <= self.shape.block_bytes);
        let start = self.block(block);
        let state = self.states.as_ref().map(|states| &states[block]);
        if state.is_some_and(|state| !state.lend(to)) {
            return;
        }
        let length = to - from;
        buffer.reserve(length);
        let out = buffer.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the range lies in the block by the assertion, `out` has room for it, and the two
        // do not overlap; all `length` bytes are set. In own memory they are lent meanwhile.
        unsafe {
            copy_words(start.add(from).as_ptr(), out, length);
            buffer.set_len(buffer.len() + length);
        }
        if let Some(state) = state {
            state.give_back();
        }
    }

    /// The blocks in the [`pieces`] that io_uring takes as registered buffers.
    pub(crate) fn piece_pointers(&self) -> Vec<(NonNull<u8>, usize)> {
        // SAFETY: the blocks lie within the mapping, and so do the pieces of them.
        let at = |offset| unsafe { self.base.add(self.shape.words_bytes + offset) };
        let blocks_bytes = self.shape.blocks * self.shape.block_bytes;
        pieces(blocks_bytes).map(|(offset, bytes)| (at(offset), bytes)).collect()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length; what borrows from it keeps `self` alive or
        // is reached through it only.
        unsafe { mapping::unmap(self.base, self.shape.total_bytes) };
    }
}

/// This number of bytes of blocks in pieces of at most [`PIECE_BYTES`]: offset from the first block
/// and length. No block of a size that divides a piece lies in two.
pub fn pieces(blocks_bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..blocks_bytes)
        .step_by(PIECE_BYTES)
        .map(move |offset| (offset, PIECE_BYTES.min(blocks_bytes - offset)))
}

fn next_id() -> NonZeroU64 {
    static LAST: MappedU64 = MappedU64::new(0);
    let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    NonZeroU64::new(id).expect("2^64 memories are more than there is time for")
}

/// Copies bytes that somebody may be changing: the result is then worthless, but nothing worse.
///
/// No writer stores through the mapping that is read here, so for the language the bytes change
/// from outside, whether the writer's process is another one or this one: its plain stores are
/// accesses to other addresses, and no data race. Each byte that is loaded is one that lay there at
/// some time, as the hardware has it. That the loads are atomic orders them: an acquire fence of
/// the caller holds them before its look at the words, which it does not promise for volatile ones,
/// and each word is loaded once. As instructions both are the same. Were the writer's stores atomic
/// too, one mapping would do, but the copy into the ring would be by words
/// (bench/record/2026-11-25/ring-words.txt).
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `length` bytes; they do not overlap.
unsafe fn copy_words(from: *const u8, to: *mut u8, length: usize) {
    use std::sync::atomic::AtomicU8;
    const WORD: usize = size_of::<MappedU64>();
    let head = from.align_offset(WORD).min(length);
    let words_end = head + (length - head) / WORD * WORD;
    let single = (0..head).chain(words_end..length);
    // SAFETY: every index is below `length`; words are read from aligned addresses and written
    // unaligned. Any bytes are a value, and relaxed loads work in read-only memory too.
    unsafe {
        for index in single {
            let byte = (*from.add(index).cast::<AtomicU8>()).load(Ordering::Relaxed);
            to.add(index).write(byte);
        }
        for index in (head..words_end).step_by(WORD) {
            let word = (*from.add(index).cast::<MappedU64>()).load(Ordering::Relaxed);
            to.add(index).cast::<u64>().write_unaligned(word);
        }
    }
}
