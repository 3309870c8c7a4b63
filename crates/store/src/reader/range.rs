//! Ring blocks that a range of time passes by: each says at its end when its frames were.

use super::FileSource;
use crate::block::{
    BLOCK_END_BYTES, BLOCK_HEADER_BYTES, BlockEnd, BlockHeader, block_end, block_header,
    packet_block_bytes,
};
use crate::file_header::FORMAT_VERSION_WITH_ENDS;
use ringside_core::{Direction, TimeRange};

impl FileSource {
    /// True at the beginning of a ring block that ends with its times, if these matter and were not
    /// looked at.
    pub(super) fn has_block_to_look_at(&self) -> bool {
        let at = self.record_offset;
        self.range != TimeRange::default()
            && self.file_bytes.is_some()
            && self.recording().is_some_and(|header| header.format >= FORMAT_VERSION_WITH_ENDS)
            && self.looked_at != Some(at)
            && self.is_ring_block_position(at)
    }

    /// Passes by the ring block at which the reading stands, if it is closed and says that none of
    /// its frames lies in the range; its header and its end are all that is read of it. Else the
    /// next reads go no further than it does.
    pub(super) fn pass_block(&mut self) -> Option<(BlockHeader, BlockEnd)> {
        let start = self.record_offset;
        let next = start + self.recording()?.block_bytes as u64;
        self.looked_at = Some(start);
        self.input.stop_at(next);
        if self.file_bytes.is_none_or(|bytes| next > bytes) {
            return None;
        }
        let (mut head, mut tail) = ([0; BLOCK_HEADER_BYTES], [0; BLOCK_END_BYTES]);
        let is_read = self.input.read_place(&mut head, start)
            && self.input.read_place(&mut tail, next - BLOCK_END_BYTES as u64);
        let (header, end) = (block_header(&head)?, block_end(&tail)?);
        // More frames than there is room for would be a lie.
        let frames_max = (next - start) / packet_block_bytes(0, Direction::Unknown) as u64;
        let is_sound = is_read && header.number == end.number && end.frames <= frames_max;
        if !is_sound || self.range.meets(end.stamps) {
            return None;
        }
        self.input.jump(next);
        self.blocks_passed += 1;
        self.low_water = self.low_water.max(end.stamps.latest);
        Some((header, end))
    }
}
