//! The series of one lane: what is in the ring and not in the files, in order, and the end.

use super::folder::{Folder, LaneFile, start_of};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, FrameNumber, InterfaceId, LaneCounters, LaneId, Timestamp};
use ringside_store::StoreError;
use ringside_store::block::{self, BlockHeader, CLOSING_BYTES_MAX, Statistics};
use ringside_store::retention::Policy;
use ringside_sys::clock;
use ringside_sys::ring::RingView;

/// The recording.
pub(super) struct Run<'r> {
    pub(super) name: &'r str,
    pub(super) bytes_max: Option<u64>,
    pub(super) retention: Policy,
}

impl Run<'_> {
    pub(super) fn start(&self) -> Timestamp {
        start_of(self.name)
    }
}

/// How the lane ends.
pub(super) struct End<'e> {
    pub(super) lane: LaneId,
    pub(super) interface: &'e str,
    pub(super) interface_id: InterfaceId,
    pub(super) counters: &'e LaneCounters,
}

/// What was made of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) blocks_written: u64,
    /// Frames of the ring that are in no file.
    pub(super) missed: ByCause,
    pub(super) errors: Vec<String>,
}

/// Writes what is missing and ends the files.
pub(super) fn finish(run: &Run<'_>, folders: &[Folder], view: &RingView, end: &End<'_>) -> Outcome {
    let lane = usize::from(end.lane.0);
    let opened = view.opened(lane);
    let oldest = opened.saturating_sub(view.layout().blocks_per_lane as u64);
    // A block is released when it is written whole (or given up, and then accounted for). Of the
    // others nobody knows; they still lie in the ring.
    let from = view.released(lane, 0).clamp(oldest, opened);
    let mut series = Series { run, end, files: Vec::new(), outcome: Outcome::default() };
    for (index, folder) in folders.iter().enumerate() {
        match folder.files(run, end.interface, end.lane, from) {
            Ok(files) => series.files.extend(files.into_iter().map(|file| (index, file))),
            Err(error) => series.outcome.errors.push(error.to_string()),
        }
    }
    series.write_all(folders, view, from, opened);
    series.close()
}

/// The files of the lane, each with the index of its folder.
struct Series<'s> {
    run: &'s Run<'s>,
    end: &'s End<'s>,
    files: Vec<(usize, LaneFile)>,
    outcome: Outcome,
}

impl Series<'_> {
    fn write_all(&mut self, folders: &[Folder], view: &RingView, from: u64, opened: u64) {
        let lane = usize::from(self.end.lane.0);
        let mut bytes = Vec::new();
        let mut is_ended = false;
        for number in from..opened {
            let Some(state) = view.copy_block(lane, number, &mut bytes) else { continue };
            let is_last = number + 1 == opened;
            if !state.closed {
                self.close_block(number, view.layout().block_bytes, &mut bytes, is_last, view);
                is_ended |= is_last;
            }
            self.put(folders, number, &bytes, u64::from(state.frames));
        }
        if !is_ended {
            bytes.clear();
            self.close_block(opened, view.layout().block_bytes, &mut bytes, true, view);
            self.put(folders, opened, &bytes, 0);
        }
    }

    /// Adds to an open block what ends it: the statistics, and for one that is not the last the
    /// padding.
    fn close_block(
        &self,
        number: u64,
        block_bytes: usize,
        bytes: &mut Vec<u8>,
        is_last: bool,
        view: &RingView,
    ) {
        let lane = usize::from(self.end.lane.0);
        let statistics = Statistics {
            interface: self.end.interface_id,
            first_time: self.run.start(),
            when: clock::realtime_now(),
            counters: self.end.counters,
        };
        bytes.truncate(block::whole_bytes(bytes));
        let mut used = bytes.len();
        bytes.resize(block_bytes, 0);
        if used == 0 {
            let first_frame = FrameNumber(view.frames(lane));
            let header = BlockHeader { number, first_frame, opened: clock::realtime_now() };
            used = block::write_block_header(bytes, &header);
        }
        // The packer leaves room for it; memory that lies about that gets no statistics.
        if block_bytes - used >= CLOSING_BYTES_MAX {
            match is_last {
                true => used += block::write_statistics_block(&mut bytes[used..], &statistics),
                false => {
                    block::close_block(&mut bytes[used..], &statistics);
                    used = block_bytes;
                }
            }
        }
        bytes.truncate(used);
    }

    /// Puts a ring block into a file.
    fn put(&mut self, folders: &[Folder], number: u64, bytes: &[u8], frames: u64) {
        let place = match self.place(folders, number) {
            Ok(place) => place,
            Err(error) => return self.miss(&error, frames),
        };
        let (written, error) = self.files[place].1.write(number, bytes);
        self.outcome.blocks_written += 1;
        if let Some(error) = error {
            self.miss(&error, frames.saturating_sub(written));
        }
    }

    fn miss(&mut self, error: &StoreError, frames: u64) {
        let cause = if error.is_disk_full() { Cause::DiskFull } else { Cause::WriteFailed };
        if frames > 0 {
            *self.outcome.missed.entry(cause).or_default() += frames;
        }
        let text = error.to_string();
        if !self.outcome.errors.contains(&text) {
            self.outcome.errors.push(text);
        }
    }

    /// The file for a ring block: the one that has it; else the one with the nearest number below,
    /// as the dead writer would have gone on; else one that was made ready; else a new one.
    fn place(&mut self, folders: &[Folder], number: u64) -> Result<usize, StoreError> {
        if let Some(place) = self.files.iter().position(|(_, f)| f.slot_of(number).is_some()) {
            return Ok(place);
        }
        let free = self.files.iter().enumerate().filter(|(_, (_, file))| file.takes(number));
        let best = free.max_by_key(|(_, (_, file))| {
            (file.last, !file.is_spare(), std::cmp::Reverse(file.sequence()))
        });
        if let Some((place, _)) = best {
            return Ok(place);
        }
        let sequence = self.files.iter().map(|(_, file)| file.sequence() + 1).max();
        let like = self.files.iter().max_by_key(|(_, file)| file.last);
        let (Some(sequence), Some((folder, other))) = (sequence, like) else {
            let path = std::path::PathBuf::from(self.run.name);
            let reason = format!("lane {} has no file left to go on with", self.end.lane);
            return Err(StoreError::Unusable { path, reason });
        };
        let file = folders[*folder].create(self.run, self.end.interface, sequence, other)?;
        let folder = *folder;
        self.files.push((folder, file));
        Ok(self.files.len() - 1)
    }

    fn close(self) -> Outcome {
        let mut outcome = self.outcome;
        for (_, file) in self.files {
            outcome.errors.extend(file.finish().err().map(|error| error.to_string()));
        }
        outcome
    }
}
