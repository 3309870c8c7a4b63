//! Several files or series as one [`Source`] in the order of time.
//!
//! Each lane is a file, or the files of one series in the order of their ring blocks. A lane is
//! opened when the merge reaches its first frame and closed after its last, so a directory with
//! years of runs needs only as many files at a time as overlap. Frames are copied once, into the
//! batch that is lent.

mod lane;
mod registry;

use self::lane::{Lane, Next, OPENED_AHEAD, Step};
use self::registry::Registry;
use crate::StoreError;
use crate::merge::Merger;
use crate::reader::{Condition, FileSource, Notice, StoredSource, Tally, Wanted, stored_counters};
use crate::recording::series_of;
use crate::side_by_side::side_by_side;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, Cause, FrameSlot, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that are read at the same time; each has a buffer of half a MiB and a descriptor, of
/// which a process ordinarily has 1,024.
const FILES_OPEN_MAX: usize = 256;
/// Files that were opened for a look and stay open until their lane begins; each has a buffer and a
/// descriptor too. The first files of further lanes are opened again.
const FILES_LOOKED_AT_MAX: usize = 64;
/// Lanes whose first files are opened side by side.
const LOOKED_AT_ONCE: usize = 32;
/// Lanes of which a search has the next files opened side by side; so few that all these can be
/// open at a time.
const LANES_AHEAD_MAX: usize = 16;
const _: () = assert!(LANES_AHEAD_MAX * OPENED_AHEAD <= FILES_OPEN_MAX / 2);
/// Lanes of one merge: more series than a busy machine begins in years, and a bound on what a
/// directory can make us remember.
const LANES_MAX: usize = 65_536;
/// Bytes of frames in a batch, after which it is lent although it is not full.
const BATCH_BYTES: usize = 1 << 20;
/// Notices that are kept: a directory of a million foreign files must not fill the memory.
const NOTICES_MAX: usize = 1024;

/// What was passed by of a lane since frames came.
#[derive(Default)]
struct Passed {
    latest: Timestamp,
    parts: u32,
}

impl Passed {
    /// True after every few parts, each of which takes less than the look at a clock.
    fn is_long(&self) -> bool {
        self.parts % 64 == 63
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| Instant::now() >= at)
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
    files_looked_at: usize,
    bytes: Vec<u8>,
    slots: Vec<FrameSlot>,
    notices: Vec<Notice>,
    failure: Option<SourceError>,
    is_finished: bool,
    wanted: Wanted,
    /// Of files that are closed.
    closed: Tally,
    frames_outside: u64,
    newest: Timestamp,
    frames_lent: u64,
    frames_damaged: u64,
    inversions: u64,
    low_water: Timestamp,
}

impl MergedSource {
    /// Opens files, `-` for standard input, and directories of recordings, of which one may lie in
    /// several.
    ///
    /// # Errors
    /// Nothing was named, or something cannot be opened or is no capture.
    pub(crate) fn open(paths: &[PathBuf], wanted: Wanted) -> Result<MergedSource, StoreError> {
        let (directories, files): (Vec<_>, Vec<_>) =
            paths.iter().cloned().partition(|path| path.is_dir());
        let (series, notices) = series_of(&directories)?;
        let lanes = series.into_iter().map(Lane::of_series);
        let lanes: Vec<_> = lanes.chain(files.into_iter().map(Lane::of_file)).collect();
        if lanes.is_empty() {
            let reason = "no input was named; give a file, a directory or - for standard input";
            return Err(StoreError::Unusable { path: PathBuf::new(), reason: reason.into() });
        }
        MergedSource::new(lanes, notices, wanted)
    }

    /// Merges what is wanted of lanes. `notices` are what is known already.
    ///
    /// # Errors
    /// The first file of a lane cannot be opened, or there are too many lanes.
    fn new(
        lanes: Vec<Lane>,
        notices: Vec<Notice>,
        wanted: Wanted,
    ) -> Result<MergedSource, StoreError> {
        if lanes.len() > LANES_MAX {
            let path = lanes[0].next_path().map(Path::to_owned).unwrap_or_default();
            let reason = format!("and {} more: at most {LANES_MAX} are merged", lanes.len() - 1);
            return Err(StoreError::Unusable { path, reason });
        }
        let mut merged = MergedSource {
            merger: Merger::new(lanes.len(), None),
            lanes: Vec::with_capacity(lanes.len()),
            registry: Registry::default(),
            files_open: 0,
            files_looked_at: 0,
            bytes: Vec::new(),
            slots: Vec::with_capacity(BATCH_FRAMES_MAX),
            notices: Vec::new(),
            failure: None,
            is_finished: false,
            wanted,
            closed: Tally::default(),
            frames_outside: 0,
            newest: Timestamp::default(),
            frames_lent: 0,
            frames_damaged: 0,
            inversions: 0,
            low_water: Timestamp::default(),
        };
        notices.into_iter().for_each(|notice| merged.note(notice));
        let mut lanes = lanes.into_iter();
        loop {
            let some: Vec<_> = lanes.by_ref().take(LOOKED_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(merged);
            }
            let wanted = &merged.wanted;
            let look = |path: Option<PathBuf>| path.map(|path| FileSource::open_in(&path, wanted));
            let paths = some.iter().map(|lane| lane.next_path().map(Path::to_owned));
            let looks = side_by_side(paths.collect(), look);
            for (lane, look) in some.into_iter().zip(looks) {
                merged.begin_lane(lane, look.transpose())?;
            }
        }
    }

    /// Begins a lane whose first file was opened for a look: its interfaces, and when its first
    /// frame was.
    fn begin_lane(
        &mut self,
        mut lane: Lane,
        mut look: Result<Option<FileSource>, StoreError>,
    ) -> Result<(), StoreError> {
        lane.wanted = self.wanted.clone();
        let first = loop {
            match (look, lane.next_path()) {
                (Err(error), Some(path)) if error.is_gone() && lane.is_found() => {
                    self.note(Notice::deleted(path));
                    lane.give_up_next();
                    let next = lane.next_path().map(|path| FileSource::open_in(path, &self.wanted));
                    look = next.transpose();
                }
                (look, _) => break look?,
            }
        };
        let index = self.lanes.len();
        let mut is_spent = false;
        if let Some(source) = first {
            self.registry.ids(&mut Vec::new(), source.interfaces());
            let first = source.first_stamp();
            self.merger.advance(index, first.map_or(0, |stamp| stamp.0));
            is_spent = source.is_spent() && lane.is_last_file();
            if is_spent || self.files_looked_at < FILES_LOOKED_AT_MAX || !source.is_regular_file() {
                self.files_looked_at += usize::from(!is_spent);
                lane.keep(source);
            } else {
                self.closed.bytes_read += source.tally().bytes_read;
            }
        }
        self.lanes.push(lane);
        if is_spent {
            // Nothing of it is to be read: it need not be opened once more.
            self.load(index, None);
        }
        Ok(())
    }

    fn note(&mut self, notice: Notice) {
        // Every file of a run says that the run was never ended.
        let is_of_run = matches!(
            notice.condition,
            Condition::NotEnded { .. } | Condition::PerhapsNotEnded { .. }
        );
        let is_known = is_of_run && self.notices.contains(&notice);
        if self.notices.len() < NOTICES_MAX && !is_known {
            self.notices.push(notice);
        }
    }

    /// Brings the next frames of `lane` into the merge, or its end. False if that took too long.
    fn load(&mut self, index: usize, deadline: Option<Instant>) -> bool {
        // The merge hears of what is passed by before frames come, and not of each part.
        let mut passed = Passed::default();
        let is_loaded = loop {
            match self.lanes[index].choose() {
                Next::Open => self.open_next(index),
                Next::Read => match self.lanes[index].step(deadline) {
                    Step::Frames(first) => {
                        self.merger.pass(index, passed.latest.0);
                        if self.offer(index, first) {
                            return true;
                        }
                        // All of it may lie outside the range, for gigabytes.
                        if is_over(deadline) {
                            return false;
                        }
                    }
                    Step::Late => break false,
                    step => {
                        self.pass_on(index, step, &mut passed);
                        if passed.is_long() && is_over(deadline) {
                            break false;
                        }
                    }
                },
                Next::End => break true,
            }
        };
        match is_loaded {
            true => self.end_lane(index),
            false => self.merger.pass(index, passed.latest.0),
        }
        is_loaded
    }

    fn end_lane(&mut self, index: usize) {
        let words = self.lanes[index].final_notice();
        words.into_iter().for_each(|notice| self.note(notice));
        self.merger.advance(index, u64::MAX);
    }

    /// Notes a step that has brought no frames.
    fn pass_on(&mut self, index: usize, step: Step, passed: &mut Passed) {
        match step {
            Step::Passed(notice) => notice.into_iter().for_each(|one| self.note(one)),
            Step::Outside { notice, frames, latest } => {
                notice.into_iter().for_each(|one| self.note(one));
                self.frames_outside += frames;
                self.newest = self.newest.max(latest);
                passed.latest = passed.latest.max(latest);
                passed.parts += 1;
            }
            Step::Ended(error) => self.close(index, error),
            Step::Frames(_) | Step::Late => {}
        }
    }

    /// Offers the frames that a lane has at hand to the merge, from `first` on, as far as they lie
    /// in the range; false if there is none.
    fn offer(&mut self, index: usize, first: usize) -> bool {
        let Some(file) = self.lanes[index].current() else { return false };
        self.registry.ids(&mut file.ids, file.source.interfaces());
        let batch = file.source.batch_from(0);
        let (mut passed, mut is_offered) = (Timestamp::default(), false);
        for (item, frame) in batch.iter().enumerate().skip(first) {
            let stamp = frame.meta.timestamp;
            self.newest = self.newest.max(stamp);
            if self.wanted.range.holds(stamp) {
                self.merger.pass(index, passed.0);
                self.merger.push(index, stamp.0, 0, item);
                is_offered = true;
            } else {
                self.frames_outside += 1;
                passed = passed.max(stamp);
            }
        }
        self.merger.pass(index, passed.0);
        is_offered
    }

    /// Opens the next file of a lane. What cannot be opened is a failure that is reported at the
    /// end; what vanished since it was found (retention deletes) is only noted.
    fn open_next(&mut self, index: usize) {
        let is_search = self.wanted.pruner.is_some() && self.lanes.len() <= LANES_AHEAD_MAX;
        if is_search && self.lanes[index].is_next_closed() {
            Lane::open_ahead(&mut self.lanes);
        }
        let lane = &mut self.lanes[index];
        let path = lane.next_path().map(Path::to_owned);
        let opened = match path.clone() {
            Some(path) if self.files_open == FILES_OPEN_MAX => {
                lane.give_up_next();
                let reason = format!("more than {FILES_OPEN_MAX} files overlap in time");
                Err(StoreError::Unusable { path, reason })
            }
            _ => lane.open_next(),
        };
        match (opened, path) {
            (Ok(()), _) => self.files_open += 1,
            (Err(error), Some(path)) if error.is_gone() => self.note(Notice::deleted(&path)),
            (Err(error), _) => {
                let error = SourceError::Damaged(error.to_string());
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Closes the file that a lane reads.
    fn close(&mut self, index: usize, error: Option<SourceError>) {
        self.failure = self.failure.take().or(error);
        let Some(mut file) = self.lanes[index].close_current() else { return };
        self.files_open -= 1;
        let damaged = file.source.counters().dropped.get(&Cause::Damaged).copied();
        self.frames_damaged += damaged.unwrap_or(0);
        self.closed.add(&file.source.tally());
        file.source.notices().into_iter().for_each(|notice| self.note(notice));
    }

    /// Copies the frame at `item` of the current batch of `lane` into the batch to be lent.
    fn take(&mut self, index: usize, item: usize) {
        let lane = &mut self.lanes[index];
        let Some(file) = lane.current() else { return };
        let batch = file.source.batch_from(item);
        let Some(frame) = batch.get(0) else { return };
        let mut meta = frame.meta;
        meta.interface = file.ids[meta.interface.0 as usize];
        self.slots.push(FrameSlot::new(self.bytes.len(), frame.bytes.len() as u32, meta));
        self.bytes.extend_from_slice(frame.bytes);
        drop(batch);
        if meta.timestamp != Timestamp::default() {
            self.inversions += u64::from(meta.timestamp < lane.last_stamp);
            lane.last_stamp = meta.timestamp;
        }
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
            let batch = Batch::new(&self.bytes, &self.slots);
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
        let mut counters = stored_counters(self.frames_lent, self.frames_damaged, self.inversions);
        counters.filtered = Some(self.frames_outside);
        counters.received = counters.received.map(|received| received + self.frames_outside);
        counters
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

    fn tally(&self) -> Tally {
        let mut tally = self.closed;
        let open = self.lanes.iter().flat_map(|lane| lane.sources());
        open.for_each(|source| tally.add(&source.tally()));
        tally.frames_outside += self.frames_outside;
        tally.newest = tally.newest.max(self.newest);
        tally
    }
}

#[cfg(test)]
mod tests;
