//! The file that a directory's writer fills for a lane.
//!
//! It grows by whole pcapng blocks only, so that its visible size is valid at every moment:
//!
//! - Closed ring blocks are appended. A direct write that extends a file shows its new size when
//!   all of it is there. One through the page cache does not: the kernel shows its size folio by
//!   folio (`generic_perform_write`), so that while it lasts the end may be torn within a block.
//! - The published part of an open block is written up to where it ends; for direct writes from
//!   the last page's border on, and padded to a page with a block of padding. When it goes on, the
//!   file is first cut to where the frames ended: so no reader sees the new bytes of that page,
//!   which overwrite the padding, with the old size.
//! - A file that is used again begins with room for ring blocks behind its header
//!   (`SeriesFile::reuse`), so its size stands still. Closed ring blocks take the place of room,
//!   each at once. Before a part of one is written, and at the end, the room is cut away.

use super::buffer::{PAGE_BYTES, PageBuffer};
use super::folder::lock;
use ringside_ring::BlockFeed;
use ringside_store::dir::Entry;
use ringside_store::pcapng::RINGSIDE_PADDING;
use ringside_store::recording::{END_BYTES, SeriesFile, Storage};
use ringside_store::{StoreError, block};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Stands for "no ring block yet".
const NO_BLOCK: u64 = u64::MAX;

/// A file as its writer and the housekeeper share it.
pub(super) struct OpenFile<F = File> {
    pub(super) series: SeriesFile<F>,
    /// Index of its lane.
    pub(super) lane: usize,
    /// Largest size, if there is one.
    pub(super) bytes_max: Option<u64>,
    /// The file that will follow.
    pub(super) next: Mutex<Next<F>>,
    /// What the housekeeper did.
    pub(super) kept: Mutex<Kept>,
    /// Where its writer tells the index thread what is complete.
    pub(super) feed: BlockFeed,
    /// Number of the ring block that is the first here.
    first_block: AtomicU64,
    /// Complete ring blocks.
    complete: AtomicU64,
    /// Where the file ends: the frames, not the padding behind them.
    end: AtomicU64,
    /// Nothing more is written.
    ended: AtomicBool,
    /// Another program deleted it: what is written here is nowhere.
    deleted: AtomicBool,
    /// Room that was reserved beyond the end went with a cut.
    was_cut: AtomicBool,
    /// The file was cut to its end and says so.
    is_settled: Mutex<bool>,
}

impl<F: Storage> OpenFile<F> {
    pub(super) fn first_block(&self) -> Option<u64> {
        Some(self.first_block.load(Ordering::Acquire)).filter(|&number| number != NO_BLOCK)
    }

    pub(super) fn complete(&self) -> u64 {
        self.complete.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// True from the first [`note_deletion`](Self::note_deletion) that found it deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// True once after each cut of the growing file: what was reserved is gone.
    pub(super) fn take_cut(&self) -> bool {
        self.was_cut.swap(false, Ordering::AcqRel)
    }

    /// Gives back what the file holds beyond its end, padding and reserved room, and has it say
    /// that it grows no more. Once; the second call does nothing.
    ///
    /// # Errors
    /// The system refused.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let mut is_settled = lock(&self.is_settled);
        if *is_settled {
            return Ok(());
        }
        self.series.cut(self.end())?;
        self.series.set_finished(self.end())?;
        *is_settled = true;
        Ok(())
    }
}

impl OpenFile {
    /// Looks whether the file still has a name. True once: if it was deleted since the last look.
    pub(super) fn note_deletion(&self) -> bool {
        let has_name = self.series.file().metadata().is_ok_and(|found| found.nlink() > 0);
        !has_name && !self.deleted.swap(true, Ordering::AcqRel)
    }
}

/// The file that will follow another one.
#[derive(Default)]
pub(super) enum Next<F = File> {
    /// Not made yet.
    #[default]
    None,
    /// Ready, under a hidden name.
    Ready(Box<Spare<F>>),
    /// The writer took it, or goes without.
    Taken,
}

/// What the housekeeper did for a file.
#[derive(Default)]
pub(super) struct Kept {
    /// End of the file at the last sync.
    pub(super) synced: u64,
    /// A sync failed. The kernel tells so once, and later ones succeed without the bytes that were
    /// lost: no block may be counted any more.
    pub(super) is_lost: bool,
    /// It is on the medium, whole; nothing more is done to it.
    pub(super) is_finished: bool,
    /// Room is reserved up to here.
    pub(super) reserved: u64,
    /// The file is not written directly, the file system cannot reserve, or there is no room.
    pub(super) reserves_no_more: bool,
}

/// A file that was made ready ahead, and the name that it will have.
pub(super) struct Spare<F = File> {
    pub(super) series: SeriesFile<F>,
    pub(super) name: Entry,
}

/// A file as its writer sees it.
pub(super) struct LaneFile<F = File> {
    pub(super) shared: Arc<OpenFile<F>>,
    /// The handle for ring blocks.
    handle: Arc<F>,
    /// True if that handle goes past the page cache.
    direct: bool,
    /// Complete ring blocks.
    complete: u64,
    /// Bytes of the ring block after them that are in the file.
    filled: usize,
    /// [`comes_into_use`](Self::comes_into_use) was true.
    is_in_use: bool,
    /// Where the room for ring blocks ends; at most where the frames end, if there is none.
    room_end: u64,
    /// Size of the file as others see it.
    visible: u64,
}

/// Where a write of closed blocks begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteStart {
    /// In the first of the blocks.
    pub(super) from: usize,
    /// In the file.
    pub(super) offset: u64,
    /// There is room in the file for all of them: [`LaneFile::fill_room`] is to write them.
    pub(super) is_room: bool,
}

impl<F: Storage> LaneFile<F> {
    /// A file that was just created. `direct` asks for direct writes, where they can be had.
    ///
    /// # Errors
    /// There is no descriptor for a second handle.
    pub(super) fn new(
        series: SeriesFile<F>,
        lane: usize,
        bytes_max: Option<u64>,
        direct: bool,
    ) -> Result<LaneFile<F>, StoreError> {
        let handle = if direct { series.open_direct() } else { None };
        let direct = handle.is_some();
        let handle = match handle {
            Some(handle) => handle,
            None => series.duplicate()?,
        };
        let (start, room_end) = (series.block_offset(0), series.room_end());
        let shared = OpenFile {
            series,
            lane,
            bytes_max,
            next: Mutex::default(),
            // The page cache gets room when it is written back, tmpfs with each page; reserved
            // ahead it would be looked for twice.
            kept: Mutex::new(Kept { reserves_no_more: !direct, ..Kept::default() }),
            feed: BlockFeed::default(),
            first_block: AtomicU64::new(NO_BLOCK),
            complete: AtomicU64::new(0),
            end: AtomicU64::new(start),
            ended: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            was_cut: AtomicBool::new(false),
            is_settled: Mutex::new(false),
        };
        let (shared, handle) = (Arc::new(shared), Arc::new(handle));
        let (complete, filled, is_in_use) = (0, 0, false);
        let visible = room_end;
        Ok(LaneFile { shared, handle, direct, complete, filled, is_in_use, room_end, visible })
    }

    pub(super) fn path(&self) -> &Path {
        self.shared.series.path()
    }

    pub(super) fn handle(&self) -> &Arc<F> {
        &self.handle
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// True if it holds nothing but its header.
    pub(super) fn is_empty(&self) -> bool {
        self.complete == 0 && self.filled == 0
    }

    /// True once: when its first blocks are complete, and the file that follows can be made.
    pub(super) fn comes_into_use(&mut self) -> bool {
        self.complete > 0 && !std::mem::replace(&mut self.is_in_use, true)
    }

    /// True if it holds a part of the block that is being filled.
    pub(super) fn has_begun_block(&self) -> bool {
        self.filled > 0
    }

    /// Ring blocks that still fit; a file holds one whatever its largest size.
    pub(super) fn room_blocks(&self) -> usize {
        let series = &self.shared.series;
        let limit = match self.shared.bytes_max {
            None => u64::MAX,
            Some(bytes) => {
                bytes.saturating_sub(series.block_offset(0) + END_BYTES) / series.block_bytes()
            }
        };
        usize::try_from(limit.max(1).saturating_sub(self.complete)).unwrap_or(usize::MAX)
    }

    /// Readies the file for a write of `blocks` closed blocks, the first of which has the number
    /// `sequence`.
    ///
    /// # Errors
    /// The padding, or room that is not enough, cannot be cut away.
    pub(super) fn begin_write(
        &mut self,
        sequence: u64,
        blocks: usize,
    ) -> Result<WriteStart, StoreError> {
        let block_bytes = self.shared.series.block_bytes();
        let is_room = self.block_start() + blocks as u64 * block_bytes <= self.room_end;
        if !is_room {
            self.cut_padding()?;
        }
        self.note_first(sequence);
        let from = if self.direct { page_before(self.filled) } else { self.filled };
        Ok(WriteStart { from, offset: self.block_start() + from as u64, is_room })
    }

    /// `blocks` closed blocks were written whole.
    pub(super) fn wrote(&mut self, blocks: usize) {
        self.complete += blocks as u64;
        self.filled = 0;
        self.visible = self.block_start().max(self.room_end);
        self.shared.complete.store(self.complete, Ordering::Release);
        self.shared.end.store(self.block_start(), Ordering::Release);
    }

    /// A write of the closed blocks `bytes` got to their byte `reached` only. Cuts the file to the
    /// last whole pcapng block and returns how much of `bytes` is kept.
    pub(super) fn write_failed(&mut self, bytes: &[u8], reached: usize) -> usize {
        let kept = block::whole_bytes(&bytes[..reached]).max(self.filled);
        let block_bytes = self.shared.series.block_bytes() as usize;
        self.complete += (kept / block_bytes) as u64;
        self.filled = kept % block_bytes;
        self.shared.complete.store(self.complete, Ordering::Release);
        self.set_end();
        kept
    }

    /// Copies what is published of an open block into `buffer`, as it is to be written: from the
    /// last page's border before what the file has of it, or from there.
    pub(super) fn copy_part(&self, block: &[u8], buffer: &mut PageBuffer) -> Part {
        let from = if self.direct { page_before(self.filled) } else { self.filled };
        let bytes = block.len() - from;
        let target = buffer.bytes_mut();
        target[..bytes].copy_from_slice(&block[from..]);
        let mut padded = bytes;
        if self.direct {
            padded = bytes.next_multiple_of(PAGE_BYTES);
            if padded != bytes && padded - bytes < PADDING_BYTES_MIN {
                padded += PAGE_BYTES;
            }
            block::write_padding(&mut target[bytes..padded]);
        }
        Part { from, bytes, padded }
    }

    /// Writes the published part of the open block `sequence`.
    ///
    /// # Errors
    /// The system refused; the file was cut to the last whole pcapng block, and the frames that
    /// are new in it are reported.
    pub(super) fn write_part(
        &mut self,
        sequence: u64,
        part: Part,
        buffer: &PageBuffer,
    ) -> Result<(), (StoreError, u64)> {
        let offset = self.block_start() + part.from as u64;
        if offset + part.padded as u64 != self.visible || self.has_room() {
            self.cut_padding().map_err(|error| (error, 0))?;
        }
        self.note_first(sequence);
        let (written, result) = self.handle.write_counted(&buffer.bytes()[..part.padded], offset);
        if let Err(error) = result {
            // What lies before `from` is in the file as it was; `from` may be within a block.
            let new = &buffer.bytes()[..written.min(part.bytes)];
            let new = new.get(self.filled - part.from..).unwrap_or_default();
            let whole = &new[..block::whole_bytes(new)];
            self.filled += whole.len();
            self.set_end();
            return Err((self.shared.series.write_error(error), block::frame_count(whole)));
        }
        self.filled = part.from + part.bytes;
        self.visible = offset + part.padded as u64;
        self.shared.end.store(self.block_start() + self.filled as u64, Ordering::Release);
        Ok(())
    }

    /// Says that nothing more is written.
    pub(super) fn end(self) {
        self.shared.ended.store(true, Ordering::Release);
    }

    /// Where the ring block begins that is being filled.
    fn block_start(&self) -> u64 {
        self.shared.series.block_offset(self.complete)
    }

    fn has_room(&self) -> bool {
        self.room_end > self.block_start()
    }

    fn note_first(&self, sequence: u64) {
        if self.is_empty() {
            self.shared.first_block.store(sequence, Ordering::Release);
        }
    }

    /// Makes the file end where its frames end: nothing is behind them, no padding and no room.
    fn cut_padding(&mut self) -> Result<(), StoreError> {
        let end = self.block_start() + self.filled as u64;
        if self.visible != end {
            self.shared.series.cut(end)?;
            self.shared.was_cut.store(true, Ordering::Release);
            (self.visible, self.room_end) = (end, end);
        }
        Ok(())
    }

    /// After a failed write: the file ends where whole blocks end. If cutting it fails too,
    /// readers still stop at the torn block.
    fn set_end(&mut self) {
        let end = self.block_start() + self.filled as u64;
        self.shared.end.store(end, Ordering::Release);
        let _ = self.shared.series.cut(end);
        (self.visible, self.room_end) = (end, end);
    }
}

impl LaneFile {
    /// Writes closed blocks over room. Returns how many bytes of them are there.
    pub(super) fn fill_room(&self, blocks: &[u8], start: WriteStart) -> (usize, io::Result<()>) {
        self.shared.series.fill_room(blocks, start.offset)
    }
}

/// Shortest block of padding.
const PADDING_BYTES_MIN: usize = 12;

/// What is to be written of an open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where in the block it begins.
    from: usize,
    /// Without the padding.
    bytes: usize,
    padded: usize,
}

/// Where the padding begins of a ring block that is mostly padding.
pub(super) fn short_bytes(block: &[u8]) -> Option<usize> {
    let mut blocks = block::blocks(block);
    let mut start = 0;
    while let Some((kind, bytes)) = blocks.next() {
        if kind == RINGSIDE_PADDING && bytes.len() > block.len() / 2 {
            let rest = &block[start + bytes.len()..];
            return (rest.is_empty() || is_end(rest)).then_some(start);
        }
        start = blocks.offset();
    }
    None
}

/// True if nothing but the end of a ring block is there.
fn is_end(bytes: &[u8]) -> bool {
    bytes.len() == block::BLOCK_END_BYTES && block::block_end(bytes).is_some()
}

fn page_before(at: usize) -> usize {
    at / PAGE_BYTES * PAGE_BYTES
}
