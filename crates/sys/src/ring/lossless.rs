//! Readers that the writer waits for: byte by byte ([`LosslessReader`]), or by whole blocks that
//! are given back in any order ([`BlockReader`]). Both borrow in place.

use super::cursor::claim::{ClaimCursor, Opened, Run};
use super::cursor::lossless::LosslessCursor;
use super::cursor::{Range, leave};
use super::region::Region;
use std::sync::Arc;

/// What a lossless reader may look at: published bytes of one block, in place.
pub struct Chunk<'r> {
    /// Bytes from the reader's position to what is published.
    pub bytes: &'r [u8],
    /// Offset of `bytes` in the block.
    pub offset: usize,
    /// Frames in `bytes`.
    pub frames: u32,
    /// True if the block will not grow any more.
    pub closed: bool,
}

/// A reader that follows the writer as it publishes.
pub struct LosslessReader {
    region: Arc<Region>,
    lane: usize,
    cursor: LosslessCursor,
}

impl LosslessReader {
    pub(super) fn new(region: Arc<Region>, lane: usize, index: usize) -> LosslessReader {
        LosslessReader { region, lane, cursor: LosslessCursor::new(index) }
    }

    /// What was published and not yet consumed; `None` if there is nothing now. A closed block
    /// whose bytes were all consumed gives an empty chunk once, so that its end is seen.
    pub fn peek(&mut self) -> Option<Chunk<'_>> {
        let range = self.cursor.ready(self.region.lane(self.lane))?;
        let Range { slot, from, to, frames, closed } = range;
        // SAFETY: the bytes up to `to` were published with release order and are read after an
        // acquire load; the writer cannot open this block again before `consume` releases it, and
        // `consume` needs `&mut self`, which ends this borrow.
        let bytes = unsafe { self.region.bytes(self.lane, slot, from as usize, to as usize) };
        Some(Chunk { bytes, offset: from as usize, frames, closed })
    }

    /// Consumes the chunk of the last [`peek`](Self::peek); a closed block goes back to the writer.
    pub fn consume(&mut self) {
        self.cursor.consume(self.region.lane(self.lane));
    }

    /// True if the writer has finished and everything was consumed.
    pub fn is_finished(&self) -> bool {
        self.cursor.is_finished(self.region.lane(self.lane))
    }
}

impl Drop for LosslessReader {
    /// A reader that is gone holds the writer back no longer.
    fn drop(&mut self) {
        self.cursor.leave(self.region.lane(self.lane));
    }
}

/// A reader of whole blocks, which may be given back in another order than they were taken in.
///
/// The writer may use a block again when it and all blocks before it were released.
pub struct BlockReader {
    hold: Arc<Hold>,
    cursor: ClaimCursor,
}

/// A place among the lane's lossless readers. Its reader and every claim keep it; when all are gone
/// the writer is held back no longer.
struct Hold {
    region: Arc<Region>,
    lane: usize,
    index: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        leave(self.region.lane(self.lane), self.index);
    }
}

impl BlockReader {
    pub(super) fn new(region: Arc<Region>, lane: usize, index: usize) -> BlockReader {
        let hold = Arc::new(Hold { region, lane, index });
        BlockReader { hold, cursor: ClaimCursor::new(index) }
    }

    /// The next closed blocks that were not claimed and lie one behind the other in memory, at most
    /// `blocks_max`; `None` if the next block is not closed.
    pub fn claim(&mut self, blocks_max: usize) -> Option<Claim> {
        let Hold { region, lane, .. } = &*self.hold;
        let headers = region.lane(*lane);
        // io_uring knows the memory in pieces; a claim lies in one.
        let room = region.layout().blocks_to_region_end(*lane, self.cursor.next_slot(headers));
        let run = self.cursor.claim(headers, blocks_max.min(room))?;
        Some(Claim { hold: self.hold.clone(), run })
    }

    /// Gives blocks back, in any order.
    ///
    /// # Panics
    /// If another reader claimed them.
    pub fn release(&mut self, claim: Claim) {
        assert!(Arc::ptr_eq(&self.hold, &claim.hold), "released to the reader that claimed");
        self.cursor.release(self.hold.region.lane(self.hold.lane), &claim.run);
    }

    /// What is published of the block after the claimed ones while it is not closed, from the
    /// block's start; `None` if that is nothing. Once the writer has finished it is final.
    pub fn open_block(&mut self) -> Option<OpenBlock<'_>> {
        let Hold { region, lane, .. } = &*self.hold;
        let opened = self.cursor.open_block(region.lane(*lane))?;
        let Opened { sequence, slot, bytes, first_frame, frames } = opened;
        // SAFETY: the bytes were published with release order and are read after an acquire load.
        // The writer cannot open this block again before it is claimed and released, which needs
        // `&mut self` and so ends this borrow, or before this reader is gone.
        let bytes = unsafe { region.bytes(*lane, slot, 0, bytes) };
        Some(OpenBlock { sequence, bytes, frames, first_frame })
    }

    /// Closed blocks that were not claimed.
    pub fn waiting_blocks(&self) -> u64 {
        self.cursor.waiting(self.hold.region.lane(self.hold.lane))
    }

    /// True if the writer has finished and no closed block is left to claim. The last block, if it
    /// was not closed, may still hold bytes: see [`open_block`](Self::open_block).
    pub fn is_finished(&self) -> bool {
        self.cursor.is_finished(self.hold.region.lane(self.hold.lane))
    }
}

/// Closed blocks that one holder may read, in place, wherever it is, until it gives them back.
///
/// A claim that is dropped instead is never written over while its reader lives.
#[must_use = "the writer waits for the blocks until they are released"]
pub struct Claim {
    hold: Arc<Hold>,
    run: Run,
}

impl Claim {
    /// The lane of the blocks.
    pub fn lane(&self) -> usize {
        self.hold.lane
    }

    /// Sequence number of the first block.
    pub fn first_sequence(&self) -> u64 {
        self.run.first_sequence
    }

    /// Number of blocks, at least 1.
    pub fn blocks(&self) -> usize {
        self.run.blocks
    }

    /// Cumulative number of the first frame.
    pub fn first_frame(&self) -> u64 {
        self.run.first_frame
    }

    /// Frames in all blocks.
    pub fn frames(&self) -> u64 {
        self.run.frames
    }

    /// All blocks, whole, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        let region = &self.hold.region;
        let bytes = self.run.blocks * region.layout().block_bytes;
        // SAFETY: the blocks are closed, so no thread writes them before the writer opens them
        // again; it cannot before this reader's `released` passes them, which takes this claim's
        // release by value, or the end of its hold, which this claim keeps.
        unsafe { region.bytes(self.hold.lane, self.run.slot, 0, bytes) }
    }

    /// Which of the ring's `data_regions` the blocks lie in.
    pub(crate) fn region_index(&self) -> usize {
        self.hold.region.layout().region_index(self.hold.lane, self.run.slot)
    }
}

/// The published part of a block that is still being filled.
pub struct OpenBlock<'r> {
    /// The block's sequence number.
    pub sequence: u64,
    /// From the block's start to what is published; never empty.
    pub bytes: &'r [u8],
    /// Frames in `bytes`.
    pub frames: u32,
    /// Cumulative number of the block's first frame.
    pub first_frame: u64,
}
