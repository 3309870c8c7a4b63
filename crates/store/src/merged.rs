//! Several files or series as one [`Source`] in the order of time.
//!
//! Each lane is a file, or the files of one series one after the other. A lane is opened when the
//! merge reaches its first frame and closed after its last, so a directory with years of runs
//! needs only as many files at a time as overlap. Frames are copied once, into the batch that is
//! lent.

mod registry;

use self::registry::Registry;
use crate::StoreError;
use crate::merge::Merger;
use crate::reader::{Condition, FileSource, Notice, StoredSource, stored_counters};
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, Cause, FrameSlot, InterfaceId, Source, SourceCounters, SourceError, SourceInterface,
    Timestamp,
};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that are read at the same time; each has a buffer of half a MiB and a descriptor, of
/// which a process ordinarily has 1,024.
const FILES_OPEN_MAX: usize = 256;
/// Lanes of one merge: more series than a busy machine begins in years, and a bound on what a
/// directory can make us remember.
const LANES_MAX: usize = 65_536;
/// Bytes of frames in a batch, after which it is lent although it is not full.
const BATCH_BYTES: usize = 1 << 20;
/// Notices that are kept: a directory of a million foreign files must not fill the memory.
const NOTICES_MAX: usize = 1024;

/// A file that waits for its turn in a lane.
enum Pending {
    /// To be opened.
    Path(PathBuf),
    /// Already open, because it can be opened only once (a pipe).
    Open(Box<FileSource>),
}

#[derive(Default)]
struct Lane {
    pending: VecDeque<Pending>,
    current: Option<Box<FileSource>>,
    /// Ids in the merge by ids in the current file.
    ids: Vec<InterfaceId>,
    last_stamp: Timestamp,
}

/// Files merged into one time-ordered [`Source`].
///
/// Interfaces of different files that have the same name, link type and description are one;
/// several such interfaces within one file stay apart. A damaged file ends where it is damaged,
/// the others are read to their end, and only then `next_batch` returns the first error.
pub struct MergedSource {
    lanes: Vec<Lane>,
    merger: Merger<usize>,
    registry: Registry,
    files_open: usize,
    bytes: Vec<u8>,
    slots: Vec<FrameSlot>,
    notices: Vec<Notice>,
    failure: Option<SourceError>,
    is_finished: bool,
    frames_lent: u64,
    frames_damaged: u64,
    inversions: u64,
    low_water: Timestamp,
}

impl MergedSource {
    /// Merges lanes, each the paths of its files in order. `notices` are what is known already.
    ///
    /// # Errors
    /// The first file of a lane cannot be opened, or there are too many lanes.
    pub(crate) fn new(
        lanes: Vec<Vec<PathBuf>>,
        notices: Vec<Notice>,
    ) -> Result<MergedSource, StoreError> {
        if lanes.len() > LANES_MAX {
            let path = lanes[0].first().cloned().unwrap_or_default();
            let reason = format!("and {} more: at most {LANES_MAX} are merged", lanes.len() - 1);
            return Err(StoreError::Unusable { path, reason });
        }
        let mut merged = MergedSource {
            merger: Merger::new(lanes.len(), None),
            lanes: Vec::with_capacity(lanes.len()),
            registry: Registry::default(),
            files_open: 0,
            bytes: Vec::new(),
            slots: Vec::with_capacity(BATCH_FRAMES_MAX),
            notices: Vec::new(),
            failure: None,
            is_finished: false,
            frames_lent: 0,
            frames_damaged: 0,
            inversions: 0,
            low_water: Timestamp::default(),
        };
        notices.into_iter().for_each(|notice| merged.note(notice));
        for paths in lanes {
            let lane = merged.begin_lane(paths)?;
            merged.lanes.push(lane);
        }
        Ok(merged)
    }

    /// Looks into the first file: its interfaces, and when its first frame was.
    fn begin_lane(&mut self, paths: Vec<PathBuf>) -> Result<Lane, StoreError> {
        let mut lane = Lane::default();
        if let Some(path) = paths.first() {
            let source = FileSource::open(path)?;
            self.registry.ids(&mut lane.ids, source.interfaces());
            lane.ids.clear();
            let first = source.first_stamp();
            self.merger.advance(self.lanes.len(), first.map_or(0, |stamp| stamp.0));
            if !path.is_file() {
                lane.pending.push_back(Pending::Open(Box::new(source)));
            }
        }
        let known = lane.pending.len();
        lane.pending.extend(paths.into_iter().skip(known).map(Pending::Path));
        Ok(lane)
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }

    /// Brings the next frames of `lane` into the merge, or its end. False if that took too long.
    fn load(&mut self, index: usize, deadline: Option<Instant>) -> bool {
        loop {
            if self.lanes[index].current.is_none() && !self.open_next(index) {
                self.merger.advance(index, u64::MAX);
                return true;
            }
            let lane = &mut self.lanes[index];
            let Some(source) = &mut lane.current else { continue };
            match source.fill(deadline) {
                Ok(true) => {
                    self.registry.ids(&mut lane.ids, source.interfaces());
                    for (item, frame) in source.batch_from(0).iter().enumerate() {
                        self.merger.push(index, frame.meta.timestamp.0, 0, item);
                    }
                    return true;
                }
                Ok(false) if !source.is_finished() => return false,
                Ok(false) => self.close(index),
                Err(error) => {
                    self.failure.get_or_insert(error);
                    self.close(index);
                }
            }
        }
    }

    /// Opens the next file of a lane; false if there is none. What cannot be opened is a failure
    /// that is told at the end.
    fn open_next(&mut self, index: usize) -> bool {
        while let Some(pending) = self.lanes[index].pending.pop_front() {
            let opened = match pending {
                Pending::Open(source) => Ok(source),
                Pending::Path(path) if self.files_open == FILES_OPEN_MAX => {
                    let reason = format!("more than {FILES_OPEN_MAX} files overlap in time");
                    Err(StoreError::Unusable { path, reason })
                }
                Pending::Path(path) => FileSource::open(&path).map(Box::new),
            };
            match opened {
                Ok(source) => {
                    self.lanes[index].current = Some(source);
                    self.files_open += 1;
                    return true;
                }
                Err(error) => {
                    let error = SourceError::Damaged(error.to_string());
                    self.failure.get_or_insert(error);
                }
            }
        }
        false
    }

    fn close(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        lane.ids.clear();
        let Some(mut source) = lane.current.take() else { return };
        self.files_open -= 1;
        let damaged = source.counters().dropped.get(&Cause::Damaged).copied();
        self.frames_damaged += damaged.unwrap_or(0);
        source.notices().into_iter().for_each(|notice| self.note(notice));
    }

    /// Copies the frame at `item` of the current batch of `lane` into the batch to be lent.
    fn take(&mut self, index: usize, item: usize) {
        let lane = &mut self.lanes[index];
        let Some(source) = &lane.current else { return };
        let batch = source.batch_from(item);
        let Some(frame) = batch.get(0) else { return };
        let mut meta = frame.meta;
        meta.interface = lane.ids[meta.interface.0 as usize];
        if meta.timestamp != Timestamp::default() {
            self.inversions += u64::from(meta.timestamp < lane.last_stamp);
            lane.last_stamp = meta.timestamp;
        }
        self.slots.push(FrameSlot::new(self.bytes.len(), frame.bytes.len() as u32, meta));
        self.bytes.extend_from_slice(frame.bytes);
    }
}

impl Source for MergedSource {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let deadline = Instant::now().checked_add(timeout);
        self.bytes.clear();
        self.slots.clear();
        while self.slots.len() < BATCH_FRAMES_MAX && self.bytes.len() < BATCH_BYTES {
            if let Some(popped) = self.merger.pop(0) {
                self.low_water = Timestamp(popped.key);
                self.take(popped.lane, popped.item);
            } else if let Some(lane) = self.merger.blocking_lane() {
                if !self.load(lane, deadline) {
                    break;
                }
            } else {
                self.is_finished = self.slots.is_empty();
                break;
            }
        }
        self.frames_lent += self.slots.len() as u64;
        if !self.slots.is_empty() {
            let batch = Batch::new(&self.bytes, &self.slots, None);
            return Ok(Some(batch.with_interfaces(self.registry.interfaces())));
        }
        self.failure.take_if(|_| self.is_finished).map_or(Ok(None), Err)
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn interfaces(&self) -> &[SourceInterface] {
        self.registry.interfaces()
    }

    fn counters(&mut self) -> SourceCounters {
        stored_counters(self.frames_lent, self.frames_damaged, self.inversions)
    }

    fn low_water(&self) -> Timestamp {
        if self.is_finished { Timestamp::MAX } else { self.low_water }
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

impl StoredSource for MergedSource {
    fn notices(&self) -> Vec<Notice> {
        self.notices.clone()
    }
}

/// Opens what `-r` names: files, `-` for standard input, directories of a recording. One file is
/// lent in place; several are merged by time.
///
/// # Errors
/// Nothing was named, or something cannot be opened or is no capture.
pub fn open(paths: &[PathBuf]) -> Result<Box<dyn StoredSource>, StoreError> {
    if let [path] = paths
        && !path.is_dir()
    {
        return Ok(Box::new(FileSource::open(path)?));
    }
    let (mut lanes, mut notices) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            let (series, skipped) = crate::recording::series_of_directory(path)?;
            lanes.extend(series);
            notices.extend(skipped);
        } else {
            lanes.push(vec![path.clone()]);
        }
    }
    if lanes.is_empty() {
        let reason = "no input was named; give a file, a directory or - for standard input";
        return Err(StoreError::Unusable { path: PathBuf::new(), reason: reason.into() });
    }
    Ok(Box::new(MergedSource::new(lanes, notices)?))
}

/// Says that a file was not read.
pub(crate) fn skipped(path: &Path, reason: impl Into<String>) -> Notice {
    Notice { path: path.to_owned(), condition: Condition::Skipped { reason: reason.into() } }
}

#[cfg(test)]
mod tests;
