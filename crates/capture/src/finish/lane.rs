//! The series of one lane: what is in the ring and not in the files, in order, and the end.

use super::folder::{Folder, LaneFile, start_of};
use ringside_core::ledger::{ByCause, add_frames};
use ringside_core::{Cause, FrameNumber, InterfaceId, LaneCounters, LaneId, Timestamp};
use ringside_ring::RingView;
use ringside_store::StoreError;
use ringside_store::block::{self, BlockHeader, CLOSING_BYTES_MAX, Statistics};
use ringside_store::retention::Policy;
use ringside_sys::clock;

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
    // others nothing is known; they still lie in the ring.
    let from = view.released(lane, 0).clamp(oldest, opened);
    let outcome = Outcome::default();
    let mut series = Series { run, end, files: Vec::new(), failed: Vec::new(), outcome };
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
    /// Folders that refused something, and under which cause that counts. As in the recorder they
    /// get nothing more: behind a block that is there in part no other can lie.
    failed: Vec<(usize, Cause)>,
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
                    block::close_filled(bytes, used, &statistics);
                    used = block_bytes;
                }
            }
        }
        bytes.truncate(used);
    }

    /// Puts a ring block into a file; if its folder refuses it, what is left of it is missed.
    fn put(&mut self, folders: &[Folder], number: u64, bytes: &[u8], frames: u64) {
        let Some(place) = self.place(folders, number) else {
            let cause = self.failed.first().map(|&(_, cause)| cause);
            if cause.is_none() && self.outcome.missed.is_empty() {
                let text = format!("lane {} has no file left to go on with", self.end.lane);
                self.outcome.errors.push(text);
            }
            return self.miss(cause.unwrap_or(Cause::WriteFailed), frames);
        };
        let (folder, file) = &mut self.files[place];
        let folder = *folder;
        let (written, error) = file.write(number, bytes);
        match error {
            None => self.outcome.blocks_written += 1,
            Some(error) => {
                let cause = self.fail(folder, &error);
                self.miss(cause, frames.saturating_sub(written));
            }
        }
    }

    fn miss(&mut self, cause: Cause, frames: u64) {
        add_frames(&mut self.outcome.missed, cause, frames);
    }

    /// Notes that a folder takes nothing more.
    fn fail(&mut self, folder: usize, error: &StoreError) -> Cause {
        let cause = if error.is_disk_full() { Cause::DiskFull } else { Cause::WriteFailed };
        self.failed.push((folder, cause));
        self.outcome.errors.push(error.to_string());
        cause
    }

    fn works(&self, folder: usize) -> bool {
        self.failed.iter().all(|(failed, _)| *failed != folder)
    }

    /// The file for a ring block: the one that has it; else the one with the nearest number below,
    /// as the dead writer would have gone on; else one that was made ready; else a new one. `None`
    /// if no folder is left that takes it.
    fn place(&mut self, folders: &[Folder], number: u64) -> Option<usize> {
        loop {
            let works = |folder: &usize| self.works(*folder);
            let files = self.files.iter().enumerate().filter(|(_, (folder, _))| works(folder));
            let has_it = files.clone().find(|(_, (_, file))| file.slot_of(number).is_some());
            let free = files.clone().filter(|(_, (_, file))| file.takes(number));
            let nearest = free.max_by_key(|(_, (_, file))| {
                (file.last, !file.is_spare(), std::cmp::Reverse(file.sequence()))
            });
            if let Some((place, _)) = has_it.or(nearest) {
                return Some(place);
            }
            let (_, (folder, other)) = files.max_by_key(|(_, (_, file))| file.last)?;
            let folder = *folder;
            let sequence =
                self.files.iter().map(|(_, file)| file.sequence().saturating_add(1)).max()?;
            match folders[folder].create(self.run, self.end.interface, sequence, other) {
                Ok(file) => self.files.push((folder, file)),
                Err(error) => _ = self.fail(folder, &error),
            }
        }
    }

    fn close(self) -> Outcome {
        let mut outcome = self.outcome;
        for (_, file) in self.files {
            outcome.errors.extend(file.finish().err().map(|error| error.to_string()));
        }
        outcome
    }
}
