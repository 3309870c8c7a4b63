//! The hand-over of blocks between the kernel and this process.
//!
//! The kernel fills blocks in a circle and sets TP_STATUS_USER in a block's status word when it
//! may be read; the reader clears the word to give it back. Between the two, no other thread
//! touches the block. So there is one rule: the status word is read with acquire order before a
//! slice of the block is made, and written with release order after the last slice is gone.
//!
//! The status word is shared, and the number of frames behind it, which the kernel counts up in the
//! block that it fills. A block that goes back is marked empty, so that the number of one that the
//! kernel has not begun again is not that of its last turn. The kernel's side is played by `fake`
//! in the tests.

use super::layout::{BLOCK_FRAME_COUNT, BLOCK_STATUS, BODY};
use super::walk::{BlockWalk, FrameRules, Step};
use crate::mmap::Mapping;
use libc::{TP_STATUS_KERNEL, TP_STATUS_USER};
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{Batch, BatchOwner, Frame, FrameMeta, FrameSlot, Timestamp};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Decides whether a frame is lent; the frame is whole, with its tags in place.
pub type Keep<'k> = &'k mut dyn FnMut(&Frame<'_>) -> bool;

/// What `BlockRing::fill` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Frames are ready for `BlockRing::lend`.
    Frames,
    /// A block was read in which no frame was to be lent; there may be more.
    Rejected,
    /// The kernel has no block for us.
    Empty,
}

/// Frames that came out of the blocks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Lent in batches.
    pub lent: u64,
    /// Turned away by `keep`.
    pub rejected: u64,
    /// Left out, because their headers in the ring were impossible.
    pub damaged: u64,
    /// Among the lent: stamped earlier than the one before.
    pub inversions: u64,
}

impl BlockCounts {
    /// Every frame that was found in a block.
    pub fn handled(&self) -> u64 {
        self.lent + self.rejected + self.damaged
    }
}

/// The user's side of a ring of blocks.
pub(super) struct BlockRing {
    held: HeldBlock,
    walk: BlockWalk,
    rules: FrameRules,
    slots: Box<[FrameSlot; BATCH_FRAMES_MAX]>,
    /// Slots that hold a frame of the next batch.
    filled: usize,
    slots_lent: bool,
    counts: BlockCounts,
    last_stamp: Timestamp,
    newest_stamp: Timestamp,
}

impl BlockRing {
    /// A ring of `block_count` blocks in `memory`, read from the first.
    ///
    /// # Panics
    /// If the blocks are not the memory exactly, or too small to hold a block's header.
    pub(super) fn new(
        memory: Mapping,
        block_bytes: usize,
        block_count: usize,
        rules: FrameRules,
    ) -> BlockRing {
        assert!(block_bytes >= 4096 && block_bytes.is_multiple_of(8), "blocks are pages");
        assert_eq!(block_bytes.checked_mul(block_count), Some(memory.len()));
        BlockRing {
            held: HeldBlock {
                memory,
                block_bytes,
                block_count,
                index: Cell::new(0),
                holding: Cell::new(false),
                read: Cell::new(false),
            },
            walk: BlockWalk::default(),
            rules,
            slots: Box::new([FrameSlot::new(0, 0, FrameMeta::default()); BATCH_FRAMES_MAX]),
            filled: 0,
            slots_lent: false,
            counts: BlockCounts::default(),
            last_stamp: Timestamp(0),
            newest_stamp: Timestamp(0),
        }
    }

    /// Collects up to `BATCH_FRAMES_MAX` frames of one block for the next batch. Reads at most one
    /// block to its end, so it comes back also when `keep` rejects everything.
    pub(super) fn fill(&mut self, keep: Option<Keep<'_>>) -> Filled {
        if std::mem::take(&mut self.slots_lent) {
            self.filled = 0;
        }
        if self.filled > 0 {
            return Filled::Frames;
        }
        // Here no batch is out. One that was leaked instead of dropped gave nothing back.
        self.held.give_back_if_read();
        if !self.held.holding.get() {
            if !self.held.acquire() {
                return Filled::Empty;
            }
            self.walk = BlockWalk::begin(self.held.body_mut());
        }
        self.collect(keep);
        self.held.read.set(self.walk.is_done());
        if self.filled == 0 {
            self.held.give_back_if_read();
            return Filled::Rejected;
        }
        Filled::Frames
    }

    /// Walks on to the end of the block or of a batch.
    fn collect(&mut self, mut keep: Option<Keep<'_>>) {
        let body = self.held.body_mut();
        loop {
            let free = &mut self.slots[self.filled..];
            if keep.is_none() {
                let count = self.walk.run(body, &self.rules, free, self.last_stamp);
                if let Some(slot) = free[..count].last() {
                    self.last_stamp = slot.timestamp();
                    self.newest_stamp = self.newest_stamp.max(self.last_stamp);
                }
                self.filled += count;
            }
            let Some(slot) = self.slots.get_mut(self.filled) else { break };
            match self.walk.step(body, &self.rules, slot) {
                Step::Frame => {}
                Step::Damaged(count) => {
                    self.counts.damaged += u64::from(count);
                    continue;
                }
                Step::End => break,
            }
            let stamp = slot.timestamp();
            self.newest_stamp = self.newest_stamp.max(stamp);
            if let (Some(keep), Some(frame)) = (&mut keep, slot.frame(body))
                && !keep(&frame)
            {
                self.counts.rejected += 1;
                continue;
            }
            self.counts.inversions += u64::from(stamp < self.last_stamp);
            self.last_stamp = stamp;
            self.filled += 1;
        }
    }

    /// Lends what `fill` collected; `None` if that was nothing. The block goes back when the batch
    /// with its last frame is dropped.
    pub(super) fn lend(&mut self) -> Option<Batch<'_>> {
        if self.filled == 0 || self.slots_lent {
            return None;
        }
        self.slots_lent = true;
        self.counts.lent += self.filled as u64;
        Some(Batch::lent_by(&self.held, &self.slots[..self.filled]))
    }

    pub(super) fn counts(&self) -> BlockCounts {
        self.counts
    }

    /// Frames that lie in the blocks and were not lent or left out: of the block that is read, of
    /// those that wait, and of the one that the kernel is filling.
    pub(super) fn waiting(&self) -> u64 {
        let is_held = self.held.holding.get();
        let unlent = if self.slots_lent { 0 } else { self.filled as u64 };
        let held = if is_held { u64::from(self.walk.remaining()) + unlent } else { 0 };
        held + self.held.frames_behind(usize::from(is_held))
    }

    /// The latest stamp of all frames that were found in a block.
    pub(super) fn newest_stamp(&self) -> Timestamp {
        self.newest_stamp
    }
}

/// The block that is being read. Private to this module, so that no other code can give it back
/// while a batch from it is out.
struct HeldBlock {
    memory: Mapping,
    block_bytes: usize,
    block_count: usize,
    /// The next block that the kernel will hand over, or the one that is held.
    index: Cell<usize>,
    holding: Cell<bool>,
    /// Every frame of the held block is in a batch or was left out.
    read: Cell<bool>,
}

impl HeldBlock {
    fn block(&self) -> *mut u8 {
        debug_assert!(self.index.get() < self.block_count);
        // SAFETY: index < block_count, and the blocks lie within the mapping (asserted in `new`).
        unsafe { self.memory.as_ptr().add(self.index.get() * self.block_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, is 4-byte aligned (blocks begin at multiples of 8
        // in page-aligned memory), and both sides touch it atomically only.
        unsafe { AtomicU32::from_ptr(self.block().add(BLOCK_STATUS).cast()) }
    }

    /// A word in the header of the block `ahead` blocks after this one.
    fn word_ahead(&self, ahead: usize, at: usize) -> &AtomicU32 {
        let index = (self.index.get() + ahead) % self.block_count;
        // SAFETY: index < block_count, and the blocks lie within the mapping (asserted in `new`);
        // `at` is that of an aligned word of the header, which both sides touch atomically only
        // while the block is not held.
        unsafe {
            AtomicU32::from_ptr(self.memory.as_ptr().add(index * self.block_bytes + at).cast())
        }
    }

    /// Frames in the blocks from the `first` after this one on, up to the one that is being filled.
    fn frames_behind(&self, first: usize) -> u64 {
        let mut frames = 0;
        for ahead in first..self.block_count {
            let status = self.word_ahead(ahead, BLOCK_STATUS).load(Ordering::Acquire);
            frames += u64::from(self.word_ahead(ahead, BLOCK_FRAME_COUNT).load(Ordering::Relaxed));
            if status & TP_STATUS_USER == 0 {
                break;
            }
        }
        frames
    }

    fn acquire(&self) -> bool {
        let ready = self.status().load(Ordering::Acquire) & TP_STATUS_USER != 0;
        self.holding.set(ready);
        self.read.set(false);
        ready
    }

    fn body(&self) -> &[u8] {
        assert!(self.holding.get(), "a block is read only while it is held");
        // SAFETY: the block is ours from `acquire` to `give_back_if_read`, so no thread writes to
        // it. That gives it back only when no slice exists: it is called from `fill`, which borrows
        // the ring exclusively and holds no slice there, and when the only batch is dropped.
        unsafe { std::slice::from_raw_parts(self.block().add(BODY), self.block_bytes - BODY) }
    }

    fn body_mut(&mut self) -> &mut [u8] {
        assert!(self.holding.get(), "a block is read only while it is held");
        // SAFETY: as in `body`; and `&mut self` excludes every other slice of this process.
        unsafe { std::slice::from_raw_parts_mut(self.block().add(BODY), self.block_bytes - BODY) }
    }

    fn give_back_if_read(&self) {
        if self.holding.get() && self.read.get() {
            self.holding.set(false);
            self.word_ahead(0, BLOCK_FRAME_COUNT).store(0, Ordering::Relaxed);
            self.status().store(TP_STATUS_KERNEL, Ordering::Release);
            self.index.set((self.index.get() + 1) % self.block_count);
        }
    }
}

impl BatchOwner for HeldBlock {
    fn memory(&self) -> &[u8] {
        self.body()
    }

    fn give_back(&self) {
        self.give_back_if_read();
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
pub(super) mod fake;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
