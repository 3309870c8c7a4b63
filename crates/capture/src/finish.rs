//! Finishing for a process that died: its recording, and its ledger.
//!
//! Another process held copies of what the dead one worked with: the shared memory of the ring, the
//! sockets, the programs, the maps of their counters, the locks of the run. So, when it is over:
//!
//! 1. The sockets are detached, the programs taken out; the kernel's counters stand still and are
//!    read, and what the kernel held for the capture is let go (`kernel`).
//! 2. What was committed to the ring and is not in the files is written, in the order of the lane,
//!    behind it the statistics with the final ledger (`lane`). A merged file, whose order only
//!    the writer knew, is cut to its last whole record (`merged`).
//! 3. The ledger: what the kernel accepted and no worker had put into the ring is dropped, by the
//!    cause `worker_died`; what lay in the ring and could not be written is missed.
//!
//! A dead process's writes: those by pwrite(2) have ended before it can be waited for. A write by
//! io_uring past the page cache may still be under way to the disk; the file is asked for a
//! reservation first, for which file systems wait until such writes have ended. Where one does not,
//! such a write brings whole ring blocks to the place behind the file's last one, and the same
//! blocks are the first that are written here, to the same place: whichever comes last, the bytes
//! are the same.
//!
//! What the memory says is checked: the dead process may have been taken over before.

mod folder;
mod kernel;
mod lane;
mod merged;

use crate::backend::{KernelCount, KernelSide};
use crate::config::FileFormat;
use crate::control::{PRINTER, WRITER};
use crate::lane::LaneBoard;
use crate::output::Position;
use folder::Folder;
use ringside_core::ledger::{ByCause, Words, add_frames, sum, total};
use ringside_core::{Cause, Consumer, InterfaceId, LaneCounters, LaneId, Ledger, Shown};
use ringside_ring::{Board, RingError, RingView};
use ringside_store::StoreError;
use ringside_store::recording::RunLock;
use ringside_store::retention::Policy;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a process left that was to run to its end.
#[derive(Debug)]
pub struct Remains {
    /// The memory in which its workers published ([`Prepared::boards`](crate::run::Prepared)).
    pub boards: OwnedFd,
    /// The memory that its consumer read; `None` if that is the same, or there was none.
    pub recorded: Option<OwnedFd>,
    /// Its lanes, in order.
    pub lanes: Vec<LaneRemains>,
    /// Where its frames went.
    pub output: OutputRemains,
}

/// What is left of a lane.
#[derive(Debug)]
pub struct LaneRemains {
    /// Name of the interface.
    pub interface: String,
    /// Its id in the run.
    pub interface_id: InterfaceId,
    /// Queue or fanout member.
    pub queue: u16,
    /// What the kernel still tells; `None` for a backend of which it tells nothing.
    pub kernel: Option<Box<dyn KernelSide>>,
}

/// What is left of the output.
#[derive(Debug)]
pub enum OutputRemains {
    /// Frames were counted only.
    Count,
    /// A recording.
    Recording(RecordingRemains),
    /// A file, or several by rotation.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// Its format.
        format: FileFormat,
        /// Files bear numbers.
        rotates: bool,
    },
    /// A stream, of which nothing can be repaired.
    Stream,
    /// Packets printed as text, and nothing else.
    Print,
}

/// What is left of a recording.
#[derive(Debug)]
pub struct RecordingRemains {
    /// Identifies the run in all its files.
    pub run: String,
    /// The locks of the run, one in each of its directories.
    pub locks: Vec<RunLock>,
    /// Largest size of a file.
    pub bytes_max: Option<u64>,
    /// What each directory may hold.
    pub retention: Policy,
}

/// What was made of it.
#[derive(Debug, Default)]
pub struct Finished {
    /// The final ledger.
    pub ledger: Ledger,
    /// Ring blocks that were written.
    pub blocks_written: u64,
    /// What is not known, and why: a sentence each.
    pub unknown: Vec<String>,
    /// What could not be done.
    pub errors: Vec<String>,
}

/// The lanes' memory.
struct Memory {
    boards: Arc<RingView>,
    recorded: Option<Arc<RingView>>,
}

impl Remains {
    /// Finishes. Takes as long as it takes to write what lies in the ring.
    ///
    /// # Errors
    /// The shared memory cannot be attached to: nothing can be finished.
    pub fn finish(mut self) -> Result<Finished, RingError> {
        let boards = RingView::attach(self.boards)?;
        let recorded = match (self.recorded, &self.output) {
            (Some(fd), _) => Some(RingView::attach(fd)?),
            (None, OutputRemains::Count) => None,
            (None, _) => Some(boards.clone()),
        };
        let memory = Memory { boards, recorded };
        let mut finished = Finished::default();
        let counts = kernel::close(&mut self.lanes, &mut finished);
        let lanes = self.lanes.iter().zip(counts).enumerate();
        let lanes: Vec<LaneCounters> = lanes
            .map(|(index, (lane, count))| {
                let counters = memory.counters(index, lane, count, &mut finished);
                LaneCounters { interface: lane.interface.clone(), queue: lane.queue, ..counters }
            })
            .collect();
        finished.ledger = Ledger::from_lanes(lanes);
        let consumer = match self.output {
            OutputRemains::Count => Consumer {
                name: "meter".into(),
                delivered: finished.ledger.taken,
                ..Consumer::default()
            },
            OutputRemains::Recording(recording) => {
                memory.recorder(recording, &self.lanes, &mut finished)
            }
            OutputRemains::File { path, format, rotates } => {
                memory.file(&merged::Series { path, format, rotates }, &mut finished)
            }
            OutputRemains::Stream => memory.stream(WRITER, &mut finished),
            OutputRemains::Print => memory.stream(PRINTER, &mut finished),
        };
        finished.ledger.consumers.push(consumer);
        if let Some(why) = ringside_sys::bpf::approximate_because() {
            let text = format!("the exact counts of the kernel's last moment: {why}");
            finished.unknown.push(text);
        }
        if let Err(imbalance) = finished.ledger.balance() {
            finished.errors.push(imbalance.to_string());
        }
        Ok(finished)
    }
}

impl Memory {
    /// The final counters of a lane.
    fn counters(
        &self,
        lane: usize,
        remains: &LaneRemains,
        count: Option<Box<dyn KernelCount>>,
        finished: &mut Finished,
    ) -> LaneCounters {
        let exists = lane < self.boards.layout().lanes;
        let reading = exists.then(|| LaneBoard::read(&self.boards, lane)).flatten();
        // Without a ring a lane's frames were counted by its worker, as of the last reading.
        let taken = match self.recorded {
            Some(_) if exists => Some(self.boards.frames(lane)),
            _ => None,
        };
        let (mut counters, unknown) = kernel::final_counters(reading, count, taken);
        let name = || format!("{} queue {}", remains.interface, remains.queue);
        finished.unknown.extend(unknown.map(|what| format!("{}: {what}", name())));
        counters.note_imbalance();
        counters
    }

    /// Finishes the series of all lanes.
    fn recorder(
        &self,
        recording: RecordingRemains,
        lanes: &[LaneRemains],
        finished: &mut Finished,
    ) -> Consumer {
        let mut missed = ByCause::new();
        let Some(view) = &self.recorded else { return Consumer::default() };
        let locks = recording.locks;
        let folders: Vec<Folder> = locks.iter().map(|lock| Folder::new(lock.dir())).collect();
        let run = lane::Run {
            name: &recording.run,
            bytes_max: recording.bytes_max,
            retention: recording.retention,
        };
        for (index, remains) in lanes.iter().enumerate().take(view.layout().lanes) {
            let end = lane::End {
                lane: LaneId(index as u16),
                interface: &remains.interface,
                interface_id: remains.interface_id,
                counters: &finished.ledger.lanes[index],
            };
            let outcome = lane::finish(&run, &folders, view, &end);
            finished.blocks_written += outcome.blocks_written;
            finished.errors.extend(outcome.errors);
            let known = self.consumer(index).missed;
            for (cause, frames) in known.into_iter().chain(outcome.missed) {
                add_frames(&mut missed, cause, frames);
            }
        }
        for folder in &folders {
            finished.errors.extend(folder.sync().err().map(|error| error.to_string()));
        }
        // With an error left, the next start shall look at the run again.
        if finished.errors.is_empty() {
            let removed: Result<(), _> = locks.into_iter().try_for_each(RunLock::remove);
            finished.errors.extend(removed.err().map(|error| error.to_string()));
        }
        self.consumer_line("recorder", missed, finished)
    }

    /// The recorder's line. `missed` is what of the recorder's ring is in no file.
    fn consumer_line(&self, name: &str, mut missed: ByCause, finished: &mut Finished) -> Consumer {
        let taken = finished.ledger.taken;
        let lanes = 0..self.boards.layout().lanes;
        let in_view = |view: &Arc<RingView>| sum(lanes.clone().map(|lane| view.frames(lane)));
        let recorded: u64 = self.recorded.as_ref().map_or(0, in_view);
        // With a trigger the second ring has fewer frames than were taken: most lay outside its
        // windows, which it counts on the first ring's boards; of the last it had not decided.
        let elsewhere = taken.saturating_sub(recorded);
        if elsewhere > 0 {
            let words = lanes.filter_map(|lane| self.boards.read_board(lane, Board::Recorder));
            let outside = words.map(|words: Words| total(&Consumer::from_words("", &words).missed));
            let outside = sum(outside).min(elsewhere);
            add_frames(&mut missed, Cause::OutsideTrigger, outside);
            add_frames(&mut missed, Cause::WorkerDied, elsewhere - outside);
            if elsewhere > outside {
                finished.unknown.push(format!(
                    "which of {} frames, of which the trigger had not decided, are near a hit",
                    elsewhere - outside
                ));
            }
        }
        let delivered = taken.saturating_sub(total(&missed));
        Consumer { name: name.into(), delivered, missed, ..Consumer::default() }
    }

    /// Cuts a merged file to what is whole.
    fn file(&self, series: &merged::Series, finished: &mut Finished) -> Consumer {
        let taken = finished.ledger.taken;
        let words = self.words(0);
        let mut consumer = Consumer::from_words(WRITER, &words);
        match merged::finish(series, Position::from_words(&words)) {
            Ok(frames) => consumer.delivered = consumer.delivered.saturating_add(frames),
            Err(error) => finished.errors.push(error.to_string()),
        }
        let held = taken.saturating_sub(sum([consumer.delivered, total(&consumer.missed)]));
        if held > 0 {
            finished.unknown.push(format!(
                "{held} frames were taken and wait in no file: the merge held them, and its order \
                 is lost"
            ));
            add_frames(&mut consumer.missed, Cause::WorkerDied, held);
        }
        consumer
    }

    /// A stream ends where it ends.
    fn stream(&self, name: &str, finished: &mut Finished) -> Consumer {
        let mut consumer = self.consumer(0);
        consumer.name = name.into();
        let taken = finished.ledger.taken;
        let rest = taken.saturating_sub(sum([consumer.delivered, total(&consumer.missed)]));
        if rest > 0 {
            finished.unknown.push(format!(
                "how many of the last {rest} frames went into the stream before the end, which may \
                 be torn"
            ));
            add_frames(&mut consumer.missed, Cause::WorkerDied, rest);
        }
        consumer
    }

    /// What the consumer had accounted for, by lane; a merging writer publishes on lane 0.
    fn consumer(&self, lane: usize) -> Consumer {
        Consumer::from_words("", &self.words(lane))
    }

    fn words(&self, lane: usize) -> Words {
        let view = self.recorded.as_ref().filter(|view| lane < view.layout().lanes);
        view.and_then(|view| view.read_board(lane, Board::Recorder))
            .unwrap_or_else(|| Consumer::default().to_words())
    }
}

fn io_error(what: &str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { context: format!("{what} {}", path.shown()), source }
}

#[cfg(test)]
mod tests;
