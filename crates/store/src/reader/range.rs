//! What a reading passes by: ring blocks outside a range of time, each of which says at its end
//! when its frames were, and parts of which somebody knows that nothing in them is asked for.

use super::{FileSource, Progress};
use crate::block::{
    BLOCK_END_BYTES, BLOCK_HEADER_BYTES, BlockEnd, BlockHeader, block_end, block_header,
    packet_block_bytes,
};
use crate::file_header::FORMAT_VERSION_WITH_ENDS;
use crate::part::{Part, Pruner};
use ringside_core::{Direction, TimeRange};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// What is asked of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) range: TimeRange,
    pub(crate) pruner: Option<Arc<dyn Pruner>>,
    /// The kernel is to read ahead: all that is wanted is read, and soon.
    pub(crate) reads_ahead: bool,
}

impl Wanted {
    /// Frames of this time, whichever they are.
    pub(crate) fn of(range: TimeRange) -> Wanted {
        Wanted { range, ..Wanted::default() }
    }

    /// Parts of the file that need not be read.
    pub(super) fn passes(&self, path: &Path, file: &File) -> Vec<Part> {
        let passed = |pruner: &Arc<dyn Pruner>| pruner.passed(path, file, self.range);
        self.pruner.as_ref().map(passed).unwrap_or_default()
    }
}

impl FileSource {
    /// From now on passes these parts by, which are in the order of the file.
    pub(super) fn pass_by(&mut self, mut parts: Vec<Part>) {
        parts.retain(|part| self.file_bytes.is_some_and(|bytes| part.end <= bytes));
        parts.reverse();
        if let Some(ahead) = &mut self.ahead {
            ahead.pass_by(parts.len());
        }
        self.passes = parts;
        self.read_to_next_part();
        self.ask_ahead();
    }

    /// At the beginning of a record: passes by what is not asked for, behind the frames that were
    /// found. None if the record is to be read.
    pub(super) fn pass_here(&mut self) -> Option<Progress> {
        let has_part = self.has_part_to_pass();
        if !has_part && !self.has_block_to_look_at() {
            return None;
        }
        if !self.slots.is_empty() {
            return Some(Progress::Frames);
        }
        if has_part && let Some(passed) = self.pass_part() {
            return Some(passed);
        }
        if !self.has_block_to_look_at() {
            return None;
        }
        self.pass_block().map(|(header, end)| Progress::Passed(Some(header), end))
    }

    /// True at the beginning of a part that is passed by, or behind it.
    fn has_part_to_pass(&self) -> bool {
        self.passes.last().is_some_and(|part| part.start <= self.record_offset)
    }

    /// Passes the part at which the reading stands. One that begins within a record is not what it
    /// was taken for, and is read.
    fn pass_part(&mut self) -> Option<Progress> {
        let part = self.passes.pop()?;
        self.read_to_next_part();
        if part.start != self.record_offset {
            return None;
        }
        self.input.jump(part.end);
        self.blocks_passed += u64::from(part.header.is_some());
        self.low_water = self.low_water.max(part.stamps.latest);
        let number = part.header.map_or(0, |header| header.number);
        let end = BlockEnd { number, frames: part.frames, stamps: part.stamps };
        Some(Progress::Passed(part.header, end))
    }

    fn read_to_next_part(&mut self) {
        if let Some(next) = self.passes.last() {
            self.input.stop_at(next.start);
        }
    }

    /// True at the beginning of a ring block that ends with its times, if these matter and were not
    /// looked at.
    fn has_block_to_look_at(&self) -> bool {
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
    fn pass_block(&mut self) -> Option<(BlockHeader, BlockEnd)> {
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
