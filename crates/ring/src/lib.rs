#![forbid(unsafe_code)]
//! The capture ring: shared memory cut into blocks, filled by one writer per lane, read by many.
//!
//! A memfd holds a description of itself, headers and, for each lane, a circle of equal blocks.
//! What lies in a block is none of this crate's business (the `store` crate packs pcapng); here is
//! who may touch which byte, when:
//!
//! - The **writer** of a lane opens the next block of its circle, fills it from front to back and
//!   publishes the number of filled bytes and frames in one word, with release order after the
//!   bytes. A block is closed when it is full; then the next is opened.
//!   Several threads may share a lane's writer ([`SharedLane`]): they take room in the order in
//!   which they claimed their frames, fill it side by side, and it is published in that order.
//!   Readers see one writer.
//! - A **lossless reader** borrows published bytes in place: as they are published
//!   ([`LosslessReader`]), or whole closed blocks that may be given back in any order
//!   ([`BlockReader`]). The writer cannot open a block that a lossless reader has not released, and
//!   reports [`RingFull`] instead.
//! - A **copying reader** holds nothing back. It copies published bytes out by atomic words, from a
//!   mapping that no writer stores through ([`RingView`]), then looks whether the block still is
//!   the one it meant; if not, the copy is thrown away and the reader moves to the oldest block
//!   that is left. What it missed is the difference of the blocks' cumulative frame numbers:
//!   exact. It may be in another process.
//! - A **board** holds a few words of one thread of the owner, for any reader, also after the
//!   owner's death.
//! - A **feed** tells one thread of the owner which blocks are complete, and never waits for it.
//!
//! The protocol (`cursor.rs`, `board.rs`, `feed.rs`) touches only atomics and is model-checked with
//! loom; the other files add the memory, of which `ringside_sys::shared_memory` checks each loan
//! once more, so that this crate has no unsafe code. Where frames come from is none of its
//! business.

mod board;
mod copying;
mod cursor;
mod feed;
mod header;
mod layout;
mod lossless;
mod region;
mod shared_lane;
mod view;
mod writer;

#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;

pub use board::{BOARD_WORDS, Board};
pub use copying::{CopyReader, ReadOutcome};
pub use cursor::copy::RingStart;
pub use cursor::{LOSSLESS_READERS_MAX, RingFull};
pub use feed::{BlockFeed, ToldRun};
pub use layout::{RingError, RingLayout};
pub use lossless::{BlockReader, Chunk, Claim, LosslessReader, OpenBlock};
pub use ringside_sys::mmap::HUGE_PAGE_BYTES;
pub use ringside_sys::shared_memory::HugePages;
pub use shared_lane::{
    ClaimTurn, Claimed, LaneBroken, OpenError, Reservation, Reserving, Rooms, SharedLane,
};
pub use view::{BlockState, RingView};
pub use writer::LaneWriter;

use board::BOARDS_PER_LANE;
use region::Region;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_sys::shared_memory::SharedMemory;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The ring of one run. Cheap to share; the memory is freed with the last handle.
pub struct CaptureRing {
    region: Arc<Region>,
    writer_taken: Vec<AtomicBool>,
    lossless_taken: Vec<AtomicBool>,
    board_taken: Vec<AtomicBool>,
}

impl CaptureRing {
    /// Makes the ring and touches all of its memory (first touch costs ten to fifty times a copy).
    ///
    /// # Errors
    /// A layout beyond its limits, or not enough memory.
    pub fn create(
        layout: RingLayout,
        huge_pages: HugePages,
    ) -> Result<Arc<CaptureRing>, RingError> {
        Ok(CaptureRing::of(Region::create(layout, huge_pages)?))
    }

    /// A ring of `lanes` lanes for its boards only: its blocks take no memory, and no writer may
    /// fill them.
    ///
    /// # Errors
    /// As [`create`](CaptureRing::create).
    pub fn create_for_boards(lanes: usize) -> Result<Arc<CaptureRing>, RingError> {
        let layout = RingLayout {
            lanes,
            blocks_per_lane: 2,
            block_bytes: RING_BLOCK_BYTES_MIN,
            lossless_readers: 0,
        };
        Ok(CaptureRing::of(Region::create_untouched(layout)?))
    }

    fn of(region: Region) -> Arc<CaptureRing> {
        let layout = region.layout();
        for lane in 0..layout.lanes {
            cursor::initialise(region.lane(lane).header, layout.lossless_readers);
        }
        let flags = |count: usize| (0..count).map(|_| AtomicBool::new(false)).collect();
        Arc::new(CaptureRing {
            region: Arc::new(region),
            writer_taken: flags(layout.lanes),
            lossless_taken: flags(layout.lanes * layout.lossless_readers),
            board_taken: flags(layout.lanes * BOARDS_PER_LANE),
        })
    }

    /// The layout it was made with.
    pub fn layout(&self) -> RingLayout {
        self.region.layout()
    }

    /// Blocks of `lane` that the writer cannot reuse yet: opened, and not released by every
    /// lossless reader.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn blocks_held(&self, lane: usize) -> usize {
        let lane = self.region.lane(lane);
        let released =
            lane.header.released.iter().map(ringside_sys::sync::load_acquire).min().unwrap_or(0);
        lane.opened().saturating_sub(released) as usize
    }

    /// True if the memory lies in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.region.memory().has_huge_pages()
    }

    /// The shared memory, for [`RingView::attach`] in another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Ends all other ways to change the memory: from now on no process can map it to write or
    /// change its size, through this descriptor or any other. This ring goes on writing.
    ///
    /// # Errors
    /// The system refuses.
    pub fn seal(&self) -> Result<(), RingError> {
        self.region.memory().seal().map_err(RingError::Seal)
    }

    /// The writer of `lane`; `None` the second time: a lane has one.
    pub fn writer(&self, lane: usize) -> Option<LaneWriter> {
        take(self.writer_taken.get(lane)?).then(|| LaneWriter::new(self.region.clone(), lane))
    }

    /// Lossless reader `index` of `lane`; `None` beyond the layout's count or the second time.
    pub fn lossless_reader(&self, lane: usize, index: usize) -> Option<LosslessReader> {
        self.take_lossless(lane, index)
            .then(|| LosslessReader::new(self.region.clone(), lane, index))
    }

    /// Lossless reader `index` of `lane`, by whole blocks; `None` as for `lossless_reader`, of
    /// which it takes the place.
    pub fn block_reader(&self, lane: usize, index: usize) -> Option<BlockReader> {
        self.take_lossless(lane, index).then(|| BlockReader::new(self.region.clone(), lane, index))
    }

    fn take_lossless(&self, lane: usize, index: usize) -> bool {
        let RingLayout { lanes, lossless_readers, .. } = self.layout();
        let exists = lane < lanes && index < lossless_readers;
        exists && take(&self.lossless_taken[lane * lossless_readers + index])
    }

    /// The ring as another process sees it, with a mapping of its own: for copying readers, under
    /// which the writer may store.
    ///
    /// # Errors
    /// The memory cannot be mapped once more.
    pub fn view(&self) -> Result<Arc<RingView>, RingError> {
        RingView::attach(self.fd().try_clone_to_owned().map_err(RingError::Attach)?)
    }

    /// Time in nanoseconds of UTC before which no later frame of `lane` is stamped.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn low_water_ns(&self, lane: usize) -> u64 {
        self.region.lane(lane).header.low_water_ns.load(Ordering::Acquire)
    }

    /// Frames published in `lane` since the start.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn frames(&self, lane: usize) -> u64 {
        self.region.lane(lane).header.frames.load(Ordering::Acquire)
    }

    /// The writer of a board of `lane`; `None` the second time, or if there is no such lane.
    pub fn board_writer(&self, lane: usize, board: Board) -> Option<BoardWriter> {
        let taken = self.board_taken.get(lane * BOARDS_PER_LANE + board as usize)?;
        take(taken).then(|| BoardWriter { region: self.region.clone(), lane, board, published: 0 })
    }

    /// The first `N` words last published on a board of `lane`; `None` if nothing was.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn read_board<const N: usize>(&self, lane: usize, board: Board) -> Option<[u64; N]> {
        read_board(&self.region, lane, board)
    }

    /// The memory, for io_uring to register. No block and no claim lies in two of its pieces.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        self.region.memory()
    }
}

/// True the first time.
fn take(taken: &AtomicBool) -> bool {
    !taken.swap(true, Ordering::AcqRel)
}

/// Writes one board of a lane.
pub struct BoardWriter {
    region: Arc<Region>,
    lane: usize,
    board: Board,
    published: u64,
}

impl BoardWriter {
    /// Puts `words` on the board, all at once for readers. The further words of the board,
    /// if `N` changes, are undefined. One relaxed store a word and one release store.
    pub fn publish<const N: usize>(&mut self, words: &[u64; N]) {
        const { assert!(N <= BOARD_WORDS, "a board has fewer words") };
        self.published += 1;
        self.region.board(self.lane, self.board).publish(self.published, words);
    }
}

fn read_board<const N: usize>(region: &Region, lane: usize, board: Board) -> Option<[u64; N]> {
    const { assert!(N <= BOARD_WORDS, "a board has fewer words") };
    let mut words = [0; N];
    region.board(lane, board).read(&mut words).then_some(words)
}
