//! The writing side: the blocks of one lane.

use super::cursor::{RingFull, WriterCursor};
use super::region::Region;
use super::sync::Ordering;
use crate::bell::Bells;
use std::ptr::NonNull;
use std::sync::Arc;

/// Fills the blocks of one lane. Not shared, not cloned.
pub struct LaneWriter {
    region: Arc<Region>,
    lane: usize,
    cursor: WriterCursor,
    block_bytes: usize,
    /// First byte of the open block; while none is open, of any block.
    block: BlockPointer,
    /// Who waits for closed blocks.
    bells: Option<Arc<Bells>>,
    /// False once a crew goes on in its place.
    ends_the_lane: bool,
}

/// First byte of a block.
struct BlockPointer(NonNull<u8>);

// SAFETY: it points into the region that its `LaneWriter` keeps alive, and shared memory belongs to
// no thread.
unsafe impl Send for BlockPointer {}

impl LaneWriter {
    pub(super) fn new(region: Arc<Region>, lane: usize) -> LaneWriter {
        LaneWriter::from_parts(region, lane, WriterCursor::default(), None)
    }

    /// A writer that goes on where `cursor` is.
    pub(super) fn from_parts(
        region: Arc<Region>,
        lane: usize,
        cursor: WriterCursor,
        bells: Option<Arc<Bells>>,
    ) -> LaneWriter {
        let block = BlockPointer(region.block(lane, cursor.slot().unwrap_or(0)));
        let block_bytes = region.layout().block_bytes;
        LaneWriter { region, lane, cursor, block_bytes, block, bells, ends_the_lane: true }
    }

    /// What another one needs to go on. What is filled is published.
    pub(super) fn into_parts(mut self) -> (Arc<Region>, usize, WriterCursor, Option<Arc<Bells>>) {
        self.publish();
        self.ends_the_lane = false;
        let cursor = std::mem::take(&mut self.cursor);
        (self.region.clone(), self.lane, cursor, self.bells.take())
    }

    /// From now on rings when a block is closed, and at the end.
    pub fn wake(&mut self, bells: Arc<Bells>) {
        self.bells = Some(bells);
    }

    /// Opens the next block; `first_frame` is the cumulative number of its first frame.
    ///
    /// # Errors
    /// [`RingFull`] while a lossless reader still needs the block that lies there.
    ///
    /// # Panics
    /// If a block is open.
    pub fn open(&mut self, first_frame: u64) -> Result<(), RingFull> {
        let slot = self.cursor.open(self.region.lane(self.lane), first_frame)?;
        self.block = BlockPointer(self.region.block(self.lane, slot));
        Ok(())
    }

    /// True between `open` and `close`.
    pub fn is_open(&self) -> bool {
        self.cursor.slot().is_some()
    }

    /// Sequence number of the block that `open` will open next, or has opened last plus 1.
    pub fn next_sequence(&self) -> u64 {
        self.cursor.next_sequence()
    }

    /// The part of the open block that is not filled; empty when none is open.
    #[inline]
    pub fn tail(&mut self) -> &mut [u8] {
        if !self.is_open() {
            return &mut [];
        }
        let filled = self.filled_bytes();
        debug_assert!(filled <= self.block_bytes);
        // SAFETY: `block` is the open block and `fill` keeps `filled` within it. No lossless reader
        // borrows any of it beyond the published bytes, which end at or before `filled`; there is
        // one writer per lane, and `&mut self` makes this its only slice. Copying readers have
        // other mappings (`copy_words`) and throw away what changed under them.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.block.0.add(filled).as_ptr(),
                self.block_bytes - filled,
            )
        }
    }

    /// Says that the next `bytes` of the tail are filled and hold `frames` frames. They are seen
    /// by readers after the next [`publish`](Self::publish).
    ///
    /// # Panics
    /// If the block has no room for them.
    #[inline]
    pub fn fill(&mut self, bytes: usize, frames: u32) {
        self.cursor.fill(bytes, frames, self.block_bytes);
    }

    /// Bytes filled in the open block.
    #[inline]
    pub fn filled_bytes(&self) -> usize {
        self.cursor.filled_bytes() as usize
    }

    /// Stamp of the first frame in the open block, and the latest, nanoseconds of UTC; a block
    /// begins with none (0, 0). To be set before they are published. Two relaxed stores.
    #[inline]
    pub fn set_times(&mut self, first_ns: u64, last_ns: u64) {
        self.cursor.set_times(self.region.lane(self.lane), first_ns, last_ns);
    }

    /// Shows readers what is filled. Two release stores.
    pub fn publish(&mut self) {
        self.cursor.publish(self.region.lane(self.lane));
    }

    /// Publishes and closes the open block.
    ///
    /// # Panics
    /// If the block is not filled to its end.
    pub fn close(&mut self) {
        assert_eq!(self.filled_bytes(), self.block_bytes, "a closed block is full");
        self.cursor.close(self.region.lane(self.lane));
        self.ring_bells();
    }

    fn ring_bells(&self) {
        if let Some(bells) = &self.bells {
            bells.ring();
        }
    }

    /// Promises that no later frame is stamped before `low_water_ns`.
    pub fn set_low_water_ns(&self, low_water_ns: u64) {
        let header = self.region.lane(self.lane).header;
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
        if !self.ends_the_lane {
            return;
        }
        self.publish();
        self.set_low_water_ns(u64::MAX);
        self.cursor.finish(self.region.lane(self.lane));
        self.ring_bells();
    }
}
