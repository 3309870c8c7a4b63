//! The writing side: the blocks of one lane.

use super::cursor::{RingFull, WriterCursor};
use super::region::Region;
use ringside_sys::bell::Bells;
use ringside_sys::shared_memory::BlockTail;
use ringside_sys::sync::Ordering;
use std::sync::Arc;

/// What another writer needs to go on.
pub(crate) struct Parts {
    pub(crate) region: Arc<Region>,
    pub(crate) lane: usize,
    pub(crate) cursor: WriterCursor,
    pub(crate) tail: Option<BlockTail>,
    pub(crate) bells: Option<Arc<Bells>>,
}

/// Fills the blocks of one lane. Not shared, not cloned.
pub struct LaneWriter {
    region: Arc<Region>,
    lane: usize,
    cursor: WriterCursor,
    block_bytes: usize,
    /// What is not published of the open block.
    tail: Option<BlockTail>,
    /// Who waits for closed blocks.
    bells: Option<Arc<Bells>>,
    /// False once several threads go on in its place.
    ends_the_lane: bool,
}

impl LaneWriter {
    pub(crate) fn new(region: Arc<Region>, lane: usize) -> LaneWriter {
        LaneWriter::from_parts(region, lane, WriterCursor::default(), None, None)
    }

    /// A writer that goes on where `cursor` is.
    pub(crate) fn from_parts(
        region: Arc<Region>,
        lane: usize,
        cursor: WriterCursor,
        tail: Option<BlockTail>,
        bells: Option<Arc<Bells>>,
    ) -> LaneWriter {
        let block_bytes = region.layout().block_bytes;
        LaneWriter { region, lane, cursor, block_bytes, tail, bells, ends_the_lane: true }
    }

    /// What another one needs to go on. What is filled is published.
    pub(crate) fn into_parts(mut self) -> Parts {
        self.publish();
        self.ends_the_lane = false;
        let cursor = std::mem::take(&mut self.cursor);
        let (tail, bells) = (self.tail.take(), self.bells.take());
        Parts { region: self.region.clone(), lane: self.lane, cursor, tail, bells }
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
        self.tail = Some(self.region.take(self.lane, slot));
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
        let filled = self.filled_bytes();
        self.tail.as_mut().map_or(&mut [], |tail| tail.bytes(filled))
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

    /// Shows readers what is filled. Two release stores, and an addition in memory of our own.
    pub fn publish(&mut self) {
        let filled = self.filled_bytes();
        if let Some(tail) = &mut self.tail {
            tail.show(filled);
        }
        self.cursor.publish(self.region.lane(self.lane));
    }

    /// Publishes and closes the open block.
    ///
    /// # Panics
    /// If the block is not filled to its end.
    pub fn close(&mut self) {
        assert_eq!(self.filled_bytes(), self.block_bytes, "a closed block is full");
        if let Some(mut tail) = self.tail.take() {
            tail.show(self.block_bytes);
        }
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
