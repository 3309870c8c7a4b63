//! Reading capture files: pcap and pcapng, also compressed, behind one [`FileSource`].
//!
//! The parsers are pure steps over the bytes at hand; this file moves the window over the input
//! and lends the frames in place. What comes before a damaged or torn record is always delivered.

mod ahead;
mod begin;
mod borders;
mod condition;
mod header;
mod input;
mod interface;
mod options;
mod packed;
mod parser;
mod parts;
mod pcap;
mod pcapng;
mod place;
mod primed;
mod range;
mod record;
mod tally;

use self::ahead::Ahead;
use self::begin::{begin, unusable};
pub(crate) use self::borders::Borders;
pub use self::condition::{Condition, Notice};
pub(crate) use self::header::{HeaderStep, HeaderWalk};
use self::input::{Arrived, Input};
use self::parser::Parser;
use self::parts::Described;
pub use self::parts::{PartReader, PartStep};
pub use self::pcapng::ledger_of;
use self::place::{directory_of, open_whatever_it_became, recorder};
pub(crate) use self::range::Wanted;
pub(crate) use self::record::Progress;
use self::record::{BeyondTime, Damage, Step};
pub use self::tally::Tally;
use crate::StoreError;
use crate::block::BLOCK_HEADER_BYTES;
use crate::file_header::{FileHeader, HEADER_PAGE_BYTES};
use crate::part::Part;
use crate::run_lock::LockState;
use crate::writer::Packing;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, Cause, FrameSlot, Shown, Source, SourceCounters, SourceError, SourceInterface,
    TimeRange, Timestamp,
};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A [`Source`] over files that also tells in what condition they were.
pub trait StoredSource: Source {
    /// Everything that is not simply [`Condition::Complete`] so far, in order of discovery. Final
    /// once the source is finished.
    fn notices(&self) -> Vec<Notice>;

    /// What the reading took so far.
    fn tally(&self) -> Tally;
}

/// One capture file, or a stream, as a [`Source`].
///
/// Frames are lent in place from one bounded buffer. Interface ids are those of the file; a second
/// section goes on counting. Stamps are what the file says; a simple packet has none (zero), nor
/// has a frame whose time no stamp can hold, which is counted and reported.
///
/// A torn end is no error: `next_batch` ends with `None` and [`condition`](FileSource::condition)
/// says where. A damaged record is an error after the frames before it. Either counts one frame as
/// dropped, if it was a frame.
///
/// A pipe is waited for within the `timeout` of `next_batch`, and less if a signal comes; but for
/// the first bytes, by which the format is known, [`open`](FileSource::open) waits as long as it
/// takes.
pub struct FileSource {
    path: PathBuf,
    input: Input,
    parser: Parser,
    /// It is a regular file, which can be opened again.
    is_regular: bool,
    /// Size of a regular file that is read at places, when it was opened; of what was packed in it.
    file_bytes: Option<u64>,
    slots: Vec<FrameSlot>,
    /// Where the first of them begins, and how it is read.
    batch_at: (u64, Described),
    /// Where the last of them ends.
    batch_end: u64,
    /// What reading ahead has come to, to be come to again; frames are the last, and are in
    /// `slots`.
    primed: VecDeque<Result<Progress, SourceError>>,
    /// Where the record begins at which the parser stands.
    record_offset: u64,
    /// Bytes of the record that are passed without being looked at.
    skip_bytes: usize,
    borders: Option<Borders>,
    /// Ring blocks of which no frame lies in it are passed by.
    range: TimeRange,
    /// Parts that are passed by when the reading comes to them, the next one last.
    passes: Vec<Part>,
    /// The kernel is asked for what is left, before it is read.
    ahead: Option<Ahead>,
    blocks_passed: u64,
    /// Earliest stamp of the first ring block with frames that reading ahead passed by.
    passed_from: Option<Timestamp>,
    /// False if reading ahead came to a ring block that does not follow the one before: what lies
    /// between them is in other files.
    begins_alone: bool,
    /// The ring block that was looked at last, whether it can be passed by.
    looked_at: Option<u64>,
    /// Where room for ring blocks begins, if the reading got there.
    room_at: Option<u64>,
    condition: Condition,
    /// How the lock of the file's run stood before the first frame was read.
    recorder: Option<LockState>,
    frames_lent: u64,
    frames_damaged: u64,
    lost_times: Option<LostTimes>,
    inversions: u64,
    low_water: Timestamp,
}

/// Frames whose time is damaged.
struct LostTimes {
    frames: u64,
    /// Where the record of the first begins, and what it says.
    offset: u64,
    first: BeyondTime,
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("FileSource");
        debug.field("path", &self.path).field("condition", &self.condition).finish_non_exhaustive()
    }
}

impl FileSource {
    /// Opens a file, or standard input for `-`. A regular file is read ahead to its first frames,
    /// so that [`interfaces`](Source::interfaces) is filled.
    ///
    /// # Errors
    /// It cannot be opened, or it is no capture file.
    pub fn open(path: &Path) -> Result<FileSource, StoreError> {
        FileSource::open_in(path, &Wanted::default())
    }

    /// As [`open`](FileSource::open); what is known to hold no frame that is wanted is passed by,
    /// all other frames are lent.
    pub(crate) fn open_in(path: &Path, wanted: &Wanted) -> Result<FileSource, StoreError> {
        if path.as_os_str() == "-" {
            let fail = |error| StoreError::io("cannot read standard input", error);
            let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(fail)?;
            return FileSource::begun(path, Input::of_stream(File::from(stdin)).map_err(fail)?);
        }
        let mut source = FileSource::open_unread(path, wanted)?;
        if source.is_regular {
            source.read_ahead();
        }
        Ok(source)
    }

    /// As [`open_in`](FileSource::open_in), but nothing is read ahead.
    pub(crate) fn open_unread(path: &Path, wanted: &Wanted) -> Result<FileSource, StoreError> {
        let fail = |error| StoreError::io(format!("cannot open {}", path.shown()), error);
        let (file, path) = open_whatever_it_became(path).map_err(fail)?;
        let path = &*path;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(unusable(path, "is a directory, where a file is needed".into()));
        }
        if !metadata.is_file() {
            return FileSource::begun(path, Input::of_stream(file).map_err(fail)?);
        }
        let passes = wanted.passes(path, &file);
        let is_sparing = wanted.range != TimeRange::default() || !passes.is_empty();
        let ahead = if wanted.reads_ahead { file.try_clone().ok() } else { None };
        let mut source = FileSource::begun(path, Input::of_file(file, is_sparing))?;
        source.range = wanted.range;
        source.is_regular = true;
        source.file_bytes = source.input.place_bytes(metadata.len());
        source.ahead = ahead.filter(|_| source.input.is_plain_file()).map(Ahead::new);
        source.pass_by(passes);
        Ok(source)
    }

    /// Reads a capture from any stream; `path` is what messages call it.
    ///
    /// # Errors
    /// It cannot be read, or is no capture.
    pub fn from_reader(
        path: &Path,
        reader: Box<dyn Read + Send>,
    ) -> Result<FileSource, StoreError> {
        FileSource::begun(path, Input::new(reader))
    }

    fn begun(path: &Path, mut input: Input) -> Result<FileSource, StoreError> {
        let parser = begin(&mut input, path)?;
        Ok(FileSource::over(path, input, parser))
    }

    /// Reads a file of a recording on from where `borders` stand, which is the beginning of a
    /// record and of all that `reader` gives. `header` was found in the file before.
    pub(crate) fn resume(
        path: &Path,
        reader: Box<dyn Read + Send>,
        header: &HeaderWalk,
        (offset, borders): (u64, Borders),
    ) -> FileSource {
        let input = Input::starting_at(reader, offset);
        let parser = Parser::Pcapng(Box::new(header.parser.clone()));
        FileSource { borders: Some(borders), ..FileSource::over(path, input, parser) }
    }

    fn over(path: &Path, input: Input, parser: Parser) -> FileSource {
        FileSource {
            path: path.to_owned(),
            record_offset: input.offset(),
            input,
            parser,
            borders: None,
            range: TimeRange::default(),
            passes: Vec::new(),
            ahead: None,
            blocks_passed: 0,
            passed_from: None,
            begins_alone: true,
            looked_at: None,
            room_at: None,
            is_regular: false,
            file_bytes: None,
            slots: Vec::with_capacity(BATCH_FRAMES_MAX),
            batch_at: Default::default(),
            batch_end: 0,
            primed: VecDeque::new(),
            skip_bytes: 0,
            condition: Condition::Reading,
            recorder: None,
            frames_lent: 0,
            frames_damaged: 0,
            lost_times: None,
            inversions: 0,
            low_water: Timestamp::default(),
        }
    }

    /// How the reading stands, or ended.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// What the header page says, if this is a file of a recording and that far read.
    pub fn recording(&self) -> Option<&FileHeader> {
        match &self.parser {
            Parser::Pcapng(parser) => parser.recording.as_ref().map(|(header, _)| header),
            Parser::Pcap(_) => None,
        }
    }

    /// How far the borders of ring blocks are borders of records, if that is looked at.
    pub(crate) fn borders(&self) -> Option<Borders> {
        self.borders
    }

    /// Where room for ring blocks begins, with which the reading ended.
    pub(crate) fn room_at(&self) -> Option<u64> {
        self.room_at
    }

    /// What messages call the input.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True if the input is a regular file, which can be opened again.
    pub(crate) fn is_regular_file(&self) -> bool {
        self.is_regular
    }

    /// How the input is packed; offsets count what was unpacked then.
    pub fn packing(&self) -> Option<Packing> {
        self.input.packing().map(|(packing, _)| packing)
    }

    /// Where in the file the record begins that was looked at last.
    pub(crate) fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// Interface statistics blocks that were passed.
    pub fn statistics_blocks(&self) -> u64 {
        match &self.parser {
            Parser::Pcapng(parser) => parser.statistics_blocks,
            Parser::Pcap(_) => 0,
        }
    }

    /// Finds the next frames. Returns false at the end, or when `deadline` passed between reads.
    /// After an error the condition is `Damaged`, or the system failed.
    pub(crate) fn fill(&mut self, deadline: Option<Instant>) -> Result<bool, SourceError> {
        loop {
            match self.advance(deadline)? {
                Progress::RingBlock(_) | Progress::Passed(..) => {}
                progress => return Ok(progress == Progress::Frames),
            }
        }
    }

    /// As [`fill`](FileSource::fill), but stops at the beginning of every ring block too, so that
    /// the frames found lie in one.
    pub(crate) fn advance(&mut self, deadline: Option<Instant>) -> Result<Progress, SourceError> {
        self.primed.pop_front().unwrap_or_else(|| self.advance_on(deadline))
    }

    fn advance_on(&mut self, deadline: Option<Instant>) -> Result<Progress, SourceError> {
        self.slots.clear();
        // The first read is made in any case: a time-out of zero must get on too.
        let mut limit = None;
        while self.slots.len() < BATCH_FRAMES_MAX && self.condition == Condition::Reading {
            if self.skip_bytes > 0 {
                if self.pass_available() {
                    continue;
                }
                if !self.slots.is_empty() || !self.read(1, limit, deadline)? {
                    break;
                }
                limit = deadline;
                continue;
            }
            if !self.parser.is_inside_record() {
                self.record_offset = self.input.offset();
                if let Some(borders) = &mut self.borders {
                    borders.note(self.record_offset);
                }
                if let Some(progress) = self.pass_here() {
                    return Ok(progress);
                }
            }
            match self.parser.step(self.input.available()) {
                Ok(Step::Frame { record_bytes, data_at, captured, meta }) => {
                    let at = self.input.position() + data_at;
                    if self.slots.is_empty() {
                        self.batch_at = (self.record_offset, self.described());
                    }
                    self.slots.push(FrameSlot::new(at, captured, meta));
                    self.note_stamp(meta.timestamp);
                    self.input.consume(record_bytes);
                    self.batch_end = self.input.offset();
                }
                Ok(Step::RingBlock(_)) if !self.slots.is_empty() => break,
                Ok(Step::RingBlock(header)) => {
                    self.input.consume(BLOCK_HEADER_BYTES);
                    if self.is_ring_block_position(self.record_offset) {
                        return Ok(Progress::RingBlock(header));
                    }
                }
                // Behind it there is only more room, whose block may be torn: it is written over.
                Ok(Step::Room(_)) if self.is_end_of_file() => {
                    self.room_at = Some(self.record_offset);
                    self.condition = Condition::Complete;
                }
                Ok(Step::Skip(bytes) | Step::Room(bytes)) => self.skip_bytes = bytes,
                Ok(Step::Need(bytes)) => {
                    if !self.slots.is_empty() || !self.read(bytes, limit, deadline)? {
                        break;
                    }
                    limit = deadline;
                }
                // The frames before it come first; the parser will say it again.
                Err(_) if !self.slots.is_empty() => break,
                Err(_) if self.is_being_written() => self.cut_short(),
                Err(reason) => return Err(self.damaged(reason)),
            }
        }
        Ok(if self.slots.is_empty() { Progress::Nothing } else { Progress::Frames })
    }

    /// Passes what is to be skipped and at hand; false if there is more of it.
    fn pass_available(&mut self) -> bool {
        let count = self.skip_bytes.min(self.input.available().len());
        self.input.consume(count);
        self.skip_bytes -= count;
        if self.skip_bytes > 0 {
            return false;
        }
        if let (Some(header), Some(bytes)) = (self.recording(), self.file_bytes) {
            if self.recorder.is_none() {
                self.recorder = Some(recorder(&self.path, header));
            }
            // The file may grow, and its last page be written again meanwhile: it ends where it
            // ended when it was opened.
            self.input.end_at(bytes);
        }
        true
    }

    /// True if ring blocks begin at `offset` of this file, or may begin there.
    fn is_ring_block_position(&self, offset: u64) -> bool {
        let Parser::Pcapng(parser) = &self.parser else { return false };
        parser.recording.as_ref().is_some_and(|(header, header_bytes)| {
            let since = offset.checked_sub(*header_bytes as u64);
            since.is_some_and(|since| since.is_multiple_of(header.block_bytes as u64))
        })
    }

    /// True where room ends a file of a recording. In a stream other files may follow.
    fn is_end_of_file(&self) -> bool {
        let is_file = self.file_bytes.is_some() || self.borders.is_some();
        is_file && self.is_ring_block_position(self.record_offset)
    }

    /// True if a file of a recording is shorter than it was when it was opened: its room was cut,
    /// and what its recorder writes there now is not for this look. (By less than a page it is
    /// shorter where the padding of a direct write was cut; then the end is torn, as ever.)
    fn was_cut(&self) -> bool {
        let end = self.input.offset() + self.input.available().len() as u64;
        let is_shorter = |bytes| bytes > end + HEADER_PAGE_BYTES as u64;
        self.recording().is_some() && self.file_bytes.is_some_and(is_shorter)
    }

    /// True in the last page of a file of a recording, which its recorder writes again and again
    /// on a quiet link: what cannot be read there is a torn end.
    fn is_being_written(&self) -> bool {
        let end = self.input.end();
        end != u64::MAX && self.record_offset + HEADER_PAGE_BYTES as u64 >= end
    }

    fn note_stamp(&mut self, stamp: Timestamp) {
        if stamp != Timestamp::default() {
            self.inversions += u64::from(stamp < self.low_water);
            self.low_water = self.low_water.max(stamp);
        } else if let Parser::Pcapng(parser) = &self.parser
            && let Some(first) = parser.beyond_time
        {
            let offset = self.record_offset;
            self.lost_times.get_or_insert(LostTimes { frames: 0, offset, first }).frames += 1;
        }
    }

    /// Reads on; false at the end of the input (then the condition is final) or at the deadline.
    fn read(
        &mut self,
        bytes: usize,
        limit: Option<Instant>,
        deadline: Option<Instant>,
    ) -> Result<bool, SourceError> {
        loop {
            let is_late = limit.is_some_and(|limit| Instant::now() >= limit);
            if is_late || !self.input.is_readable(deadline) {
                return Ok(false);
            }
            match self.input.read_towards(bytes) {
                Ok(Arrived::Bytes) => {
                    self.ask_ahead();
                    return Ok(true);
                }
                Ok(Arrived::Nothing) => {}
                Ok(Arrived::End) => break,
                Err(error) => return Err(self.unreadable(error)),
            }
        }
        let is_inside = !self.input.available().is_empty()
            || self.skip_bytes > 0
            || self.parser.is_inside_record();
        match self.input.packing() {
            Some((packing, true)) => self.packed_cut_short(packing, is_inside),
            _ if is_inside && !self.was_cut() => self.cut_short(),
            _ => self.condition = Condition::Complete,
        }
        Ok(false)
    }

    /// Ends the reading because of what the system, or what is packed, says.
    fn unreadable(&mut self, source: io::Error) -> SourceError {
        if let Some(packing) = self.packing()
            && source.raw_os_error().is_none()
        {
            return self
                .damaged(format!("what {} packed cannot be read: {source}", packing.name()));
        }
        let reason = format!("cannot be read: {source}");
        self.condition = Condition::Damaged { offset: self.record_offset, reason };
        SourceError::Io { context: format!("cannot read {}", self.path.shown()), source }
    }

    /// Ends the reading within the record that begins at `record_offset`.
    fn cut_short(&mut self) {
        let left_bytes = self.note_torn_record();
        self.condition = Condition::CutShort { offset: self.record_offset, left_bytes };
    }

    /// Ends the reading where a packed stream ends too early, perhaps between two records.
    fn packed_cut_short(&mut self, packing: Packing, is_inside: bool) {
        let left_bytes = if is_inside { self.note_torn_record() } else { 0 };
        self.condition =
            Condition::PackedCutShort { packing, offset: self.record_offset, left_bytes };
    }

    /// Counts the torn record at `record_offset` if it may be a frame; returns what is left of it.
    fn note_torn_record(&mut self) -> u64 {
        let left = self.input.available();
        let packet = self.skip_bytes == 0 && self.parser.may_be_packet(left);
        self.frames_damaged += u64::from(packet);
        self.input.offset() + left.len() as u64 - self.record_offset
    }

    fn damaged(&mut self, reason: Damage) -> SourceError {
        let offset = self.record_offset;
        self.frames_damaged += 1;
        self.condition = Condition::Damaged { offset, reason };
        let (path, condition, lent) = (self.path.shown(), &self.condition, self.frames_lent);
        SourceError::Damaged(format!("{path}: {condition}; the {lent} frames before it were read"))
    }

    /// The frames from `index` on that the last fill found; there must be one.
    pub(crate) fn batch_from(&self, index: usize) -> Batch<'_> {
        let batch = Batch::new(self.input.memory(), &self.slots[index..]);
        batch.with_interfaces(self.interfaces())
    }
}

impl Source for FileSource {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let deadline = Instant::now().checked_add(timeout);
        if !self.fill(deadline)? {
            return Ok(None);
        }
        self.frames_lent += self.slots.len() as u64;
        Ok(Some(self.batch_from(0)))
    }

    fn is_finished(&self) -> bool {
        self.condition != Condition::Reading && !self.is_primed()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        match &self.parser {
            Parser::Pcap(parser) => std::slice::from_ref(&parser.interface),
            Parser::Pcapng(parser) => &parser.interfaces,
        }
    }

    fn counters(&mut self) -> SourceCounters {
        stored_counters(self.frames_lent, self.frames_damaged, self.inversions)
    }

    fn low_water(&self) -> Timestamp {
        match self.is_primed() {
            true => Timestamp::default(),
            false if self.is_finished() => Timestamp::MAX,
            false => self.low_water,
        }
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

impl StoredSource for FileSource {
    fn notices(&self) -> Vec<Notice> {
        let may_be_written = matches!(self.recorder, Some(LockState::Held | LockState::Unknown));
        let torn_while_written =
            may_be_written && matches!(self.condition, Condition::CutShort { .. });
        let mut notices = match &self.condition {
            Condition::Reading | Condition::Complete => Vec::new(),
            _ if torn_while_written => Vec::new(),
            condition => vec![Notice { path: self.path.clone(), condition: condition.clone() }],
        };
        notices.extend(self.lost_times.as_ref().map(|lost| {
            let (frames, offset, first) = (lost.frames, lost.offset, lost.first.to_string());
            let condition = Condition::TimesLost { frames, offset, first };
            Notice { path: self.path.clone(), condition }
        }));
        let run = self.recording().map(|header| header.run.clone());
        let condition = match (self.recorder, run) {
            (Some(LockState::Left), Some(run)) => Some(Condition::NotEnded { run }),
            (Some(LockState::Unknown), Some(run)) => Some(Condition::PerhapsNotEnded { run }),
            _ => None,
        };
        let path = || directory_of(&self.path).to_owned();
        notices.extend(condition.map(|condition| Notice { path: path(), condition }));
        notices
    }

    fn tally(&self) -> Tally {
        let (bytes_read, blocks_passed) = (self.input.bytes_read(), self.blocks_passed);
        Tally { bytes_read, blocks_passed, ..Tally::default() }
    }
}

/// The ledger's terms for files: all that was found was received, and damage is the only loss.
pub(crate) fn stored_counters(lent: u64, damaged: u64, inversions: u64) -> SourceCounters {
    SourceCounters {
        received: Some(lent + damaged),
        filtered: Some(0),
        dropped: [(Cause::Damaged, damaged)].into(),
        in_flight: Some(0),
        inversions,
        ..SourceCounters::default()
    }
}

#[cfg(test)]
mod tests;
