//! The memory of the ring: where in it the shared words and the blocks of a lane lie.

use super::board::{BOARD_BYTES, BOARD_MEMORY_WORDS, BOARDS_PER_LANE, Board, BoardMemory};
use super::cursor::{LANE_BYTES, LANE_WORDS, Lane, LaneHeader, Range, SLOT_BYTES, SLOT_WORDS};
use super::header;
use super::layout::{RingError, RingLayout};
use ringside_sys::shared_memory::{BlockTail, HugePages, LentBytes, SharedMemory};
use ringside_sys::sync::Ordering;
use rustix::fs::fstat;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A mapped ring.
pub(crate) struct Region {
    layout: RingLayout,
    memory: Arc<SharedMemory>,
}

impl Region {
    /// New memory, touched, with its description in place and all other words zero.
    pub(crate) fn create(layout: RingLayout, huge_pages: HugePages) -> Result<Region, RingError> {
        layout.check()?;
        Region::describe(layout, SharedMemory::create(layout.shape(), huge_pages))
    }

    /// Memory for headers and boards only: the blocks are an empty range of addresses.
    pub(crate) fn create_untouched(layout: RingLayout) -> Result<Region, RingError> {
        layout.check()?;
        Region::describe(layout, SharedMemory::create_untouched(layout.shape()))
    }

    /// Writes the description to new memory.
    fn describe(
        layout: RingLayout,
        memory: std::io::Result<SharedMemory>,
    ) -> Result<Region, RingError> {
        let bytes = layout.total_bytes();
        let memory = memory.map_err(|source| RingError::Memory { bytes, source })?;
        let words = header::words(&layout);
        for (place, word) in memory.words(0, words.len()).iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        Ok(Region { layout, memory: Arc::new(memory) })
    }

    /// The ring behind `memfd`, to read.
    pub(crate) fn attach(memfd: OwnedFd) -> Result<Region, RingError> {
        let refused = |errno: rustix::io::Errno| RingError::Attach(errno.into());
        let status = fstat(&memfd).map_err(refused)?;
        let mut first = [0; header::HEADER_BYTES];
        let read = rustix::io::pread(&memfd, &mut first, 0).map_err(refused)?;
        if read < first.len() {
            return Err(RingError::NotARing);
        }
        let layout = header::decode(&first, u64::try_from(status.st_size).unwrap_or(0))?;
        let memory = SharedMemory::attach(memfd, layout.shape()).map_err(RingError::Attach)?;
        Ok(Region { layout, memory: Arc::new(memory) })
    }

    pub(crate) fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    pub(crate) fn layout(&self) -> RingLayout {
        self.layout
    }

    /// The shared words of a lane. Of a ring that was attached to they are only loaded, relaxed
    /// (see `load_acquire`).
    #[inline]
    pub(crate) fn lane(&self, lane: usize) -> Lane<'_> {
        let RingLayout { lanes, blocks_per_lane, block_bytes, .. } = self.layout;
        assert!(lane < lanes, "lane {lane} of {lanes}");
        let headers = self.layout.lanes_offset() + lane * LANE_BYTES;
        let slots = self.layout.slots_offset() + lane * blocks_per_lane * SLOT_BYTES;
        let header = self.memory.words(headers, LANE_WORDS);
        let slots = self.memory.words(slots, blocks_per_lane * SLOT_WORDS);
        Lane {
            header: LaneHeader::of(header.first_chunk().expect("the layout has these words")),
            slots: slots.as_chunks().0,
            block_bytes,
        }
    }

    pub(crate) fn board(&self, lane: usize, board: Board) -> BoardMemory<'_> {
        assert!(lane < self.layout.lanes, "lane {lane} of {}", self.layout.lanes);
        let index = lane * BOARDS_PER_LANE + board as usize;
        let from = self.layout.boards_offset() + index * BOARD_BYTES;
        let words = self.memory.words(from, BOARD_MEMORY_WORDS);
        BoardMemory::of(words.first_chunk().expect("the layout has these words"))
    }

    /// The right to write a block that no reader needs any more.
    ///
    /// # Panics
    /// If a reader that released the block still has bytes of it.
    pub(crate) fn take(&self, lane: usize, slot: usize) -> BlockTail {
        let tail = self.memory.take(self.layout.block_index(lane, slot));
        tail.expect("what every reader has released is lent to none")
    }

    /// Bytes `from..to`, counted from the start of a block; they may go on into the next ones.
    ///
    /// # Panics
    /// If they are not published.
    pub(crate) fn lend(&self, lane: usize, slot: usize, from: usize, to: usize) -> LentBytes {
        let room = (self.layout.blocks_per_lane - slot) * self.layout.block_bytes;
        assert!(to <= room);
        let lent = self.memory.lend(self.layout.block_index(lane, slot), from, to);
        lent.expect("published bytes stay until they are released")
    }

    /// Appends the range to `buffer`, tolerating a writer in it: the caller confirms afterwards.
    pub(crate) fn copy_out(&self, lane: usize, range: &Range, buffer: &mut Vec<u8>) {
        let block = self.layout.block_index(lane, range.slot);
        self.memory.copy_out(block, range.from as usize, range.to as usize, buffer);
    }
}
