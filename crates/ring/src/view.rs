//! A ring from outside: attached by its descriptor alone, read-only, of an owner who may be dead or
//! not to be trusted.

use super::board::Board;
use super::copying::CopyReader;
use super::cursor::copy::RingStart;
use super::cursor::{LOSSLESS_READERS_MAX, Look, Range, Seen};
use super::layout::{RingError, RingLayout};
use super::region::Region;
use ringside_sys::sync::load_acquire;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A block as it was when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockState {
    /// Bytes that are published, from the block's start.
    pub bytes: usize,
    /// Frames in them.
    pub frames: u32,
    /// True if the block is full and will not grow any more.
    pub closed: bool,
    /// Cumulative number of the block's first frame.
    pub first_frame: u64,
    /// Stamp of the first frame, nanoseconds of UTC; 0 if the writer gave none.
    pub first_time_ns: u64,
    /// Latest stamp, nanoseconds of UTC; 0 if the writer gave none.
    pub last_time_ns: u64,
}

/// The ring of another process, to read.
///
/// Nothing that lies in the memory makes a method panic, loop for long or read elsewhere; numbers
/// from it may be nonsense if its owner is.
pub struct RingView {
    region: Arc<Region>,
}

impl RingView {
    /// Attaches to the ring behind `fd`, of an owner who is trusted not to shrink it: then a read
    /// would end this process by SIGBUS. Else see [`attach_sealed`](Self::attach_sealed).
    ///
    /// # Errors
    /// What lies there is no ring of this version, or its description contradicts itself or the
    /// size of the memory, or it cannot be mapped.
    pub fn attach(fd: OwnedFd) -> Result<Arc<RingView>, RingError> {
        Ok(Arc::new(RingView { region: Arc::new(Region::attach(fd)?) }))
    }

    /// As [`attach`](Self::attach), and the memory must be sealed, so that no process can take it
    /// away.
    ///
    /// # Errors
    /// As `attach`, or [`RingError::NotSealed`].
    pub fn attach_sealed(fd: OwnedFd) -> Result<Arc<RingView>, RingError> {
        if !ringside_sys::shared_memory::is_sealed(&fd) {
            return Err(RingError::NotSealed);
        }
        RingView::attach(fd)
    }

    /// The sizes of the ring.
    pub fn layout(&self) -> RingLayout {
        self.region.layout()
    }

    /// Time in nanoseconds of UTC before which no later frame of `lane` is stamped.
    ///
    /// # Panics
    /// Here and below: if there is no such lane.
    pub fn low_water_ns(&self, lane: usize) -> u64 {
        load_acquire(self.region.lane(lane).header.low_water_ns)
    }

    /// Number of blocks of `lane` that were opened; the last is number `opened - 1`.
    pub fn opened(&self, lane: usize) -> u64 {
        self.region.lane(lane).opened()
    }

    /// Blocks of `lane` below this number were released by lossless reader `reader`; `u64::MAX` if
    /// there is no such reader or it has left.
    pub fn released(&self, lane: usize, reader: usize) -> u64 {
        let released = self.region.lane(lane).header.released;
        if reader < LOSSLESS_READERS_MAX { load_acquire(&released[reader]) } else { u64::MAX }
    }

    /// Frames published in `lane` since the start.
    pub fn frames(&self, lane: usize) -> u64 {
        load_acquire(self.region.lane(lane).header.frames)
    }

    /// True once the writer of `lane` has said that nothing follows.
    pub fn is_finished(&self, lane: usize) -> bool {
        self.region.lane(lane).is_finished()
    }

    /// Replaces `buffer` by the published bytes of block `sequence`. `None`, and an empty buffer,
    /// if the block was not opened yet or is not there any more.
    pub fn copy_block(
        &self,
        lane: usize,
        sequence: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<BlockState> {
        buffer.clear();
        let headers = self.region.lane(lane);
        if sequence >= headers.opened() {
            return None;
        }
        let Look::Here(seen) = headers.look(sequence, Seen::load) else { return None };
        let committed = seen.committed;
        let (to, frames, closed) = (committed.bytes, committed.frames, committed.closed);
        let (slot, _) = headers.slot(sequence);
        self.region.copy_out(lane, &Range { slot, from: 0, to, frames, closed }, buffer);
        let Look::Here(_) = headers.confirmed(sequence, ()) else {
            buffer.clear();
            return None;
        };
        Some(BlockState {
            bytes: buffer.len(),
            frames,
            closed,
            first_frame: seen.first_frame,
            first_time_ns: seen.first_time_ns,
            last_time_ns: seen.last_time_ns,
        })
    }

    /// A reader of `lane` that holds nothing back.
    pub fn copy_reader(&self, lane: usize, start: RingStart) -> CopyReader {
        CopyReader::new(self.region.clone(), lane, start)
    }

    /// How often a board of `lane` was published.
    pub fn publications(&self, lane: usize, board: Board) -> u64 {
        self.region.board(lane, board).latest()
    }

    /// The first `N` words last published on a board of `lane`; `None` if nothing was.
    pub fn read_board<const N: usize>(&self, lane: usize, board: Board) -> Option<[u64; N]> {
        super::read_board(&self.region, lane, board)
    }
}
