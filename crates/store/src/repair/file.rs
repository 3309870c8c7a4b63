//! One file: what is to be changed in it, and the changing.

use super::mark::{mark, read_mark};
use super::report::Change;
use super::walk::{self, Depth, Gap, Walked};
use super::watch::Watch;
use crate::StoreError;
use crate::block::write_padding;
use crate::dir::Entry;
use crate::pcapng::{BLOCK_BYTES_MIN, RINGSIDE_PADDING};
use crate::recording::{FileHeader, HeaderPage, read_header_from};
use ringside_core::{InterfaceId, Shown, Timestamp};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// Unit of `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;
/// Space beyond a file's end that is no reservation: a file system's own rounding.
const SLACK_BYTES: u64 = 1 << 20;

/// A file that was looked at, and what is to be done with it.
pub(super) struct Examined {
    entry: Entry,
    pub(super) header: FileHeader,
    /// What the header is to say.
    fixed: FileHeader,
    interfaces: usize,
    pub(super) walked: Walked,
    /// A header page that takes the place of a lost one.
    page: Option<Vec<u8>>,
    /// What an earlier repair left at the end.
    pub(super) marked: Option<Timestamp>,
    to_mark: Option<Vec<u8>>,
    reserved_bytes: u64,
}

impl Examined {
    /// Looks at the file `entry`; its header page is `lost`, if that cannot be read. Returns
    /// `None` if it is no file of a recording.
    pub(super) fn new(
        entry: &Entry,
        (depth, watch): (Depth, &Watch<'_>),
        lost: Option<&HeaderPage>,
    ) -> Result<Option<Examined>, StoreError> {
        let path = entry.path();
        let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
        let file = Arc::new(entry.open_regular(OFlags::RDONLY).map_err(fail)?);
        let metadata = file.metadata().map_err(fail)?;
        let header = match lost {
            Some(page) => read_header_from(&page.bytes[..]),
            None => read_header_from(&*file),
        };
        let Some(header) = header.map_err(fail)? else { return Ok(None) };
        let walked = walk::walk(path, &file, &header, (depth, watch))?;
        let allocated = metadata.blocks().saturating_mul(STAT_BLOCK_BYTES);
        // Room is given back whatever its size: a file that has some counts as being written.
        let room = walked.room_at.map_or(0, |_| walked.bytes.saturating_sub(walked.kept));
        let beyond = allocated.saturating_sub(walked.kept);
        let reserved_bytes = if beyond > SLACK_BYTES || room > 0 { beyond.max(room) } else { 0 };
        let first_block = walk::first_block(&file, &header).or(header.file.first_block);
        let mut examined = Examined {
            entry: entry.clone(),
            marked: read_mark(&file, walked.kept),
            interfaces: header.walk.interfaces().len(),
            fixed: FileHeader { first_block, ..header.file.clone() },
            header: header.file,
            walked,
            page: lost.map(|page| page.bytes.clone()),
            to_mark: None,
            reserved_bytes,
        };
        examined.fix_header();
        Ok(Some(examined))
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// True if the file holds no frame and no ring block, whatever else is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.walked.blocks.is_empty() && self.walked.frames == 0
    }

    /// Number of the last ring block, to find the end of a lane.
    pub(super) fn last_block(&self) -> Option<u64> {
        self.walked.blocks.last().map(|block| block.header.number)
    }

    /// When the last frame came, or else the ring block or the file was begun.
    pub(super) fn last_time(&self) -> Timestamp {
        let block = self.walked.blocks.last().map(|block| block.header.opened);
        let block = block.filter(|&opened| opened != Timestamp::default());
        let frame = self.walked.last.map(|(stamp, _)| stamp);
        frame.or(block).unwrap_or(self.header.created)
    }

    /// Plans the mark at the end, unless there is one.
    pub(super) fn plan_mark(&mut self, unknown_after: Timestamp) {
        let interface = self.walked.last.map_or(InterfaceId(0), |(_, interface)| interface);
        if self.marked.is_none() && (interface.0 as usize) < self.interfaces {
            self.to_mark = Some(mark(interface, unknown_after));
            self.marked = Some(unknown_after);
            self.fix_header();
        }
    }

    fn fix_header(&mut self) {
        let bytes = self.bytes_after();
        self.fixed.blocks_complete = self.ring_blocks();
        // A file to which nothing more is written has reached its largest size.
        self.fixed.bytes_max = match self.header.bytes_max {
            0 => 0,
            limit => limit.min(bytes),
        };
    }

    /// Complete ring blocks, once all is done: padding before the mark completes one.
    pub(super) fn ring_blocks(&self) -> u64 {
        let mut borders = self.walked.borders;
        if let gap @ 1.. = self.mark_gap() {
            borders.fix(self.walked.kept, self.walked.kept + gap);
        }
        borders.blocks()
    }

    /// Size of the file when all is done.
    fn bytes_after(&self) -> u64 {
        self.walked.kept + self.mark_gap() + self.to_mark.as_ref().map_or(0, |m| m.len() as u64)
    }

    /// Padding before the mark, so that the mark does not lie across a border of ring blocks.
    fn mark_gap(&self) -> u64 {
        let Some(mark) = &self.to_mark else { return 0 };
        let room = self.walked.borders.after(self.walked.kept) - self.walked.kept;
        let (mark, min) = (mark.len() as u64, BLOCK_BYTES_MIN as u64);
        let fits = room == mark || room >= mark + min;
        // A ring block has room for its closing blocks; only a foreign one has not.
        if fits || room < min { 0 } else { room }
    }

    /// Everything that is to be done, in order.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let walked = &self.walked;
        changes.extend(self.page.as_ref().map(|_| Change::HeaderMade));
        changes.extend(
            walked
                .gaps
                .iter()
                .map(|&Gap { start, end }| Change::Padded { offset: start, bytes: end - start }),
        );
        if walked.kept < walked.room_at.unwrap_or(walked.bytes) {
            let end = walked.room_at.unwrap_or(walked.bytes);
            let (offset, bytes) = (walked.kept, end - walked.kept);
            changes.push(Change::Cut { offset, bytes });
        }
        if let (Some(_), Some(unknown_after_ns)) = (&self.to_mark, self.marked) {
            changes.push(Change::Marked { unknown_after_ns });
        }
        let fixed = &self.fixed;
        if fixed.blocks_complete != self.header.blocks_complete {
            let (before, now) = (self.header.blocks_complete, fixed.blocks_complete);
            changes.push(Change::Counted { before, now });
        }
        let (first, limit) = (fixed.first_block, fixed.bytes_max);
        if (first, limit) != (self.header.first_block, self.header.bytes_max) {
            changes.push(Change::HeaderRepaired);
        }
        if self.reserved_bytes > 0 {
            changes.push(Change::Released { bytes: self.reserved_bytes });
        }
        changes
    }

    /// Does what is to be done, and waits until it is on the medium. The content first, the count
    /// in the header page last: wherever it is interrupted, the next repair goes on from there.
    pub(super) fn apply(&self) -> Result<(), StoreError> {
        let context = format!("cannot repair {}", self.entry.path().shown());
        let fail = |error| StoreError::io(context.clone(), error);
        let file = self.entry.open_regular(OFlags::RDWR).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() != self.walked.bytes {
            return Err(fail(io::Error::other("it changed meanwhile")));
        }
        self.write_content(&file).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        self.write_header(&file).map_err(fail)?;
        file.sync_all().map_err(fail)
    }

    fn write_content(&self, file: &File) -> io::Result<()> {
        if let Some(page) = &self.page {
            file.write_all_at(page, 0)?;
        }
        for &Gap { start, end } in &self.walked.gaps {
            let length = ((end - start) as u32).to_le_bytes();
            // The end first: before its beginning is there, the gap stays what it was.
            file.write_all_at(&length, end - 4)?;
            file.write_all_at(&[RINGSIDE_PADDING.to_le_bytes(), length].concat(), start)?;
        }
        // Also gives back what is reserved beyond.
        if self.walked.kept != self.walked.bytes || self.reserved_bytes > 0 {
            file.set_len(self.walked.kept)?;
        }
        if let Some(mark) = &self.to_mark {
            let mut end = vec![0; self.mark_gap() as usize];
            write_padding(&mut end);
            end.extend_from_slice(mark);
            file.write_all_at(&end, self.walked.kept)?;
        }
        Ok(())
    }

    /// Writes the fields that change, where they stand.
    fn write_header(&self, file: &File) -> io::Result<()> {
        if self.fixed == self.header {
            return Ok(());
        }
        let Some(header) = read_header_from(file)? else {
            return Err(io::Error::other("its header page changed meanwhile"));
        };
        for (at, value) in self.fixed.changing_fields(header.walk.offset()) {
            file.write_all_at(&value.to_le_bytes(), at)?;
        }
        Ok(())
    }
}
