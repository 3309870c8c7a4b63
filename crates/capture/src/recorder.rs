//! The recorder of a lane: the ring's blocks to a series of files, as they lie.
//!
//! It is a lossless reader: it borrows a block until the block is on its way to the disk, and the
//! worker drops frames, counted as `recorder_behind`, when the ring is full. Under load whole
//! blocks are written. On a quiet link a time limit governs writing: what is published goes to the
//! file after [`WRITE_INTERVAL`], and the same block is continued later, so that an idle link
//! costs no space.

use crate::config::Rotation;
use crate::control::{ConsumerCounts, Control};
use ringside_core::{Cause, FrameNumber, LaneId, SourceInterface, Timestamp};
use ringside_store::{StoreError, block, recording};
use ringside_sys::ring::{Chunk, LosslessReader};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Longest time that a published frame waits for its block to be full before it is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How often an idle recorder looks for new bytes: at 2 GB/s the ring gains 10 blocks meanwhile.
const POLL: Duration = Duration::from_millis(5);

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
    files: Vec<PathBuf>,
    frames: u64,
    rotation_seen: u64,
    closer: Closer,
    failed: Option<Cause>,
}

impl LaneRecorder {
    /// Creates the first file, so that a directory that cannot be written is found at the start.
    ///
    /// # Errors
    /// As [`recording::SeriesWriter::create`].
    pub(crate) fn new(
        recording: Arc<Recording>,
        lane: LaneId,
        interface: String,
        counts: Arc<ConsumerCounts>,
        control: Arc<Control>,
    ) -> Result<LaneRecorder, StoreError> {
        let mut recorder = LaneRecorder {
            recording,
            lane,
            interface,
            counts,
            closer: Closer::start(control.clone()),
            control,
            file: None,
            files: Vec::new(),
            frames: 0,
            rotation_seen: 0,
            failed: None,
        };
        recorder.file()?;
        Ok(recorder)
    }

    /// Runs to the end of the lane; returns the files in order.
    pub(crate) fn run(mut self, mut reader: LosslessReader) -> Vec<PathBuf> {
        let mut written_at = Instant::now();
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
        match self.write(chunk) {
            Ok(()) => self.counts.deliver(frames),
            Err(error) => self.fail(&error, chunk),
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

    /// The first error ends the recording; the ledger goes on.
    fn fail(&mut self, error: &StoreError, chunk: &Chunk<'_>) {
        let cause = if error.is_disk_full() { Cause::DiskFull } else { Cause::WriteFailed };
        let kept = self.file.as_ref().map_or(0, recording::SeriesWriter::block_filled);
        let kept = kept.saturating_sub(chunk.offset).min(chunk.bytes.len());
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
            let sequence = self.files.len() as u64;
            let name = recording::file_name(recording.start, &self.interface, self.lane, sequence);
            let path = recording.directory.join(name);
            let header = recording::FileHeader {
                run: recording.run.clone(),
                lane: self.lane,
                sequence,
                block_bytes: recording.block_bytes,
                first_frame: FrameNumber(self.frames),
                blocks_complete: 0,
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

/// Finishes files on a thread of its own: waiting for the medium must not hold the ring up.
struct Closer {
    files: Sender<recording::SeriesWriter>,
    thread: JoinHandle<()>,
}

impl Closer {
    fn start(control: Arc<Control>) -> Closer {
        let (files, inbox) = channel::<recording::SeriesWriter>();
        let thread = spawn(move || {
            for file in inbox {
                if let Err(error) = file.finish() {
                    control.fail(error.to_string());
                }
            }
        });
        Closer { files, thread }
    }

    fn close(&self, file: recording::SeriesWriter) {
        // The thread lives until `join`; if it died, the file is closed by being dropped.
        let _ = self.files.send(file);
    }

    fn join(self) {
        drop(self.files);
        // A panic there was printed; the file's content does not depend on it.
        let _ = self.thread.join();
    }
}
