//! Packing frames of one lane into the capture ring: the one copy.

use ringside_core::{Cause, Frame, InterfaceId, LaneCounters, Timestamp};
use ringside_store::block::{
    self, CLOSING_BYTES_MAX, Statistics, captured_bytes, fits, packet_block_bytes,
    write_packet_block,
};
use ringside_sys::ring::LaneWriter;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It lies in the ring with this many bytes.
    Taken(usize),
    /// It was lost here.
    Dropped(Cause),
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
    first_time: Timestamp,
}

impl Packer {
    /// A packer that owns the lane's writer.
    pub fn new(
        writer: LaneWriter,
        interface: InterfaceId,
        snaplen: u32,
        block_bytes: usize,
    ) -> Packer {
        let first_time = Timestamp::default();
        Packer { writer, interface, snaplen, block_bytes, frames: 0, first_time }
    }

    /// Copies `frame` into the ring. It is seen by readers after [`publish`](Self::publish).
    #[inline]
    pub fn put(&mut self, frame: &Frame<'_>, reading: &Reading) -> Put {
        let captured = captured_bytes(frame, self.snaplen);
        let direction = frame.meta.direction;
        if !fits(self.writer.tail().len(), captured, direction) {
            if packet_block_bytes(captured, direction) + CLOSING_BYTES_MAX > self.block_bytes {
                return Put::Dropped(Cause::FrameTooLarge);
            }
            self.close(reading);
            if self.writer.open(self.frames).is_err() {
                return Put::Dropped(Cause::RecorderBehind);
            }
        }
        if self.frames == 0 {
            self.first_time = frame.meta.timestamp;
        }
        let bytes = write_packet_block(self.writer.tail(), frame, self.snaplen);
        self.writer.fill(bytes, 1);
        self.frames += 1;
        Put::Taken(captured)
    }

    /// Shows readers what was put, and how far time has come in this lane.
    pub fn publish(&mut self, low_water: Timestamp) {
        self.writer.publish();
        self.writer.set_low_water_ns(low_water.0);
    }

    /// True if the open block is so full that a batch may close it: time to read the counters.
    pub fn is_nearly_full(&self) -> bool {
        self.writer.is_open() && self.writer.filled_bytes() > self.block_bytes / 4 * 3
    }

    /// Closes the open block, if any: statistics, then padding to its end.
    pub fn close(&mut self, reading: &Reading) {
        if !self.writer.is_open() {
            return;
        }
        let statistics = self.statistics(reading);
        let tail = self.writer.tail();
        let bytes = tail.len();
        block::close_block(tail, &statistics);
        self.writer.fill(bytes, 0);
        self.writer.close();
    }

    /// Ends the lane: final statistics without padding, so that a short run is a short file.
    pub fn finish(mut self, reading: &Reading) {
        if self.writer.is_open() || self.writer.open(self.frames).is_ok() {
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
