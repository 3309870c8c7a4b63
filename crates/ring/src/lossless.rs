//! Readers that the writer waits for: byte by byte ([`LosslessReader`]), or by whole blocks that
//! are given back in any order ([`BlockReader`]). Both borrow in place.

use super::cursor::claim::{BlockRun, ClaimCursor, Opened};
use super::cursor::lossless::LosslessCursor;
use super::cursor::{Range, leave};
use super::region::Region;
use ringside_sys::shared_memory::LentBytes;
use ringside_sys::uring::Lends;
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
    /// What the last `peek` looks at.
    lent: Option<LentBytes>,
}

impl LosslessReader {
    pub(crate) fn new(region: Arc<Region>, lane: usize, index: usize) -> LosslessReader {
        LosslessReader { region, lane, cursor: LosslessCursor::new(index), lent: None }
    }

    /// What was published and not yet consumed; `None` if there is nothing now. A closed block
    /// whose bytes were all consumed gives an empty chunk once, so that its end is seen.
    pub fn peek(&mut self) -> Option<Chunk<'_>> {
        let range = self.cursor.ready(self.region.lane(self.lane))?;
        let Range { slot, from, to, frames, closed } = range;
        let lent = self.region.lend(self.lane, slot, from as usize, to as usize);
        let bytes = self.lent.insert(lent).bytes();
        Some(Chunk { bytes, offset: from as usize, frames, closed })
    }

    /// Consumes the chunk of the last [`peek`](Self::peek); a closed block goes back to the writer.
    pub fn consume(&mut self) {
        // Before the writer sees that the block is free.
        self.lent = None;
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
        self.lent = None;
        self.cursor.leave(self.region.lane(self.lane));
    }
}

/// A reader of whole blocks, which may be given back in another order than they were taken in.
///
/// The writer may use a block again when it and all blocks before it were released.
pub struct BlockReader {
    /// What the last `open_block` looks at. Before the hold: it is given back first.
    lent: Option<LentBytes>,
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
    pub(crate) fn new(region: Arc<Region>, lane: usize, index: usize) -> BlockReader {
        let hold = Arc::new(Hold { region, lane, index });
        BlockReader { lent: None, hold, cursor: ClaimCursor::new(index) }
    }

    /// The next closed blocks that were not claimed and lie one behind the other in memory, at most
    /// `blocks_max`; `None` if the next block is not closed.
    pub fn claim(&mut self, blocks_max: usize) -> Option<Claim> {
        let Hold { region, lane, .. } = &*self.hold;
        let headers = region.lane(*lane);
        self.lent = None;
        // io_uring knows the memory in pieces; a claim lies in one.
        let room = region.layout().blocks_to_piece_end(*lane, self.cursor.next_slot(headers));
        let run = self.cursor.claim(headers, blocks_max.min(room))?;
        let bytes = run.blocks * region.layout().block_bytes;
        let lent = Arc::new(region.lend(*lane, run.slot, 0, bytes));
        Some(Claim { lent, hold: self.hold.clone(), run })
    }

    /// Gives blocks back, in any order.
    ///
    /// # Panics
    /// If another reader claimed them.
    pub fn release(&mut self, claim: Claim) {
        assert!(Arc::ptr_eq(&self.hold, &claim.hold), "released to the reader that claimed");
        let Claim { lent, hold: _, run } = claim;
        // Before the writer sees that the blocks are free.
        drop(lent);
        self.cursor.release(self.hold.region.lane(self.hold.lane), &run);
    }

    /// What is published of the block after the claimed ones while it is not closed, from the
    /// block's start; `None` if that is nothing. Once the writer has finished it is final.
    pub fn open_block(&mut self) -> Option<OpenBlock<'_>> {
        let Hold { region, lane, .. } = &*self.hold;
        self.lent = None;
        let opened = self.cursor.open_block(region.lane(*lane))?;
        let Opened { sequence, slot, bytes, first_frame, frames } = opened;
        let bytes = self.lent.insert(region.lend(*lane, slot, 0, bytes)).bytes();
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
    /// Before the hold: it is given back first.
    lent: Arc<LentBytes>,
    hold: Arc<Hold>,
    run: BlockRun,
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
        self.lent.bytes()
    }
}

impl Lends for Claim {
    fn lent(&self) -> &Arc<LentBytes> {
        &self.lent
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
