//! The writer of a directory: one thread that serves all lanes in turn.
//!
//! A lane has one write in flight here, of as many closed blocks as lie ready, up to a limit that
//! was tuned on the disk: file systems let one write at a time extend a file, so one large write
//! is as fast as several small ones, and it keeps the file's visible size valid. With several
//! directories the lane's next blocks go to whichever writer is free.

use super::buffer::{PAGE_BYTES, PageBuffer};
use super::file::{LaneFile, Part, Spare, short_bytes};
use super::folder::{Folder, remove_unused};
use super::lane::{Asker, Rest, Taken};
use super::queue::Queue;
use super::{QueueSetup, Shared};
use crate::output::FileList;
use ringside_core::{Cause, Shown};
use ringside_ring::{Claim, ToldRun};
use ringside_store::{StoreError, block};
use ringside_sys::bell::Bell;
use ringside_sys::uring::{Completion, WRITES_MAX};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest time that a published frame waits for its block to be full before it is written. With
/// `POLL`, what a worker holds back and the time that `find` takes, it is found within a second.
const WRITE_INTERVAL: Duration = Duration::from_millis(600);
/// How often a writer looks for published bytes when no thread wakes it.
const POLL: Duration = Duration::from_millis(100);
/// How long the end of writes is waited for while the kernel refuses to tell it: longer than a lack
/// of memory lasts. A disk that hangs is waited for without a limit: there it does not refuse.
const REFUSED_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// What a writer is made from.
pub(super) struct WriterSetup {
    pub(super) directory: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) folder: Arc<Folder>,
    /// Ring blocks of one write.
    pub(super) write_blocks: usize,
    /// The first file of each lane.
    pub(super) files: Vec<LaneFile>,
    pub(super) queue: QueueSetup,
    /// CPUs local to the disk, where that makes a difference.
    pub(super) cpus: Vec<usize>,
}

/// The writer, on its thread.
struct Writer {
    directory: usize,
    shared: Arc<Shared>,
    folder: Arc<Folder>,
    write_blocks: usize,
    queue: Queue,
    slots: Vec<Slot>,
    /// The lane that is served first.
    first: usize,
    buffer: PageBuffer,
    /// Set after the first error: nothing more is written here.
    failed: Option<Cause>,
    /// Since when the kernel has refused to tell of writes.
    refused_since: Option<Instant>,
}

/// A lane as this writer sees it.
struct Slot {
    file: Option<LaneFile>,
    /// The file that was made ready to follow the last one.
    spare: Option<Spare>,
    in_flight: Option<InFlight>,
    /// Frames that were taken from the lane and are in no account yet.
    unsettled: u64,
    /// Their blocks, while the queue does not have them.
    held: Option<Claim>,
    /// When published bytes of the open block were first seen that are in no file.
    unwritten_since: Option<Instant>,
    /// The rotation's period that the file belongs to.
    period: u64,
    names: FileList,
}

/// What became of a write; with an error, how many of the frames are in the file nevertheless.
type Outcome = Result<(), (StoreError, u64)>;

/// A write of closed blocks.
struct InFlight {
    /// Byte of the claim at which it began.
    from: usize,
    /// Frames of the claim that are in the account already.
    frames_before: u64,
}

impl WriterSetup {
    /// Runs until every lane has ended; returns the files of each lane.
    pub(super) fn run(self) -> Vec<FileList> {
        if !self.cpus.is_empty()
            && let Err(error) = ringside_sys::thread::pin_to_cpus(&self.cpus)
        {
            tracing::warn!("{error}; the writer runs where the scheduler puts it");
        }
        let slot = |file: LaneFile| Slot {
            names: FileList::of(file.path()),
            file: Some(file),
            spare: None,
            in_flight: None,
            unsettled: 0,
            held: None,
            unwritten_since: None,
            period: 0,
        };
        let writer = Writer {
            directory: self.directory,
            write_blocks: self.write_blocks,
            queue: self.queue.enable(),
            slots: self.files.into_iter().map(slot).collect(),
            // An open block that ends just before its end may need a page more for the padding.
            buffer: PageBuffer::new(self.shared.recording.block_bytes + PAGE_BYTES),
            first: 0,
            failed: None,
            refused_since: None,
            folder: self.folder,
            shared: self.shared,
        };
        writer.run()
    }
}

impl Writer {
    fn run(mut self) -> Vec<FileList> {
        // A panic fails the recording into this directory like any other error: what is in flight
        // is awaited, and the lanes are served until they end. A second one ends the thread.
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {
            self.give_up("the writer died");
            self.work();
        }
        let mut names = Vec::new();
        for mut slot in std::mem::take(&mut self.slots) {
            let next = slot.file.take().and_then(|file| self.folder.end(file));
            for spare in slot.spare.into_iter().chain(next) {
                remove_unused(&spare.series);
            }
            names.push(slot.names);
        }
        names
    }

    /// Serves the lanes until all have ended.
    fn work(&mut self) {
        let shared = self.shared.clone();
        let bell = shared.bells.of(self.directory);
        loop {
            if self.pass() {
                continue;
            }
            if self.is_done() {
                break;
            }
            bell.listen();
            if !self.pass() {
                self.wait(bell, self.pause());
            }
            bell.stop_listening();
        }
    }

    /// Waits until there may be something to do. If the kernel refuses, this fails the directory,
    /// and waits nevertheless: files are ended, and frames accounted for, only when nothing is in
    /// flight any more.
    fn wait(&mut self, bell: &Bell, pause: Duration) {
        let Err(error) = self.queue.wait(bell, pause) else {
            self.refused_since = None;
            return;
        };
        let context = format!("cannot wait for writes to {}", self.folder.dir.path().shown());
        self.fail(&StoreError::Io { context, source: error });
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if since.elapsed() > REFUSED_MAX && self.queue.in_flight() > 0 {
            self.lose_in_flight();
        } else {
            bell.wait(pause);
        }
    }

    /// No completion will say what became of the writes in flight: their frames are missed, and
    /// their files are left to a repair, because cutting them could meet a write.
    fn lose_in_flight(&mut self) {
        self.queue.abandon();
        for lane in 0..self.slots.len() {
            let slot = &mut self.slots[lane];
            if slot.in_flight.take().is_some() {
                if let Some(file) = slot.file.take() {
                    self.folder.abandon(file);
                }
                self.settle_rest(lane, Cause::WriteFailed);
            }
        }
    }

    /// After a panic: fails, awaits what is in flight, and accounts for what was being dealt with.
    fn give_up(&mut self, what: &str) {
        let context = format!("{what} of {}", self.folder.dir.path().shown());
        self.fail(&StoreError::Io { context, source: std::io::Error::other("it panicked") });
        let shared = self.shared.clone();
        let bell = shared.bells.of(self.directory);
        while self.queue.in_flight() > 0 {
            while let Some(completion) = self.queue.next_completion() {
                self.complete(completion);
            }
            if self.queue.in_flight() > 0 {
                self.wait(bell, POLL);
            }
        }
        for lane in 0..self.slots.len() {
            self.slots[lane].in_flight = None;
            self.settle_rest(lane, Cause::WriteFailed);
        }
    }

    /// What was taken of a lane and is in no account is missed.
    fn settle_rest(&mut self, lane: usize, cause: Cause) {
        let slot = &mut self.slots[lane];
        let (held, missed) = (slot.held.take(), std::mem::take(&mut slot.unsettled));
        self.shared.lanes[lane].settle(held, 0, (cause, missed));
    }

    /// Takes in what has ended and begins what can be begun. True if that was anything.
    fn pass(&mut self) -> bool {
        let mut progress = false;
        while let Some(completion) = self.queue.next_completion() {
            self.complete(completion);
            progress = true;
        }
        // Each time another lane is the first: none waits for ever where there are more lanes than
        // the queue takes writes.
        let lanes = self.slots.len();
        self.first = (self.first + 1) % lanes.max(1);
        for lane in (self.first..lanes).chain(0..self.first) {
            if self.slots[lane].in_flight.is_none() && self.queue.in_flight() < WRITES_MAX {
                progress |= self.serve(lane);
            }
        }
        if progress && let Err(error) = self.queue.submit() {
            tracing::warn!("{error}; the writes wait for the next look");
        }
        progress
    }

    fn serve(&mut self, lane: usize) -> bool {
        if let Some(cause) = self.failed {
            let nobody_writes = self.shared.writers.load(Ordering::Acquire) == 0;
            return self.shared.lanes[lane].discard(self.asker(), nobody_writes, cause);
        }
        match self.write_lane(lane) {
            Ok(progress) => progress,
            Err(error) => {
                // What was taken and did not get to a write.
                self.settle_rest(lane, cause_of(&error));
                self.fail(&error);
                true
            }
        }
    }

    /// Begins a write of the lane's closed blocks; if there are none, looks at its open one.
    fn write_lane(&mut self, lane: usize) -> Result<bool, StoreError> {
        self.replace_deleted(lane)?;
        let shared = self.shared.clone();
        let feed = &shared.lanes[lane];
        if feed.is_waiting(self.asker()) {
            let is_due = shared.control.rotation() != self.slots[lane].period;
            // The block that a rotation closed comes alone: it may be short.
            let most = if is_due { 1 } else { self.write_blocks };
            let room = self.file(lane)?.room_blocks();
            if let Some(taken) = feed.take(self.asker(), room.min(most)) {
                self.slots[lane].unwritten_since = None;
                let short = if is_due { short_bytes(taken.claim.bytes()) } else { None };
                return match short {
                    Some(bytes) => self.write_short(lane, taken, bytes),
                    None => self.write(lane, taken),
                }
                .map(|()| true);
            }
        }
        let rest = feed.rest(self.asker());
        let slot = &mut self.slots[lane];
        match rest {
            Rest::Nothing | Rest::Ended => {
                slot.unwritten_since = None;
                self.rotate_idle(lane);
                Ok(false)
            }
            Rest::Open => {
                let since = *slot.unwritten_since.get_or_insert_with(Instant::now);
                if since.elapsed() < WRITE_INTERVAL {
                    return Ok(false);
                }
                self.write_open(lane, false).map(|()| true)
            }
            Rest::Final => self.write_open(lane, true).map(|()| true),
        }
    }

    /// Goes on in another file if the lane's was deleted. A block that was begun there is still in
    /// the ring and is written anew, from its start.
    fn replace_deleted(&mut self, lane: usize) -> Result<(), StoreError> {
        let slot = &mut self.slots[lane];
        if let Some(file) = slot.file.take_if(|file| file.shared.is_deleted()) {
            slot.spare = self.folder.end(file);
            self.file(lane)?;
        }
        Ok(())
    }

    fn write(&mut self, lane: usize, taken: Taken) -> Result<(), StoreError> {
        let Taken { claim, begun } = taken;
        let (sequence, blocks) = (claim.first_sequence(), claim.blocks());
        let (frames, slot) = (claim.frames(), &mut self.slots[lane]);
        slot.unsettled = frames - begun.frames;
        slot.held = Some(claim);
        let file = self.file(lane)?;
        let handle = file.handle().clone();
        let start = file.begin_write(sequence, blocks)?;
        let slot = &mut self.slots[lane];
        slot.in_flight = Some(InFlight { from: start.from, frames_before: begun.frames });
        let Some(claim) = slot.held.take() else { return Ok(()) };
        if let Some(file) = slot.file.as_ref().filter(|_| start.is_room) {
            // Memory takes it at once, so there is nothing to queue.
            let (written, result) = file.fill_room(claim.bytes(), start);
            self.complete(Completion { token: lane as u64, claim, written, result });
        } else {
            self.queue.write(&handle, claim, start.from, start.offset, lane as u64);
        }
        Ok(())
    }

    /// Writes a closed block without its padding, and ends the file with it: a quiet lane's
    /// rotation costs what is in it, not a ring block.
    fn write_short(&mut self, lane: usize, taken: Taken, bytes: usize) -> Result<(), StoreError> {
        let Taken { claim, begun } = taken;
        let (sequence, slot) = (claim.first_sequence(), &mut self.slots[lane]);
        slot.unsettled = claim.frames() - begun.frames;
        let claim = slot.held.insert(claim);
        let Some(file) = &mut slot.file else { return Ok(()) };
        let again = if file.has_begun_block() { 0 } else { begun.frames };
        let part = file.copy_part(&claim.bytes()[..bytes], &mut self.buffer);
        let outcome = file.write_part(sequence, part, &self.buffer);
        self.settle(lane, outcome.map_err(|(error, kept)| (error, kept.saturating_sub(again))))?;
        self.rotate_if_due(lane);
        Ok(())
    }

    fn complete(&mut self, completion: Completion<Claim>) {
        let Completion { token, claim, written, result } = completion;
        let lane = token as usize;
        let slot = &mut self.slots[lane];
        let (Some(in_flight), Some(file)) = (&slot.in_flight, &mut slot.file) else { return };
        let (from, before) = (in_flight.from, in_flight.frames_before);
        let claim = slot.held.insert(claim);
        let outcome = match result {
            Ok(()) => {
                file.wrote(claim.blocks());
                let (sequence, blocks) = (claim.first_sequence(), claim.blocks() as u64);
                file.shared.feed.tell(ToldRun { sequence, blocks });
                self.folder.wake_indexer();
                Ok(())
            }
            Err(error) => {
                let error = file.shared.series.write_error(error);
                let kept = file.write_failed(claim.bytes(), from + written);
                let kept = block::frame_count(&claim.bytes()[..kept]);
                // Less, if it was to replace what lay in a file that was deleted.
                Err((error, kept.saturating_sub(before)))
            }
        };
        slot.in_flight = None;
        match self.settle(lane, outcome) {
            Ok(()) => self.rotate_if_due(lane),
            Err(error) => self.fail(&error),
        }
    }

    /// Accounts for what was taken of the lane: it is in the file, or as many frames of it are as
    /// the error tells.
    fn settle(&mut self, lane: usize, outcome: Outcome) -> Result<(), StoreError> {
        let slot = &mut self.slots[lane];
        let (claim, new) = (slot.held.take(), std::mem::take(&mut slot.unsettled));
        let (kept, result) = match outcome {
            Ok(()) => (new, Ok(())),
            Err((error, kept)) => (kept, Err(error)),
        };
        let cause = result.as_ref().err().map_or(Cause::WriteFailed, cause_of);
        self.shared.lanes[lane].settle(claim, kept, (cause, new - kept));
        result
    }

    /// Writes what is published of the lane's open block.
    fn write_open(&mut self, lane: usize, is_final: bool) -> Result<(), StoreError> {
        self.file(lane)?;
        let shared = self.shared.clone();
        let asker = Asker { directory: self.directory, gone: &shared.gone };
        let (slot, buffer) = (&mut self.slots[lane], &mut self.buffer);
        slot.unwritten_since = None;
        let Some(file) = &mut slot.file else { return Ok(()) };
        let is_begun = file.has_begun_block();
        let mut part: Option<(u64, Part)> = None;
        let frames = shared.lanes[lane].take_open(asker, is_final, |open| {
            part = Some((open.sequence, file.copy_part(open.bytes, buffer)));
        });
        let (Some(frames), Some((sequence, part))) = (frames, part) else { return Ok(()) };
        slot.unsettled = frames.new;
        let outcome = file.write_part(sequence, part, buffer);
        // As above: frames that were written before, to a file that was deleted.
        let again = if is_begun { 0 } else { frames.before };
        self.settle(lane, outcome.map_err(|(error, kept)| (error, kept.saturating_sub(again))))
    }

    /// The lane's open file; the next one of the series if none is open.
    fn file(&mut self, lane: usize) -> Result<&mut LaneFile, StoreError> {
        let slot = &mut self.slots[lane];
        if slot.file.is_none() {
            let spare = slot.spare.take().and_then(|spare| self.folder.name_spare(spare));
            let series = match spare {
                Some(series) => series,
                None => self.folder.create_at_once(&self.shared.lanes[lane])?,
            };
            slot.names.push(series.path().to_owned());
            slot.file = Some(self.folder.open(series, lane)?);
        }
        Ok(slot.file.as_mut().expect("set above"))
    }

    /// Ends the file at a block's border when it is full, or with its period.
    fn rotate_if_due(&mut self, lane: usize) {
        let slot = &mut self.slots[lane];
        let period = self.shared.control.rotation();
        let is_full = slot.file.as_ref().is_some_and(|file| file.room_blocks() == 0);
        if (is_full || period != slot.period)
            && let Some(file) = slot.file.take()
        {
            slot.spare = self.folder.end(file);
        } else if slot.file.as_mut().is_some_and(LaneFile::comes_into_use) {
            self.folder.wake();
        }
        slot.period = period;
    }

    /// Ends the file of a lane of which there is nothing to write, if its period is over.
    fn rotate_idle(&mut self, lane: usize) {
        let slot = &mut self.slots[lane];
        let period = self.shared.control.rotation();
        if slot.file.as_ref().is_none_or(LaneFile::is_empty) {
            slot.period = period;
        } else if period != slot.period
            && slot.file.as_ref().is_some_and(|file| !file.has_begun_block())
        {
            self.rotate_if_due(lane);
        }
    }

    /// The first error ends the recording into this directory; other directories take what is
    /// left, and the ledger goes on.
    fn fail(&mut self, error: &StoreError) {
        if self.failed.is_none() {
            self.failed = Some(cause_of(error));
            // Nothing is due here any more.
            self.slots.iter_mut().for_each(|slot| slot.unwritten_since = None);
            self.shared.writers.fetch_sub(1, Ordering::AcqRel);
            let text = format!("recording stopped: {error}; what is written stays valid");
            self.shared.control.fail(text);
            self.shared.bells.ring();
        }
    }

    /// True if all lanes have ended and nothing is in flight.
    fn is_done(&self) -> bool {
        self.queue.in_flight() == 0 && self.shared.lanes.iter().all(|lane| lane.has_ended())
    }

    /// How long there is nothing to do unless the bell rings.
    fn pause(&self) -> Duration {
        let since = self.slots.iter().filter_map(|slot| slot.unwritten_since);
        let left = since.map(|since| WRITE_INTERVAL.saturating_sub(since.elapsed()));
        left.min().unwrap_or(POLL).min(POLL)
    }

    fn asker(&self) -> Asker<'_> {
        Asker { directory: self.directory, gone: &self.shared.gone }
    }
}

impl Drop for Writer {
    /// Whatever ended it: the housekeeper ends, and other writers do not wait.
    fn drop(&mut self) {
        // Empty if it ended in order. Else the files stay for a repair, which the lock of the run
        // delays: writes may still be under way.
        for slot in &mut self.slots {
            slot.file.take().into_iter().for_each(|file| self.folder.abandon(file));
        }
        self.shared.gone[self.directory].store(true, Ordering::Release);
        self.folder.close();
        self.shared.bells.ring();
    }
}

fn cause_of(error: &StoreError) -> Cause {
    if error.is_disk_full() { Cause::DiskFull } else { Cause::WriteFailed }
}
