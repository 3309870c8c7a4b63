//! Readers that hold nothing back, in this process or in another.

use super::cursor::copy::{Copied, CopyCursor, Ready, RingStart};
use super::region::Region;
use std::sync::Arc;

/// Copies that one call throws away before it says that there is nothing: the writer is so fast
/// that the caller had better wait, or the memory is garbage.
const COPIES_MAX: usize = 8;

/// What a copying reader got.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many frames were appended to the buffer.
    Frames(u32),
    /// Nothing new now.
    Nothing,
    /// The writer has finished and everything left was read.
    Finished,
    /// The memory holds what no writer leaves there; nothing more can be read.
    Damaged,
}

/// A reader that holds nothing back and may be overtaken.
pub struct CopyReader {
    region: Arc<Region>,
    lane: usize,
    cursor: CopyCursor,
}

impl CopyReader {
    pub(crate) fn new(region: Arc<Region>, lane: usize, start: RingStart) -> CopyReader {
        let cursor = CopyCursor::new(region.lane(lane), start);
        CopyReader { region, lane, cursor }
    }

    /// Appends the next published bytes (whole frames, of one block) to `buffer`.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> ReadOutcome {
        let lane = self.region.lane(self.lane);
        for _ in 0..COPIES_MAX {
            let range = match self.cursor.ready(lane) {
                Ready::Range(range) => range,
                Ready::Nothing => return ReadOutcome::Nothing,
                Ready::Finished => return ReadOutcome::Finished,
                Ready::Damaged => return ReadOutcome::Damaged,
            };
            let start = buffer.len();
            self.region.copy_out(self.lane, &range, buffer);
            match self.cursor.confirm(lane, &range) {
                Copied::Valid => return ReadOutcome::Frames(range.frames),
                Copied::Overtaken => buffer.truncate(start),
            }
        }
        ReadOutcome::Nothing
    }

    /// Cumulative number of the frame that this reader began with.
    pub fn first_frame(&self) -> u64 {
        self.cursor.first_frame()
    }

    /// Frames that were delivered.
    pub fn delivered(&self) -> u64 {
        self.cursor.delivered()
    }

    /// Frames from `first_frame` on that were overwritten before they could be copied. Exact;
    /// complete once [`ReadOutcome::Finished`] was returned.
    pub fn missed(&self) -> u64 {
        self.cursor.missed()
    }

    /// Blocks that were opened and not read to their end. What lies more than the lane's blocks
    /// behind is lost.
    pub fn behind_blocks(&self) -> u64 {
        self.cursor.behind_blocks(self.region.lane(self.lane))
    }

    /// Frames that were published and neither delivered nor missed.
    pub fn behind_frames(&self) -> u64 {
        self.cursor.behind_frames(self.region.lane(self.lane))
    }
}
