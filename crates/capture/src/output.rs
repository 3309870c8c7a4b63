//! Where merged frames go: one file, several by rotation, or a stream.

mod names;
mod position;

use crate::config::{FileFormat, Print, Rotation};
use crate::control::{Control, cause_of};
use crate::lane::LaneStatus;
use crate::stream::StreamWriter;
use names::Names;
pub(crate) use names::{Named, name_of};
pub use names::{check_pattern, is_pattern};
pub(crate) use position::Position;
use ringside_core::{Cause, Frame, InterfaceId, LaneCounters, Shown, SourceInterface, Timestamp};
use ringside_store::block::Statistics;
use ringside_store::dir::Dir;
use ringside_store::writer::{Format, FrameWriter, create_file};
use ringside_store::{Packing, StoreError};
use ringside_sys::clock;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Paths that a run remembers for its report; of the rest it knows the number. A rotation each
/// second would otherwise fill the memory in the end.
const PATHS_MAX: usize = 1024;

/// What of a compressed file waits for its part to become large, before it is handed over all the
/// same: a reader of a quiet link has it by then.
const PACKED_WAIT_MAX: Duration = Duration::from_secs(1);

/// The files of a run that are there, in order.
#[derive(Clone, Debug, Default)]
pub struct FileList {
    /// The first of them, at most 1,024.
    pub paths: Vec<PathBuf>,
    /// How many there are.
    pub count: u64,
}

impl FileList {
    /// A list of one file.
    pub(crate) fn of(path: &Path) -> FileList {
        FileList { paths: vec![path.to_owned()], count: 1 }
    }

    pub(crate) fn push(&mut self, path: PathBuf) {
        self.count += 1;
        if self.paths.len() < PATHS_MAX {
            self.paths.push(path);
        }
    }

    /// Forgets what retention has deleted of these files of one lane of a recording.
    pub(crate) fn count_what_is_there(&mut self, directories: &[Dir]) {
        let name = self.paths.first().and_then(|path| path.file_name()?.to_str());
        let Some((series, _)) = name.and_then(|name| name.rsplit_once('-')) else { return };
        let is_of_lane = |name: &OsString| {
            let number =
                name.to_str().and_then(|name| name.strip_prefix(series)?.strip_prefix('-'));
            let number = number.map(|number| number.strip_suffix(".zst").unwrap_or(number));
            number.is_some_and(|number| number.ends_with(".pcapng"))
        };
        let names = directories.iter().filter_map(|dir| dir.names().ok()).flatten();
        let names = names.filter_map(|name| Some(name.ok()?.0));
        self.count = names.filter(is_of_lane).count() as u64;
        let is_there = |path: &PathBuf| {
            let dir = directories.iter().find(|dir| path.parent() == Some(dir.path()));
            let entry = dir.zip(path.file_name()).map(|(dir, name)| dir.entry(name));
            entry.is_some_and(|entry| entry.exists().unwrap_or(true))
        };
        self.paths.retain(is_there);
    }

    pub(crate) fn append(&mut self, other: FileList) {
        self.count += other.count;
        let room = PATHS_MAX.saturating_sub(self.paths.len());
        self.paths.extend(other.paths.into_iter().take(room));
    }
}

/// The output of the merging writer.
pub(crate) struct Sink {
    interfaces: Vec<SourceInterface>,
    writer: Box<dyn FrameWriter>,
    /// Present when the output is a file that may be followed by others.
    files: Option<Files>,
    /// Frames given to the present writer.
    submitted: u64,
    /// Of these, frames that were reported as accepted or lost.
    reported: u64,
    /// Which of those that are not yet reported are late, counted as `submitted` is.
    late: VecDeque<u64>,
    accepted: Accepted,
    /// Where the last of the accepted frames ends.
    position: Position,
    lost: Option<(Cause, u64)>,
    failed: Option<Cause>,
    /// When the output was last flushed, if it is compressed.
    packed_at: Option<Instant>,
}

/// Frames that the output has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) frames: u64,
    /// Of these, frames that came after a younger one.
    pub(crate) late: u64,
}

struct Files {
    names: Names,
    format: Format,
    packing: Option<Packing>,
    rotation: Rotation,
    period: u64,
    /// The first file, unless the names are a pattern of times: it stays locked as long as the run
    /// lasts, so that no other run begins to write over it or over the series. The name of a
    /// pattern is written again when it comes round.
    _first: Option<File>,
    /// The present file, to cut and to sync it: by its name it might be another one by now.
    file: File,
    name: PathBuf,
    written: FileList,
}

impl Sink {
    pub(crate) fn file(
        path: PathBuf,
        format: FileFormat,
        rotation: Rotation,
        interfaces: Vec<SourceInterface>,
    ) -> Result<Sink, StoreError> {
        let format = format.store();
        let rotates = rotation != Rotation::default();
        let packing = Packing::of_path(&path);
        let is_pattern = is_pattern(&path);
        let mut names = Names::new(path, rotates, rotation.bytes.is_some());
        let (named, name) = names.next(0, clock::realtime_now().seconds());
        let (writer, file) = new_file(&name, (format, packing), &interfaces)?;
        let mut written = FileList::default();
        written.push(name.clone());
        let first = (!is_pattern).then(|| file.try_clone()).transpose();
        let context = || format!("cannot open {}", name.shown());
        let first = first.map_err(|source| StoreError::Io { context: context(), source })?;
        let files = Files {
            _first: first,
            names,
            format,
            packing,
            rotation,
            period: 0,
            file,
            name,
            written,
        };
        let mut sink = Sink::new(interfaces, writer, Some(files));
        sink.position = Position { named, bytes: sink.writer.bytes_written(), is_ended: false };
        sink.packed_at = packing.map(|_| Instant::now());
        Ok(sink)
    }

    pub(crate) fn stream(
        out: StreamWriter,
        format: FileFormat,
        interfaces: Vec<SourceInterface>,
    ) -> Result<Sink, StoreError> {
        let format = format.store();
        one_link_type(format, &interfaces)?;
        // Not flushed here: a pipe without a reader must not hold up the start.
        let writer = format.writer(out, &interfaces)?;
        Ok(Sink::new(interfaces, writer, None))
    }

    pub(crate) fn print(
        print: Print,
        control: Arc<Control>,
        interfaces: Vec<SourceInterface>,
    ) -> Sink {
        let writer = (print.writer)(StreamWriter::new(print.fd, control), &interfaces);
        Sink::new(interfaces, writer, None)
    }

    fn new(
        interfaces: Vec<SourceInterface>,
        writer: Box<dyn FrameWriter>,
        files: Option<Files>,
    ) -> Sink {
        Sink {
            interfaces,
            writer,
            files,
            submitted: 0,
            reported: 0,
            late: VecDeque::new(),
            accepted: Accepted::default(),
            position: Position::default(),
            lost: None,
            failed: None,
            packed_at: None,
        }
    }

    /// Hands over the header, so that a reader of a quiet link has something to go by.
    pub(crate) fn begin(&mut self) -> Result<(), StoreError> {
        self.writer.flush().map_err(|error| self.fail(error))
    }

    pub(crate) fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    /// True for a file or several, false for a stream.
    pub(crate) fn has_files(&self) -> bool {
        self.files.is_some()
    }

    /// The files, in order; none for a stream.
    pub(crate) fn into_files(self) -> FileList {
        self.files.map(|files| files.written).unwrap_or_default()
    }

    /// Writes a frame, flagged if it is `late_ns` older than one before it; `period` is the present
    /// period of a timed rotation.
    pub(crate) fn write(
        &mut self,
        frame: &Frame<'_>,
        late_ns: Option<u64>,
        period: u64,
    ) -> Result<(), StoreError> {
        if let Some(cause) = self.failed {
            self.lose(cause, 1);
            return Ok(());
        }
        let comment = late_ns.map(late_comment);
        let bytes_added = self.writer.bytes_added();
        let record_bytes = |files: &Files| record_bytes(files.format, frame, comment.as_deref());
        let is_due = |files: &Files| files.is_due(bytes_added + record_bytes(files), period);
        if self.files.as_ref().is_some_and(is_due)
            && let Err(error) = self.next_file(period, clock::realtime_now().seconds())
        {
            self.lose(cause_of(&error), 1);
            return Err(error);
        }
        let written = match &comment {
            None => self.writer.write(frame),
            Some(comment) => self.writer.write_commented(frame, comment),
        };
        match written {
            Ok(()) => {
                if late_ns.is_some() {
                    self.late.push_back(self.submitted);
                }
                self.submitted += 1;
                Ok(())
            }
            // This one frame cannot be stored in this format; the writer goes on.
            Err(error @ StoreError::TimeBeyondPcap { .. }) => {
                self.lose(Cause::WriteFailed, 1);
                Err(error)
            }
            Err(error) => {
                self.submitted += 1;
                Err(self.fail(error))
            }
        }
    }

    /// Hands over what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if self.failed.is_some() || self.submitted == self.reported {
            return Ok(());
        }
        if let Some(at) = &mut self.packed_at {
            if at.elapsed() < PACKED_WAIT_MAX {
                // Parts that became full are handed over.
                self.report();
                return Ok(());
            }
            *at = Instant::now();
        }
        self.writer.flush().map_err(|error| self.fail(error))?;
        self.report();
        Ok(())
    }

    /// Ends the output with its statistics.
    pub(crate) fn finish(&mut self, statistics: &[FinalStatistics]) -> Result<(), StoreError> {
        if self.failed.is_some() {
            return Ok(());
        }
        let statistics: Vec<_> = statistics.iter().map(FinalStatistics::as_block).collect();
        self.writer.finish(&statistics).map_err(|error| self.fail(error))?;
        self.position.is_ended = true;
        if let Some(files) = &self.files
            && let Err(source) = files.file.sync_all()
        {
            // A disk may say only now that it is full; what of it has arrived is not known.
            let context = format!("cannot sync {}", files.name.shown());
            return Err(self.fail(StoreError::Io { context, source }));
        }
        self.report();
        Ok(())
    }

    /// Frames accepted since the last call.
    pub(crate) fn take_accepted(&mut self) -> Accepted {
        std::mem::take(&mut self.accepted)
    }

    /// Where the output was when it last accepted frames.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Frames lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Option<(Cause, u64)> {
        self.lost.take()
    }

    /// Ends the present file and begins the next, at `now` in seconds since 1970.
    fn next_file(&mut self, period: u64, now: u64) -> Result<(), StoreError> {
        self.finish(&[])?;
        let Some(files) = &mut self.files else { return Ok(()) };
        let (named, name) = files.names.next(files.written.count, now);
        match new_file(&name, (files.format, files.packing), &self.interfaces) {
            Ok((writer, file)) => {
                files.written.push(name.clone());
                (files.file, files.name, files.period) = (file, name, period);
                self.writer = writer;
                self.submitted = 0;
                self.reported = 0;
                self.late.clear();
                let bytes = self.writer.bytes_written();
                self.position = Position { named, bytes, is_ended: false };
                Ok(())
            }
            Err(error) => {
                self.failed = Some(cause_of(&error));
                Err(error)
            }
        }
    }

    /// Moves what the writer has accepted to `accepted`.
    fn report(&mut self) {
        let written = self.writer.frames_written();
        self.accepted.frames += written - self.reported;
        self.position.bytes = self.writer.bytes_written();
        self.reported = written;
        while self.late.front().is_some_and(|&index| index < written) {
            self.late.pop_front();
            self.accepted.late += 1;
        }
    }

    /// The first error of the system ends the output: counts the rest as lost and leaves the file
    /// valid.
    fn fail(&mut self, error: StoreError) -> StoreError {
        let cause = cause_of(&error);
        self.report();
        self.lose(cause, self.submitted - self.reported);
        self.failed = Some(cause);
        let Some(files) = &self.files else { return error };
        let bytes = self.writer.bytes_written();
        if let Err(cut) = files.file.set_len(bytes) {
            // Readers still stop at the torn record.
            tracing::warn!("cannot cut {} to {bytes} bytes: {cut}", files.name.shown());
        } else if let Some(packing) = files.packing.filter(|_| !self.position.is_ended) {
            // Best effort, where there may be no room: a reader then says that it ends early.
            let _ = packing.end_cut_file(&files.file, bytes);
        }
        naming(&files.name, error)
    }

    fn lose(&mut self, cause: Cause, frames: u64) {
        if frames > 0 {
            let (_, lost) = self.lost.get_or_insert((cause, 0));
            *lost += frames;
        }
    }
}

impl Files {
    /// True if the present file ends before a frame that would make it `file_bytes` long.
    fn is_due(&self, file_bytes: u64, period: u64) -> bool {
        let full = self.rotation.bytes.is_some_and(|limit| file_bytes > limit);
        full || period != self.period
    }
}

impl FileFormat {
    fn store(self) -> Format {
        match self {
            FileFormat::Pcapng => Format::Pcapng,
            FileFormat::Pcap => Format::Pcap,
        }
    }
}

/// Bytes that a frame takes in a file, with its comment.
fn record_bytes(format: Format, frame: &Frame<'_>, comment: Option<&str>) -> u64 {
    let direction = frame.meta.direction;
    let comment_bytes = comment.map_or(0, |comment| format.comment_bytes(comment, direction));
    format.record_bytes(frame.bytes.len(), direction) + comment_bytes
}

/// The same error with the name of the file, which the writer does not know.
fn naming(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Io { source, .. } => {
            StoreError::Io { context: format!("cannot write {}", path.shown()), source }
        }
        other => other,
    }
}

/// A new file with its header written, so that a full disk shows at once. It is removed again if
/// that fails.
fn new_file(
    name: &Path,
    (format, packing): (Format, Option<Packing>),
    interfaces: &[SourceInterface],
) -> Result<(Box<dyn FrameWriter>, File), StoreError> {
    one_link_type(format, interfaces)?;
    let file = create_file(name)?;
    let io = |source| StoreError::Io { context: format!("cannot open {}", name.shown()), source };
    let handle = file.try_clone().map_err(io)?;
    let mut writer = match packing {
        Some(packing) => packing.writer(format, file, interfaces)?,
        None => format.writer(file, interfaces)?,
    };
    if let Err(error) = writer.flush() {
        // Best effort: the error that is reported is the one that matters.
        let _ = std::fs::remove_file(name);
        return Err(naming(name, error));
    }
    Ok((writer, handle))
}

/// Refuses pcap for interfaces of several link types at the start, not at the first such frame.
fn one_link_type(format: Format, interfaces: &[SourceInterface]) -> Result<(), StoreError> {
    let Some(first) = interfaces.first().map(|interface| interface.link_type) else {
        return Ok(());
    };
    let other = interfaces.iter().position(|interface| interface.link_type != first);
    match other {
        Some(index) if format == Format::Pcap => Err(StoreError::SecondLinkType {
            first: first.0,
            second: interfaces[index].link_type.0,
            interface: index as u32,
        }),
        _ => Ok(()),
    }
}

/// How a late frame is flagged, where the format has comments: Wireshark lists it, finds it by
/// `frame.comment`, and pcapng has no flag for it.
fn late_comment(late_ns: u64) -> String {
    format!("ringside: late by {late_ns} ns")
}

/// The closing statistics of an interface.
pub(crate) struct FinalStatistics {
    interface: InterfaceId,
    when: Timestamp,
    counters: LaneCounters,
}

impl FinalStatistics {
    fn as_block(&self) -> Statistics<'_> {
        Statistics {
            interface: self.interface,
            first_time: Timestamp::default(),
            when: self.when,
            counters: &self.counters,
        }
    }
}

/// One statistics block per interface: the sum of its lanes.
pub(crate) fn final_statistics(
    status: &[Arc<LaneStatus>],
    interfaces: &[SourceInterface],
) -> Vec<FinalStatistics> {
    let lanes: Vec<LaneCounters> = status.iter().map(|status| status.get()).collect();
    let of_interface = |(index, interface): (usize, &SourceInterface)| FinalStatistics {
        interface: InterfaceId(index as u32),
        when: clock::realtime_now(),
        counters: LaneCounters::sum(lanes.iter().filter(|lane| lane.interface == interface.name)),
    };
    // Descriptions of one interface for frames of which pieces are kept bear its name too.
    let mut missing: HashSet<&str> = lanes.iter().map(|lane| lane.interface.as_str()).collect();
    let mut statistics = Vec::new();
    for (index, interface) in interfaces.iter().enumerate() {
        // One lane may be of several interfaces, or of one without a name: a file's.
        let is_first_of_one_lane = lanes.len() == 1 && index == 0;
        if missing.remove(interface.name.as_str()) || is_first_of_one_lane {
            statistics.push(of_interface((index, interface)));
        }
    }
    statistics
}

#[cfg(test)]
mod tests;
