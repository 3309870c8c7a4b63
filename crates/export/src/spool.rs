//! Messages on disk, while their collector is away or slow: `docs/formats/spool.md`.

mod segment;

use crate::error::ExportError;
use crate::file::lock;
use crate::message::Message;
use crate::options::SpoolOptions;
use ringside_flow::RecordSums;
use segment::{Segment, entry_bytes};
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ending of the files' names.
const ENDING: &str = "spool";

/// Least size, in bytes: some segments of some messages each.
const BYTES_MIN: u64 = 256 << 10;

/// Parts that a spool is divided into: one of them is lost at once when it is full.
const SEGMENTS: u64 = 16;

/// Longest segment, in bytes: what a start reads at once.
const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// Most files; more than [`SEGMENTS`] come from runs with other templates.
const FILES_MAX: usize = 64;

pub(crate) struct Spool {
    folder: PathBuf,
    /// Holds off other processes.
    _lock: fs::File,
    bytes_max: u64,
    /// Of the messages that are appended.
    templates: Arc<[u8]>,
    /// Oldest first; none is without messages that are to be delivered.
    segments: VecDeque<Segment>,
    next_number: u64,
    bytes: u64,
    damaged_bytes: u64,
}

/// A message of the spool, and its templates.
pub(crate) struct Spooled {
    pub message: Message,
    pub templates: Arc<[u8]>,
}

/// What became of messages when another was to be added.
pub(crate) struct Appended {
    /// It is in the spool.
    pub is_kept: bool,
    /// What had to go for it.
    pub dropped: RecordSums,
}

impl Spool {
    /// Takes possession of a folder, with what an earlier run left there.
    pub fn open(options: &SpoolOptions, templates: Arc<[u8]>) -> Result<Spool, ExportError> {
        let (bytes, least) = (options.bytes_max, BYTES_MIN);
        if bytes < least {
            return Err(ExportError::SpoolBytes { bytes, least });
        }
        let folder = options.folder.clone();
        fs::create_dir_all(&folder).map_err(ExportError::file("making", &folder))?;
        let lock_path = folder.join("lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock_file = opened.map_err(ExportError::file("opening", &lock_path))?;
        lock(&lock_file, &folder)?;
        let mut spool = Spool {
            folder,
            _lock: lock_file,
            bytes_max: bytes,
            templates,
            segments: VecDeque::new(),
            next_number: 1,
            bytes: 0,
            damaged_bytes: 0,
        };
        let folder = spool.folder.clone();
        spool.find().map_err(ExportError::file("reading", &folder))?;
        Ok(spool)
    }

    /// Reads what is there.
    fn find(&mut self) -> io::Result<()> {
        let mut found: Vec<(u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            found.extend(number(&path).map(|number| (number, path)));
        }
        found.sort();
        for (number, path) in found {
            self.next_number = self.next_number.max(number.saturating_add(1));
            match Segment::open(path)? {
                Ok((segment, damaged_bytes)) => {
                    self.damaged_bytes += damaged_bytes;
                    if segment.held().records == 0 {
                        segment.remove()?;
                        continue;
                    }
                    self.bytes += segment.bytes();
                    self.segments.push_back(segment);
                }
                Err(damaged_bytes) => self.damaged_bytes += damaged_bytes,
            }
        }
        Ok(())
    }

    /// True if nothing in it is to be delivered.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Most bytes of its files.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of files that no message could be made of.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// What is to be delivered.
    pub fn held(&self) -> RecordSums {
        let mut held = RecordSums::default();
        for segment in &self.segments {
            held += segment.held();
        }
        held
    }

    /// Adds a message behind all others; where there is no room for it, the oldest go.
    pub fn append(&mut self, message: &Message) -> io::Result<Appended> {
        let mut dropped = RecordSums::default();
        let needs_segment = !self.segments.back().is_some_and(|last| self.goes_on(last));
        let header = if needs_segment { segment::header_bytes(&self.templates) } else { 0 };
        let needed = header + entry_bytes(message);
        while self.bytes + needed > self.bytes_max
            || (needs_segment && self.segments.len() >= FILES_MAX)
        {
            match self.drop_oldest()? {
                Some(sums) => dropped += sums,
                None => return Ok(Appended { is_kept: false, dropped }),
            }
        }
        if needs_segment {
            let path = self.folder.join(format!("{:020}.{ENDING}", self.next_number));
            self.segments.push_back(Segment::create(path, Arc::clone(&self.templates))?);
            self.next_number += 1;
            self.bytes += header;
        }
        if let Some(last) = self.segments.back_mut() {
            last.append(message)?;
            self.bytes += entry_bytes(message);
        }
        Ok(Appended { is_kept: true, dropped })
    }

    /// True if the next message may go to this segment, the last one.
    fn goes_on(&self, last: &Segment) -> bool {
        let longest = (self.bytes_max / SEGMENTS).min(SEGMENT_BYTES_MAX);
        *last.templates() == self.templates && last.bytes() < longest
    }

    /// Gives up the oldest segment of which nothing is on its way, but never the last: what it
    /// held.
    fn drop_oldest(&mut self) -> io::Result<Option<RecordSums>> {
        let before_last = self.segments.len().saturating_sub(1);
        let oldest = self.segments.iter().take(before_last).position(|one| !one.is_on_its_way());
        let Some(segment) = oldest.and_then(|at| self.segments.remove(at)) else {
            return Ok(None);
        };
        self.bytes -= segment.bytes();
        let held = segment.held();
        segment.remove()?;
        Ok(Some(held))
    }

    /// The next message, which is on its way from then on.
    pub fn next(&mut self) -> io::Result<Option<Spooled>> {
        let Some(segment) = self.segments.iter_mut().find(|one| one.has_more()) else {
            return Ok(None);
        };
        let templates = Arc::clone(segment.templates());
        Ok(Some(Spooled { message: segment.next()?, templates }))
    }

    /// What can be read no more is given up, after an error of [`Spool::next`]: what it held.
    pub fn give_up_unread(&mut self) -> RecordSums {
        let Some(at) = self.segments.iter().position(Segment::has_more) else {
            return RecordSums::default();
        };
        let before = self.segments[at].bytes();
        let lost = self.segments[at].give_up_unread();
        self.bytes -= before - self.segments[at].bytes();
        self.remove_delivered(at);
        lost
    }

    /// All messages are on their way: the sender has them in memory too.
    pub fn all_on_their_way(&mut self) {
        self.segments.iter_mut().for_each(Segment::all_on_their_way);
    }

    /// None is on its way any more.
    pub fn rewind(&mut self) {
        self.segments.iter_mut().for_each(Segment::rewind);
    }

    /// The oldest message was delivered.
    pub fn delivered(&mut self, message: &Message) {
        if let Some(first) = self.segments.front_mut() {
            first.delivered(message);
            self.remove_delivered(0);
        }
    }

    fn remove_delivered(&mut self, at: usize) {
        if self.segments[at].held().records == 0
            && let Some(segment) = self.segments.remove(at)
        {
            self.bytes -= segment.bytes();
            // One that stays says itself that all of it was delivered.
            let _ = segment.note().and_then(|()| segment.remove());
        }
    }

    /// Notes on disk how far messages were delivered, for a run after this one.
    pub fn note(&self) {
        if let Some(first) = self.segments.front() {
            // Without the note they are sent again, which is no loss.
            let _ = first.note();
        }
    }

    /// Waits until the disk has it.
    pub fn sync(&self) -> io::Result<()> {
        self.segments.iter().try_for_each(Segment::sync)
    }
}

/// The number of a segment, by its name.
fn number(path: &Path) -> Option<u64> {
    (path.extension()? == ENDING).then_some(())?;
    path.file_stem()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
