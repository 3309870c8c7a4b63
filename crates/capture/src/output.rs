//! Where merged frames go: one file, several by rotation, or a stream.

use crate::config::{FileFormat, Rotation};
use crate::lane::LaneStatus;
use crate::stream::StreamWriter;
use ringside_core::{Cause, Frame, InterfaceId, LaneCounters, SourceInterface, Timestamp};
use ringside_store::StoreError;
use ringside_store::block::{Statistics, packet_block_bytes};
use ringside_store::writer::{Format, FrameWriter, create_file};
use ringside_sys::clock;
use std::io::ErrorKind::TimedOut;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What pcap adds to a frame: the header of a record.
const PCAP_RECORD_HEADER_BYTES: usize = 16;

/// The output of the merging writer.
pub(crate) struct Sink {
    format: Format,
    interfaces: Vec<SourceInterface>,
    writer: Box<dyn FrameWriter>,
    /// Present when the output is a file that may be followed by others.
    files: Option<Files>,
    /// Frames given to the present writer.
    submitted: u64,
    /// Of these, frames that were reported as accepted or lost.
    reported: u64,
    accepted: u64,
    lost: Option<(Cause, u64)>,
    failed: Option<Cause>,
}

struct Files {
    path: PathBuf,
    rotation: Rotation,
    period: u64,
    bytes: u64,
    written: Vec<PathBuf>,
}

impl Sink {
    pub(crate) fn file(
        path: PathBuf,
        format: FileFormat,
        rotation: Rotation,
        interfaces: Vec<SourceInterface>,
    ) -> Result<Sink, StoreError> {
        let first = numbered(&path, rotation, 0);
        let writer = format.store().writer(create_file(&first)?, &interfaces)?;
        let files = Files { path, rotation, period: 0, bytes: 0, written: vec![first] };
        Ok(Sink::new(format, interfaces, writer, Some(files)))
    }

    pub(crate) fn stream(
        out: StreamWriter,
        format: FileFormat,
        interfaces: Vec<SourceInterface>,
    ) -> Result<Sink, StoreError> {
        let writer = format.store().writer(out, &interfaces)?;
        Ok(Sink::new(format, interfaces, writer, None))
    }

    fn new(
        format: FileFormat,
        interfaces: Vec<SourceInterface>,
        writer: Box<dyn FrameWriter>,
        files: Option<Files>,
    ) -> Sink {
        Sink {
            format: format.store(),
            interfaces,
            writer,
            files,
            submitted: 0,
            reported: 0,
            accepted: 0,
            lost: None,
            failed: None,
        }
    }

    pub(crate) fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    /// Files so far, in order; none for a stream.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files.as_ref().map(|files| files.written.clone()).unwrap_or_default()
    }

    /// Writes a frame; `period` is the present period of a timed rotation.
    pub(crate) fn write(&mut self, frame: &Frame<'_>, period: u64) -> Result<(), StoreError> {
        if let Some(cause) = self.failed {
            self.lose(cause, 1);
            return Ok(());
        }
        let bytes = self.record_bytes(frame);
        if self.files.as_ref().is_some_and(|files| files.is_due(bytes, period)) {
            self.next_file(period)?;
        }
        if let Some(files) = &mut self.files {
            files.bytes += bytes;
        }
        match self.writer.write(frame) {
            Ok(()) => {
                self.submitted += 1;
                Ok(())
            }
            // This one frame cannot be stored in this format; the writer goes on.
            Err(
                error @ (StoreError::SecondLinkType { .. } | StoreError::TimeBeyondPcap { .. }),
            ) => {
                self.lose(Cause::WriteFailed, 1);
                Err(error)
            }
            Err(error) => {
                self.submitted += 1;
                Err(self.fail(error))
            }
        }
    }

    /// What a frame takes in a file.
    fn record_bytes(&self, frame: &Frame<'_>) -> u64 {
        let bytes = match self.format {
            Format::Pcapng => packet_block_bytes(frame.bytes.len(), frame.meta.direction),
            Format::Pcap => PCAP_RECORD_HEADER_BYTES + frame.bytes.len(),
        };
        bytes as u64
    }

    /// Hands over what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if self.failed.is_some() || self.submitted == self.reported {
            return Ok(());
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
        self.report();
        Ok(())
    }

    /// Frames accepted since the last call.
    pub(crate) fn take_accepted(&mut self) -> u64 {
        std::mem::take(&mut self.accepted)
    }

    /// Frames lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Option<(Cause, u64)> {
        self.lost.take()
    }

    fn next_file(&mut self, period: u64) -> Result<(), StoreError> {
        self.finish(&[])?;
        let Some(files) = &mut self.files else { return Ok(()) };
        let path = numbered(&files.path, files.rotation, files.written.len());
        let next = create_file(&path).and_then(|file| self.format.writer(file, &self.interfaces));
        match next {
            Ok(writer) => {
                files.written.push(path);
                files.bytes = 0;
                files.period = period;
                self.writer = writer;
                self.submitted = 0;
                self.reported = 0;
                Ok(())
            }
            Err(error) => {
                self.lose(cause_of(&error), 1);
                Err(self.fail(error))
            }
        }
    }

    /// Moves what the writer has accepted to `accepted`.
    fn report(&mut self) {
        let written = self.writer.frames_written();
        self.accepted += written - self.reported;
        self.reported = written;
    }

    /// The first error of the system ends the output: counts the rest as lost and leaves the file
    /// valid.
    fn fail(&mut self, error: StoreError) -> StoreError {
        let cause = cause_of(&error);
        self.report();
        self.lose(cause, self.submitted - self.reported);
        self.failed = Some(cause);
        if let Some(path) = self.files.as_ref().and_then(|files| files.written.last()) {
            cut(path, self.writer.bytes_written());
            return naming(path, error);
        }
        error
    }

    fn lose(&mut self, cause: Cause, frames: u64) {
        if frames > 0 {
            let (_, lost) = self.lost.get_or_insert((cause, 0));
            *lost += frames;
        }
    }
}

impl Files {
    fn is_due(&self, bytes: u64, period: u64) -> bool {
        let full = self.rotation.bytes.is_some_and(|limit| self.bytes + bytes > limit);
        (full && self.bytes > 0) || period != self.period
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

fn cause_of(error: &StoreError) -> Cause {
    if error.is_disk_full() {
        Cause::DiskFull
    } else if error.is_pipe_closed() {
        Cause::PipeClosed
    } else if matches!(error, StoreError::Io { source, .. } if source.kind() == TimedOut) {
        Cause::PipeStalled
    } else {
        Cause::WriteFailed
    }
}

/// The same error with the name of the file, which the writer does not know.
fn naming(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Io { source, .. } => {
            StoreError::Io { context: format!("cannot write {}", path.display()), source }
        }
        other => other,
    }
}

/// Cuts a file behind its last whole record. If that fails too, readers stop at the torn record.
fn cut(path: &Path, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path);
    if let Err(error) = file.and_then(|file| file.set_len(bytes)) {
        tracing::warn!("cannot cut {} to {bytes} bytes: {error}", path.display());
    }
}

/// `name.pcapng` without rotation, else `name-000007.pcapng`.
fn numbered(path: &Path, rotation: Rotation, number: usize) -> PathBuf {
    if rotation == Rotation::default() {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut name = format!("{stem}-{number:06}");
    if let Some(ending) = path.extension() {
        name.push('.');
        name.push_str(&ending.to_string_lossy());
    }
    path.with_file_name(name)
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
    interfaces.iter().enumerate().map(of_interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_only_when_they_rotate() {
        let path = Path::new("/data/two.pcapng");
        assert_eq!(numbered(path, Rotation::default(), 3), path);
        let rotation = Rotation { bytes: Some(1), interval: None };
        assert_eq!(numbered(path, rotation, 7), Path::new("/data/two-000007.pcapng"));
        assert_eq!(numbered(Path::new("x"), rotation, 0), Path::new("x-000000"));
    }
}
