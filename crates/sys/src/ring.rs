//! The capture ring: shared memory cut into blocks, filled by one writer per lane, read by many.
//!
//! A memfd holds a page of headers and, for each lane, a circle of equal blocks. What lies in a
//! block is none of this module's business (the `store` crate packs pcapng); here is who may touch
//! which byte, when:
//!
//! - The **writer** of a lane opens the next block of its circle, fills it from front to back and
//!   publishes the number of filled bytes and frames in one word, with release order after the
//!   bytes. A block is closed when it is full; then the next is opened.
//! - A **lossless reader** borrows published bytes in place. The writer cannot open a block that a
//!   lossless reader has not released, and reports [`RingFull`] instead.
//! - A **copying reader** holds nothing back. It copies published bytes out with volatile reads,
//!   then looks whether the block still is the one it meant; if not, the copy is thrown away and
//!   the reader moves to the oldest block that is left. What it missed is the difference of the
//!   blocks' cumulative frame numbers: exact.
//!
//! The protocol ([`cursor`]) touches only atomics and is model-checked with loom; this file adds
//! the memory.

pub mod cursor;
mod region;
mod sync;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cursor::{LOSSLESS_READERS_MAX, RingFull};
pub use region::{HugePages, RingError, RingLayout};

use cursor::{Copied, CopyCursor, LosslessCursor, Range, Ready, WriterCursor};
use region::Region;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The ring of one run. Cheap to share; the memory is freed with the last handle.
pub struct CaptureRing {
    region: Region,
    writer_taken: Vec<AtomicBool>,
    lossless_taken: Vec<AtomicBool>,
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
        let region = Region::create(layout, huge_pages)?;
        for lane in 0..layout.lanes {
            cursor::initialise(region.lane(lane).header, layout.lossless_readers);
        }
        let flags = |count: usize| (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(CaptureRing {
            region,
            writer_taken: flags(layout.lanes),
            lossless_taken: flags(layout.lanes * layout.lossless_readers),
        }))
    }

    /// The layout it was made with.
    pub fn layout(&self) -> RingLayout {
        self.region.layout()
    }

    /// True if the memory lies in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.region.has_huge_pages()
    }

    /// The writer of `lane`; `None` the second time: a lane has one.
    pub fn writer(self: &Arc<Self>, lane: usize) -> Option<LaneWriter> {
        let taken = self.writer_taken.get(lane)?.swap(true, Ordering::AcqRel);
        (!taken).then(|| LaneWriter { ring: self.clone(), lane, cursor: WriterCursor::default() })
    }

    /// Lossless reader `index` of `lane`; `None` beyond the layout's count or the second time.
    pub fn lossless_reader(self: &Arc<Self>, lane: usize, index: usize) -> Option<LosslessReader> {
        let layout = self.layout();
        if lane >= layout.lanes || index >= layout.lossless_readers {
            return None;
        }
        let flag = &self.lossless_taken[lane * layout.lossless_readers + index];
        let taken = flag.swap(true, Ordering::AcqRel);
        let cursor = LosslessCursor::new(index);
        (!taken).then(|| LosslessReader { ring: self.clone(), lane, cursor })
    }

    /// A copying reader of `lane` that starts with the oldest frame still there.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn copy_reader(self: &Arc<Self>, lane: usize) -> CopyReader {
        assert!(lane < self.layout().lanes, "lane {lane} of {}", self.layout().lanes);
        CopyReader { ring: self.clone(), lane, cursor: CopyCursor::default() }
    }

    /// Time in nanoseconds of UTC before which no later frame of `lane` is stamped.
    pub fn low_water_ns(&self, lane: usize) -> u64 {
        self.region.lane(lane).header.low_water_ns.load(Ordering::Acquire)
    }
}

/// Fills the blocks of one lane. Not shared, not cloned.
pub struct LaneWriter {
    ring: Arc<CaptureRing>,
    lane: usize,
    cursor: WriterCursor,
}

impl LaneWriter {
    /// Opens the next block; `first_frame` is the cumulative number of its first frame.
    ///
    /// # Errors
    /// [`RingFull`] while a lossless reader still needs the block that lies there.
    ///
    /// # Panics
    /// If a block is open.
    pub fn open(&mut self, first_frame: u64) -> Result<(), RingFull> {
        self.cursor.open(self.ring.region.lane(self.lane), first_frame).map(|_| ())
    }

    /// True between `open` and `close`.
    pub fn is_open(&self) -> bool {
        self.cursor.slot().is_some()
    }

    /// The part of the open block that is not filled; empty when none is open.
    pub fn tail(&mut self) -> &mut [u8] {
        let block_bytes = self.ring.layout().block_bytes;
        let Some(slot) = self.cursor.slot() else { return &mut [] };
        let filled = self.cursor.filled_bytes() as usize;
        // SAFETY: `slot` is open, so no lossless reader borrows any of it beyond the published
        // bytes, which end at or before `filled`; there is one writer per lane, and `&mut self`
        // makes this its only slice. Copying readers read the bytes volatile and throw away what
        // changed under them.
        unsafe { self.ring.region.bytes_mut(self.lane, slot, filled, block_bytes) }
    }

    /// Says that the next `bytes` of the tail are filled and hold `frames` frames. They are seen
    /// by readers after the next [`publish`](Self::publish).
    ///
    /// # Panics
    /// If the block has no room for them.
    pub fn fill(&mut self, bytes: usize, frames: u32) {
        self.cursor.fill(bytes, frames, self.ring.layout().block_bytes);
    }

    /// Bytes filled in the open block.
    pub fn filled_bytes(&self) -> usize {
        self.cursor.filled_bytes() as usize
    }

    /// Shows readers what is filled. One release store.
    pub fn publish(&mut self) {
        self.cursor.publish(self.ring.region.lane(self.lane));
    }

    /// Publishes and closes the open block.
    ///
    /// # Panics
    /// If the block is not filled to its end.
    pub fn close(&mut self) {
        let block_bytes = self.ring.layout().block_bytes;
        assert_eq!(self.filled_bytes(), block_bytes, "a closed block is full");
        self.cursor.close(self.ring.region.lane(self.lane));
    }

    /// Promises that no later frame is stamped before `low_water_ns`.
    pub fn set_low_water_ns(&self, low_water_ns: u64) {
        let header = self.ring.region.lane(self.lane).header;
        header.low_water_ns.store(low_water_ns, Ordering::Release);
    }

    /// Publishes what is filled and says that nothing follows. Dropping the writer does the same,
    /// so that readers end also when the writer's thread died.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for LaneWriter {
    fn drop(&mut self) {
        self.publish();
        self.set_low_water_ns(u64::MAX);
        self.cursor.finish(self.ring.region.lane(self.lane));
    }
}

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

/// A reader that the writer waits for.
pub struct LosslessReader {
    ring: Arc<CaptureRing>,
    lane: usize,
    cursor: LosslessCursor,
}

impl LosslessReader {
    /// What was published and not yet consumed; `None` if there is nothing now. A closed block
    /// whose bytes were all consumed gives an empty chunk once, so that its end is seen.
    pub fn peek(&mut self) -> Option<Chunk<'_>> {
        let range = self.cursor.ready(self.ring.region.lane(self.lane))?;
        let Range { slot, from, to, frames, closed } = range;
        // SAFETY: the bytes up to `to` were published with release order and are read after an
        // acquire load; the writer cannot open this block again before `consume` releases it, and
        // `consume` needs `&mut self`, which ends this borrow.
        let bytes = unsafe { self.ring.region.bytes(self.lane, slot, from as usize, to as usize) };
        Some(Chunk { bytes, offset: from as usize, frames, closed })
    }

    /// Consumes the chunk of the last [`peek`](Self::peek); a closed block goes back to the writer.
    pub fn consume(&mut self) {
        self.cursor.consume(self.ring.region.lane(self.lane));
    }

    /// True if the writer has finished and everything was consumed.
    pub fn is_finished(&self) -> bool {
        self.cursor.is_finished(self.ring.region.lane(self.lane))
    }
}

impl Drop for LosslessReader {
    /// A reader that is gone holds the writer back no longer.
    fn drop(&mut self) {
        self.cursor.leave(self.ring.region.lane(self.lane));
    }
}

/// What a copying reader got.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many frames were appended to the buffer.
    Frames(u32),
    /// Nothing new now.
    Nothing,
    /// The writer has finished and everything left was read.
    Finished,
}

/// A reader that holds nothing back and may be overtaken.
pub struct CopyReader {
    ring: Arc<CaptureRing>,
    lane: usize,
    cursor: CopyCursor,
}

impl CopyReader {
    /// Appends the next published bytes (whole, of one block) to `buffer`.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> ReadOutcome {
        let lane = self.ring.region.lane(self.lane);
        loop {
            let range = match self.cursor.ready(lane) {
                Ready::Range(range) => range,
                Ready::Nothing => return ReadOutcome::Nothing,
                Ready::Finished => return ReadOutcome::Finished,
            };
            let start = buffer.len();
            self.ring.region.copy_out(self.lane, &range, buffer);
            match self.cursor.confirm(lane, &range) {
                Copied::Valid => return ReadOutcome::Frames(range.frames),
                Copied::Overtaken => buffer.truncate(start),
            }
        }
    }

    /// Frames that were delivered.
    pub fn delivered(&self) -> u64 {
        self.cursor.delivered()
    }

    /// Frames that were overwritten before they could be copied. Exact; complete once
    /// [`ReadOutcome::Finished`] was returned.
    pub fn missed(&self) -> u64 {
        self.cursor.missed()
    }
}
