//! The recorder of a lane: the ring's blocks to a series of files, as they lie.
//!
//! It is a lossless reader: it borrows a block until the block is on its way to the disk, and the
//! worker drops frames, counted as `recorder_behind`, when the ring is full. Under load whole
//! blocks are written. On a quiet link a time limit governs writing: what is published goes to the
//! file after [`WRITE_INTERVAL`], and the same block is continued later, so that an idle link
//! costs no space.

use crate::config::Rotation;
use crate::control::{ConsumerCounts, Control};
use crate::output::FileList;
use crate::run::{RunError, spawn};
use ringside_core::{Cause, LaneId, SourceInterface, Timestamp};
use ringside_store::{StoreError, block, recording};
use ringside_sys::ring::{Chunk, LosslessReader};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Longest time that a published frame waits for its block to be full before it is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How often an idle recorder looks for new bytes: at 2 GB/s the ring gains 10 blocks meanwhile.
const POLL: Duration = Duration::from_millis(5);
/// How often what is written is sent to the medium: what a power cut may cost.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Files that wait for the medium at a time. Each holds a descriptor; a disk that is so far behind
/// gains nothing from more.
const SYNCS_WAITING_MAX: usize = 4;

/// What all lanes of a recording share.
pub(crate) struct Recording {
    pub(crate) directory: PathBuf,
    /// Identifies the run in all its files.
    pub(crate) run: String,
    pub(crate) start: Timestamp,
    pub(crate) interfaces: Vec<SourceInterface>,
    pub(crate) block_bytes: usize,
    pub(crate) rotation: Rotation,
}

/// Writes the series of one lane. Runs on a thread of its own until the lane is finished.
pub(crate) struct LaneRecorder {
    recording: Arc<Recording>,
    lane: LaneId,
    interface: String,
    counts: Arc<ConsumerCounts>,
    control: Arc<Control>,
    file: Option<recording::SeriesWriter>,
    files: FileList,
    frames: u64,
    rotation_seen: u64,
    closer: Closer,
    failed: Option<Cause>,
}

impl LaneRecorder {
    /// Creates the first file, so that a directory that cannot be written is found at the start.
    ///
    /// # Errors
    /// As [`recording::SeriesWriter::create`], or there is no thread to be had.
    pub(crate) fn new(
        recording: Arc<Recording>,
        lane: LaneId,
        interface: String,
        counts: Arc<ConsumerCounts>,
        control: Arc<Control>,
    ) -> Result<LaneRecorder, RunError> {
        let mut recorder = LaneRecorder {
            recording,
            lane,
            interface,
            counts,
            closer: Closer::start(control.clone())?,
            control,
            file: None,
            files: FileList::default(),
            frames: 0,
            rotation_seen: 0,
            failed: None,
        };
        recorder.file()?;
        Ok(recorder)
    }

    /// Runs to the end of the lane; returns the files in order.
    pub(crate) fn run(mut self, mut reader: LosslessReader) -> FileList {
        let mut written_at = Instant::now();
        let mut synced_at = Instant::now();
        loop {
            let finished = reader.is_finished();
            let Some(chunk) = reader.peek() else {
                if finished {
                    break;
                }
                sleep(POLL);
                continue;
            };
            // The order to stop is given before the last bytes are published: then nothing waits.
            let due = chunk.closed
                || written_at.elapsed() >= WRITE_INTERVAL
                || self.control.is_stopping();
            if !due {
                sleep(POLL);
                continue;
            }
            self.take(&chunk);
            reader.consume();
            written_at = Instant::now();
            if synced_at.elapsed() >= SYNC_INTERVAL {
                synced_at = written_at;
                self.sync();
            }
        }
        if let Some(file) = self.file.take() {
            self.closer.close(file);
        }
        self.closer.join();
        self.files
    }

    /// Writes a chunk, or counts it as missed once writing has failed.
    fn take(&mut self, chunk: &Chunk<'_>) {
        let frames = u64::from(chunk.frames);
        if let Some(cause) = self.failed {
            self.counts.miss(cause, frames);
            return;
        }
        match self.file().map(|file| file.bytes_written()) {
            Ok(before) => match self.write(chunk) {
                Ok(()) => self.counts.deliver(frames),
                Err(error) => self.fail(&error, chunk, before),
            },
            Err(error) => self.fail(&error, chunk, u64::MAX),
        }
        self.frames += frames;
    }

    fn write(&mut self, chunk: &Chunk<'_>) -> Result<(), StoreError> {
        let file = self.file()?;
        file.append(chunk.bytes)?;
        if chunk.closed {
            file.complete_block()?;
            self.rotate_if_due();
        }
        Ok(())
    }

    /// Has what is written sent to the medium, without waiting for it.
    fn sync(&self) {
        let Some(file) = &self.file else { return };
        match file.duplicate() {
            Ok(file) => self.closer.sync(file),
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// The first error ends the recording; the ledger goes on. `written_before` is the size of the
    /// file before the chunk.
    fn fail(&mut self, error: &StoreError, chunk: &Chunk<'_>, written_before: u64) {
        let cause = if error.is_disk_full() { Cause::DiskFull } else { Cause::WriteFailed };
        let written = self.file.as_ref().map_or(0, recording::SeriesWriter::bytes_written);
        let kept = written.saturating_sub(written_before).min(chunk.bytes.len() as u64) as usize;
        let delivered = block::frame_count(&chunk.bytes[..kept]);
        self.counts.deliver(delivered);
        self.counts.miss(cause, u64::from(chunk.frames) - delivered);
        self.failed = Some(cause);
        self.control.fail(format!("recording stopped: {error}; what is written stays valid"));
    }

    /// The open file; the next one of the series if none is open.
    fn file(&mut self) -> Result<&mut recording::SeriesWriter, StoreError> {
        if self.file.is_none() {
            let recording = &*self.recording;
            let sequence = self.files.count;
            let name = recording::file_name(recording.start, &self.interface, self.lane, sequence);
            let path = recording.directory.join(name);
            let header = recording::FileHeader {
                run: recording.run.clone(),
                lane: self.lane,
                sequence,
                block_bytes: recording.block_bytes,
                ..recording::FileHeader::default()
            };
            let file = recording::SeriesWriter::create(&path, &header, &recording.interfaces)?;
            self.files.push(path);
            self.file = Some(file);
        }
        Ok(self.file.as_mut().expect("set above"))
    }

    /// Ends the file at a block's border when it is large or old enough.
    fn rotate_if_due(&mut self) {
        let Some(file) = &self.file else { return };
        let next_bytes = file.bytes_written() + self.recording.block_bytes as u64;
        let full = self.recording.rotation.bytes.is_some_and(|limit| next_bytes > limit);
        let period = self.control.rotation();
        if (full || period != self.rotation_seen)
            && let Some(file) = self.file.take()
        {
            self.closer.close(file);
        }
        self.rotation_seen = period;
    }
}

/// Sends files to the medium on a thread of its own: waiting for it must not hold the ring up.
struct Closer {
    work: SyncSender<Work>,
    thread: JoinHandle<()>,
}

enum Work {
    Finish(recording::SeriesWriter),
    Sync(File),
}

impl Closer {
    fn start(control: Arc<Control>) -> Result<Closer, RunError> {
        let (work, inbox) = sync_channel(SYNCS_WAITING_MAX);
        let thread = spawn("sync", move || {
            for work in inbox {
                let result = match work {
                    Work::Finish(file) => file.finish().map_err(|error| error.to_string()),
                    Work::Sync(file) => file.sync_data().map_err(|error| error.to_string()),
                };
                if let Err(error) = result {
                    control.fail(format!("what is written may not reach the medium: {error}"));
                }
            }
        })?;
        Ok(Closer { work, thread })
    }

    /// Syncs and closes; if the disk is far behind, only closes.
    fn close(&self, file: recording::SeriesWriter) {
        let _ = self.work.try_send(Work::Finish(file));
    }

    /// Syncs; if the disk is far behind, an earlier order does it.
    fn sync(&self, file: File) {
        let _ = self.work.try_send(Work::Sync(file));
    }

    fn join(self) {
        drop(self.work);
        // A panic there was printed; the file's content does not depend on it.
        let _ = self.thread.join();
    }
}
