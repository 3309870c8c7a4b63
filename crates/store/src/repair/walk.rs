//! What a file of a recording holds, and what in it cannot be read.

use super::watch::Watch;
use crate::StoreError;
use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, block_header};
use crate::pcapng::BLOCK_BYTES_MIN;
use crate::reader::{Borders, Condition, FileSource, Progress};
use crate::recording::{Header, is_room_at};
use ringside_core::{InterfaceId, Shown, SourceError, Timestamp};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ring blocks of one file that may be holes: 64 GiB of ordinary ones. A sparse file could claim
/// any number of them, and each costs a write.
const HOLE_BLOCKS_MAX: u64 = 65_536;
/// Bytes of a doubtful end that are looked at in one go.
const LOOK_BYTES: usize = 64 << 10;

/// How much of a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All of it.
    Whole,
    /// From the last ring block on that the header page counts. What it counts was on the medium
    /// when it was counted, so this finds all that the end of a process or of power can do.
    Tail,
}

/// A ring block that is there, or its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) header: BlockHeader,
    pub(super) frames: u64,
}

/// Bytes that cannot be read and become one padding block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Walked {
    /// Ring blocks that begin with their header, in order.
    pub(super) blocks: Vec<Seen>,
    /// Frames that were met.
    pub(super) frames: u64,
    /// Stamp and interface of the last of them.
    pub(super) last: Option<(Timestamp, InterfaceId)>,
    /// True if everything was looked at.
    pub(super) is_whole: bool,
    pub(super) gaps: Vec<Gap>,
    /// Size of the file now, and where what is kept ends.
    pub(super) bytes: u64,
    pub(super) kept: u64,
    /// Where room for ring blocks begins that goes to the end of the file.
    pub(super) room_at: Option<u64>,
    /// As they are once the gaps are padding.
    pub(super) borders: Borders,
}

impl Walked {
    /// True if the end of the file was torn. Room behind what is kept is no tear.
    pub(super) fn is_torn(&self) -> bool {
        let end = self.room_at.unwrap_or(self.bytes);
        self.kept != end || self.gaps.last().is_some_and(|gap| gap.end == end)
    }
}

/// Walks `file`, whose header is `header`.
pub(super) fn walk(
    path: &Path,
    file: &Arc<File>,
    header: &Header,
    (depth, watch): (Depth, &Watch<'_>),
) -> Result<Walked, StoreError> {
    let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
    let bytes = file.metadata().map_err(fail)?.len();
    let (first, step) = (header.bytes as u64, header.file.block_bytes as u64);
    let counted = header.file.blocks_complete;
    let tail = first.checked_add(step.saturating_mul(counted)).filter(|&end| end <= bytes);
    let last = tail.filter(|_| depth == Depth::Tail && counted > 0).map(|end| end - step);
    let last = last.filter(|&at| read_block_header(file, at).is_some());
    let borders = Borders::new(first, step, last.map_or(0, |_| counted - 1));
    let walked = Walked {
        blocks: Vec::new(),
        frames: 0,
        last: None,
        is_whole: last.is_none(),
        gaps: Vec::new(),
        bytes,
        kept: bytes,
        room_at: None,
        borders,
    };
    let mut walker = Walker { path, file, header, watch, walked, hole_blocks: 0 };
    let mut at = last.unwrap_or(header.walk.offset() as u64);
    while let Some(bad) = walker.read_from(at)? {
        let next = walker.pass(bad)?;
        if walker.hole_blocks > HOLE_BLOCKS_MAX {
            let reason = format!("more than {HOLE_BLOCKS_MAX} of its ring blocks are holes");
            return Err(StoreError::Unusable { path: path.to_owned(), reason });
        }
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(walker.walked)
}

/// The number of the file's first ring block.
pub(super) fn first_block(file: &File, header: &Header) -> Option<u64> {
    read_block_header(file, header.bytes as u64).map(|header| header.number)
}

struct Walker<'w> {
    path: &'w Path,
    file: &'w Arc<File>,
    header: &'w Header,
    watch: &'w Watch<'w>,
    walked: Walked,
    hole_blocks: u64,
}

impl Walker<'_> {
    /// Reads from `at`; returns where something cannot be read, or `None` at the end.
    fn read_from(&mut self, at: u64) -> Result<Option<u64>, StoreError> {
        let reached = Arc::new(AtomicU64::new(at));
        let reader = Box::new(ReaderAt { file: self.file.clone(), at: reached.clone() });
        let borders = self.walked.borders;
        let mut source = FileSource::resume(self.path, reader, &self.header.walk, (at, borders));
        loop {
            let at = reached.load(Ordering::Relaxed);
            self.watch.step(self.path, at, self.walked.bytes)?;
            match source.advance(None) {
                Ok(Progress::RingBlock(header)) => {
                    self.walked.blocks.push(Seen { header, frames: 0 });
                }
                // Nothing is passed by where all of time is asked for.
                Ok(Progress::Passed(..)) => {}
                Ok(Progress::Frames) => self.note_frames(&source),
                Ok(Progress::Nothing) | Err(SourceError::Damaged(_)) => break,
                Err(SourceError::Io { context, source }) => {
                    return Err(StoreError::Io { context, source });
                }
                Err(error) => {
                    let (path, reason) = (self.path.to_owned(), error.to_string());
                    return Err(StoreError::Unusable { path, reason });
                }
            }
        }
        self.walked.borders = source.borders().unwrap_or(borders);
        if let Some(room) = source.room_at() {
            return Ok(Some(room));
        }
        match *source.condition() {
            Condition::CutShort { offset, .. } | Condition::Damaged { offset, .. } => {
                Ok(Some(offset))
            }
            _ => Ok(None),
        }
    }

    fn note_frames(&mut self, source: &FileSource) {
        let batch = source.batch_from(0);
        let count = batch.frame_count();
        self.walked.frames += count as u64;
        if let Some(block) = self.walked.blocks.last_mut() {
            block.frames += count as u64;
        }
        if let Some(frame) = batch.get(count - 1) {
            self.walked.last = Some((frame.meta.timestamp, frame.meta.interface));
        }
    }

    /// Notes what is to become of what cannot be read from `bad` on; returns where to read on.
    fn pass(&mut self, bad: u64) -> Result<Option<u64>, StoreError> {
        let first = self.header.bytes as u64;
        let path = self.path;
        let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
        if bad < first {
            return self.pass_header(bad, first).map_err(fail);
        }
        if let Some(border) = self.next_block(bad)? {
            // Too short for a block of its own: the header that follows goes with it.
            let is_short = border - bad < BLOCK_BYTES_MIN as u64;
            let next = if is_short { border + BLOCK_HEADER_BYTES as u64 } else { border };
            match is_short {
                true => self.walked.gaps.push(Gap { start: bad, end: next }),
                false => self.pad(bad, next),
            }
            return Ok(Some(next));
        }
        let end = self.walked.room_at.unwrap_or_else(|| self.padded_end());
        if end.saturating_sub(bad) < BLOCK_BYTES_MIN as u64
            || self.is_torn_record(bad).map_err(fail)?
        {
            self.walked.kept = bad;
        } else {
            self.walked.kept = end;
            self.pad(bad, end);
        }
        Ok(None)
    }

    /// As [`pass`](Walker::pass) within the header, of which only the padding can be missing.
    fn pass_header(&mut self, bad: u64, first: u64) -> io::Result<Option<u64>> {
        if first - bad < BLOCK_BYTES_MIN as u64 {
            return Err(io::Error::other("its header page does not end where it says"));
        }
        self.pad(bad, first);
        self.walked.kept = self.walked.bytes.max(first);
        Ok((self.walked.bytes > first).then_some(first))
    }

    /// Makes padding of what lies there, a block for each ring block.
    fn pad(&mut self, start: u64, end: u64) {
        let borders = self.walked.borders;
        let mut at = start;
        while at < end && self.hole_blocks <= HOLE_BLOCKS_MAX {
            let next = borders.after(at).min(end);
            self.walked.gaps.push(Gap { start: at, end: next });
            self.hole_blocks += 1;
            at = next;
        }
        self.walked.borders.fix(start, end);
    }

    /// The end of the file, less what is too short for a block within the last ring block.
    fn padded_end(&self) -> u64 {
        let (first, step) = (self.header.bytes as u64, self.header.file.block_bytes as u64);
        let end = self.walked.bytes / 4 * 4;
        let over = end.saturating_sub(first) % step;
        if over < BLOCK_BYTES_MIN as u64 { end - over } else { end }
    }

    /// Where the next ring block begins behind `offset`. Holes are passed without being read. Room
    /// is noted from `offset` on; in a copy of a file that was being written, ring blocks may
    /// follow.
    fn next_block(&mut self, offset: u64) -> Result<Option<u64>, StoreError> {
        let path = self.path;
        let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
        let known = self.walked.blocks.last().map(|block| block.header.number);
        let mut border = self.walked.borders.after(offset.saturating_sub(1));
        self.walked.room_at = None;
        while border < self.walked.bytes {
            self.watch.step(self.path, border, self.walked.bytes)?;
            let Some(data) = next_data(self.file, border).map_err(fail)? else { break };
            if data > border {
                border = self.walked.borders.after(data - 1);
                continue;
            }
            if is_room_at(self.file, border) {
                self.walked.room_at.get_or_insert(border);
            }
            let found = read_block_header(self.file, border);
            let is_next = |header: BlockHeader| known.is_none_or(|known| header.number > known);
            if border > offset && found.is_some_and(is_next) {
                self.walked.room_at = None;
                return Ok(Some(border));
            }
            border = self.walked.borders.after(border);
        }
        Ok(None)
    }

    /// True if nothing is at `offset` but the beginning of a record that the file's end tears, or
    /// zeros: it can go. Anything else is kept, unread: other tools may be able to use it.
    fn is_torn_record(&self, offset: u64) -> io::Result<bool> {
        let mut head = [0; 8];
        self.file.read_exact_at(&mut head, offset)?;
        let [_, _, _, _, length @ ..] = head;
        let length = u64::from(u32::from_le_bytes(length));
        let end = offset + length;
        let fits = length >= BLOCK_BYTES_MIN as u64 && end <= self.walked.borders.after(offset);
        if fits && end > self.walked.bytes {
            return Ok(true);
        }
        let mut at = offset;
        let mut buffer = vec![0; LOOK_BYTES];
        while let Some(data) = next_data(self.file, at)? {
            let count = self.file.read_at(&mut buffer, data)?;
            if buffer[..count].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if count == 0 {
                break;
            }
            at = data + count as u64;
        }
        Ok(true)
    }
}

/// Reads a file from a place on, also while others use it.
struct ReaderAt {
    file: Arc<File>,
    /// Where it is.
    at: Arc<AtomicU64>,
}

impl Read for ReaderAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at.load(Ordering::Relaxed))?;
        self.at.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn read_block_header(file: &File, at: u64) -> Option<BlockHeader> {
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    block_header(&bytes)
}

/// Where the next data is from `offset` on, as far as the file system tells; `None` if there is
/// none.
fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // A file system that cannot tell: all is data.
        Err(rustix::io::Errno::INVAL) => Ok(Some(offset)),
        Err(error) => Err(error.into()),
    }
}
