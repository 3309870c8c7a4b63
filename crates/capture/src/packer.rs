//! Packing frames of one lane into the capture ring: the one copy.
//!
//! [`Packer`] is for one thread, [`SharedPacker`] for several threads of one lane. What lies in the
//! ring is the same.

mod offered;
mod plan;
mod shared_lane;

pub use offered::{Cuts, Offered, Pieced, Pieces};
pub use shared_lane::{ClaimedFrames, Done, PackerScratch, SharedPacker};

use ringside_core::{
    Batch, Cause, FrameNumber, FrameSlot, InterfaceId, LaneCounters, Stamps, Timestamp,
};
use ringside_ring::LaneWriter;
use ringside_store::block::{
    self, BLOCK_HEADER_BYTES, BlockEnd, BlockHeader, CLOSING_BYTES_MAX, Statistics, captured_max,
    packet_block_bytes, write_block_header,
};
use ringside_sys::clock;
use std::ops::Range;

/// What became of the frames of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Frames that lie in the ring.
    pub taken: u64,
    /// Their bytes, without what the snapshot length cut.
    pub taken_bytes: u64,
    /// What was cut off them, where that is counted.
    pub cuts: Cuts,
    /// Frames that were lost because no block was free.
    pub recorder_behind: u64,
    /// Frames that were lost because no block can hold them.
    pub too_large: u64,
}

/// The ledger of the lane as it was last read, for the statistics of a block.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The counters.
    pub counters: LaneCounters,
    /// When they were read.
    pub when: Timestamp,
}

/// Fills the blocks of one lane.
pub struct Packer {
    writer: LaneWriter,
    interface: InterfaceId,
    snaplen: u32,
    block_bytes: usize,
    frames: u64,
    /// Stamp of the lane's first frame.
    first_time: Timestamp,
    open: OpenBlock,
}

/// What is known of the frames in the open block.
struct OpenBlock {
    number: u64,
    first_frame: u64,
    /// Stamp of its first frame.
    first: Option<Timestamp>,
    /// Of all its frames, for its end.
    stamps: Stamps,
    /// Bytes of the largest batch that went into it.
    batch_bytes_max: usize,
}

impl OpenBlock {
    /// A block without a frame.
    const fn begun(number: u64, first_frame: u64) -> OpenBlock {
        let (first, stamps) = (None, Stamps::NONE);
        OpenBlock { number, first_frame, first, stamps, batch_bytes_max: 0 }
    }

    /// What is to be said of it at its end, if the lane has had `frames` frames.
    fn end(&self, frames: u64) -> BlockEnd {
        let OpenBlock { number, first_frame, stamps, .. } = *self;
        BlockEnd { number, frames: frames - first_frame, stamps }
    }
}

impl Packer {
    /// A packer that owns the lane's writer.
    pub fn new(
        writer: LaneWriter,
        interface: InterfaceId,
        snaplen: u32,
        block_bytes: usize,
    ) -> Packer {
        Packer {
            writer,
            interface,
            snaplen,
            block_bytes,
            frames: 0,
            first_time: Timestamp::default(),
            open: OpenBlock::begun(0, 0),
        }
    }

    /// Copies the first `count` frames of `batch` into the ring. They are seen by readers after
    /// [`publish`](Self::publish).
    ///
    /// # Panics
    /// If the batch has fewer.
    pub fn put(&mut self, batch: &Batch<'_>, count: usize, reading: &Reading) -> Put {
        self.put_offered(&Offered::of(batch).first(count), reading)
    }

    /// As [`put`](Self::put), of frames that may be chosen and cut.
    pub fn put_offered(&mut self, offered: &Offered<'_>, reading: &Reading) -> Put {
        let mut put = Put::default();
        let mut next = 0;
        loop {
            let slots = offered.slots();
            next += self.pack(offered, next..slots.len(), &mut put);
            let Some(slot) = slots.get(next) else { return put };
            match self.make_room(slot, reading) {
                Ok(()) => continue,
                Err(Cause::FrameTooLarge) => put.too_large += 1,
                Err(_) => put.recorder_behind += 1,
            }
            next += 1;
        }
    }

    /// As [`put`](Self::put), of the frames at `range`, for who can wait: stops at the first frame
    /// for which no block is free, and adds to `put` what became of the others. Returns the frame
    /// that is next.
    pub fn put_while_free(
        &mut self,
        offered: &Offered<'_>,
        range: Range<usize>,
        reading: &Reading,
        put: &mut Put,
    ) -> usize {
        let Range { start: mut next, end } = range;
        while next < end {
            next += self.pack(offered, next..end, put);
            let Some(slot) = offered.slots().get(next).filter(|_| next < end) else { break };
            match self.make_room(slot, reading) {
                Ok(()) => {}
                Err(Cause::FrameTooLarge) => {
                    put.too_large += 1;
                    next += 1;
                }
                Err(_) => break,
            }
        }
        next
    }

    /// Shows readers what was put, without a word on time.
    pub fn show(&mut self) {
        self.writer.publish();
    }

    /// Packs what fits of the frames at `range` into the open block; returns how many did.
    fn pack(&mut self, offered: &Offered<'_>, range: Range<usize>, put: &mut Put) -> usize {
        let tail = self.writer.tail();
        let room_bytes = tail.len().saturating_sub(CLOSING_BYTES_MAX);
        let room = &mut tail[..room_bytes];
        let start = range.start;
        let (packed, cuts) = offered.pack(room, range, captured_max(self.snaplen));
        if packed.frames == 0 {
            return 0;
        }
        let stamp = offered.slots()[start].timestamp();
        if self.frames == 0 {
            self.first_time = stamp;
        }
        let open = &mut self.open;
        let first = *open.first.get_or_insert(stamp);
        open.stamps = open.stamps.with(packed.stamps);
        open.batch_bytes_max = open.batch_bytes_max.max(packed.bytes);
        self.writer.fill(packed.bytes, packed.frames as u32);
        self.writer.set_times(first.0, open.stamps.latest.0);
        self.frames += packed.frames as u64;
        put.taken += packed.frames as u64;
        put.taken_bytes += packed.captured_bytes;
        put.cuts.add(cuts);
        packed.frames
    }

    /// Opens a block with room for a frame, after one without.
    fn make_room(&mut self, slot: &FrameSlot, reading: &Reading) -> Result<(), Cause> {
        let captured = slot.captured_bytes().min(captured_max(self.snaplen)) as usize;
        let bytes = packet_block_bytes(captured, slot.meta().direction);
        if BLOCK_HEADER_BYTES + bytes + CLOSING_BYTES_MAX > self.block_bytes {
            return Err(Cause::FrameTooLarge);
        }
        self.close(reading);
        self.open_block()
    }

    /// Opens the next block, with its header.
    fn open_block(&mut self) -> Result<(), Cause> {
        let header = BlockHeader {
            number: self.writer.next_sequence(),
            first_frame: FrameNumber(self.frames),
            opened: clock::realtime_now(),
        };
        self.writer.open(self.frames).map_err(|_| Cause::RecorderBehind)?;
        let bytes = write_block_header(self.writer.tail(), &header);
        self.writer.fill(bytes, 0);
        self.open = OpenBlock::begun(header.number, self.frames);
        Ok(())
    }

    /// Shows readers what was put, and how far time has come in this lane.
    pub fn publish(&mut self, low_water: Timestamp) {
        self.writer.publish();
        self.writer.set_low_water_ns(low_water.0);
    }

    /// True if the open block is so full that a batch may close it, going by those that it took:
    /// time to read the counters.
    pub fn is_nearly_full(&self) -> bool {
        let free = self.block_bytes - self.writer.filled_bytes();
        self.writer.is_open() && free < 2 * self.open.batch_bytes_max + CLOSING_BYTES_MAX
    }

    /// Closes the open block, if any: statistics, padding, and its end.
    pub fn close(&mut self, reading: &Reading) {
        if !self.writer.is_open() {
            return;
        }
        let (statistics, end) = (self.statistics(reading), self.open.end(self.frames));
        let tail = self.writer.tail();
        let bytes = tail.len();
        block::close_block(tail, &statistics, &end);
        self.writer.fill(bytes, 0);
        self.writer.close();
    }

    /// Ends the lane: final statistics without padding, so that a short run is a short file.
    pub fn finish(mut self, reading: &Reading) {
        if self.writer.is_open() || self.open_block().is_ok() {
            let statistics = self.statistics(reading);
            let bytes = block::write_statistics_block(self.writer.tail(), &statistics);
            self.writer.fill(bytes, 0);
        }
        self.writer.finish();
    }

    fn statistics<'r>(&self, reading: &'r Reading) -> Statistics<'r> {
        Statistics {
            interface: self.interface,
            first_time: self.first_time,
            when: reading.when,
            counters: &reading.counters,
        }
    }
}

#[cfg(test)]
mod tests;
