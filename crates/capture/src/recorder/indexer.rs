//! Indexes of the files while they are written: a thread of its own, which cannot hold a recording
//! up.
//!
//! It copies complete ring blocks out of the ring, in which they stay until the lane comes round to
//! them, and holds none of them. If it is too slow for that, or for its queue, the rest of the file
//! has no index yet: that is counted, and left to `ringside index` ([`Growing`] is of what came
//! before). The thread runs only where nothing else wants to.

use super::file::OpenFile;
use super::{Recording, Shared};
use crate::start::{RunError, spawn};
use ringside_core::Shown;
use ringside_index::Growing;
use ringside_ring::{RingView, ToldRun};
use ringside_sys::thread::{allowed_cpus, pin_to_cpus, yield_to_all};
use serde::Serialize;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::{Thread, park_timeout, sleep};
use std::time::{Duration, Instant};

/// Files whose indexes are made at the same time: each holds some MiB and three descriptors.
const FILES_MAX: usize = 64;
/// Bytes of files that the index thread has open: retention may delete them meanwhile, and does not
/// get their space back before. Above it a lane has two files: one that grows, one that ended.
const FILES_BYTES_MAX: u64 = 1 << 30;
/// How often the index of a file that grows is written anew, so that a search has little to read
/// that is in none.
const REFRESH: Duration = Duration::from_secs(1);
/// Bytes of an index that are written in a second at most: of a file of 1 GiB all of them.
const REFRESH_BYTES_PER_SECOND: u64 = 4 << 20;
/// Longest sleep; what there is to do wakes the thread before.
const PAUSE: Duration = Duration::from_secs(10);
/// How long the end of a run waits for the ring block at which the thread is, which takes
/// milliseconds: where others take all CPUs the thread may not get its turn.
pub(super) const TURN_MAX: Duration = Duration::from_secs(5);
/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// What was made of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexSummary {
    /// Files with the index of all of them.
    pub files: u64,
    /// Files whose index is of their beginning at most.
    pub left: u64,
    /// Bytes of the indexes of whole files.
    pub bytes: u64,
}

/// How the threads of a recorder reach the index thread. None of this waits.
pub(super) struct Indexing {
    begun: Sender<Arc<OpenFile>>,
    /// Files that are with the index thread.
    held: AtomicUsize,
    held_max: usize,
    /// Files that it has left, or did not take.
    left: AtomicU64,
    /// Files that have the index of all of them, and the bytes of these.
    made: AtomicU64,
    made_bytes: AtomicU64,
    thread: OnceLock<Thread>,
    closing: AtomicBool,
}

impl Indexing {
    /// A file that was begun is to have an index.
    pub(super) fn begin(&self, file: &Arc<OpenFile>) {
        if self.held.fetch_add(1, Ordering::AcqRel) < self.held_max
            && self.begun.send(file.clone()).is_ok()
        {
            return;
        }
        self.held.fetch_sub(1, Ordering::AcqRel);
        self.left.fetch_add(1, Ordering::AcqRel);
        file.feed.leave();
    }

    /// There is something to do.
    pub(super) fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn summary(&self) -> IndexSummary {
        IndexSummary {
            files: self.made.load(Ordering::Acquire),
            left: self.left.load(Ordering::Acquire),
            bytes: self.made_bytes.load(Ordering::Acquire),
        }
    }
}

/// The index thread, from outside.
pub(super) struct IndexThread {
    indexing: Arc<Indexing>,
    pub(super) work: Arc<Mutex<Option<Indexer>>>,
}

impl IndexThread {
    /// Starts it.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(indexer: Indexer) -> Result<IndexThread, RunError> {
        let indexing = indexer.indexing();
        let work = Arc::new(Mutex::new(Some(indexer)));
        let (theirs, indexing_too) = (work.clone(), indexing.clone());
        spawn("index", move || run(&theirs, &indexing_too))?;
        Ok(IndexThread { indexing, work })
    }

    /// Makes what is left, when all files are finished: here, because the thread may have to wait
    /// for its turn. The ring stands still by then. If the thread does not come to its turn within
    /// `turn_max` either, the files that it has are left. None if it died.
    pub(super) fn finish(self, turn_max: Duration) -> Option<IndexSummary> {
        self.indexing.closing.store(true, Ordering::Release);
        self.indexing.wake();
        let deadline = Instant::now() + turn_max;
        loop {
            match self.work.try_lock() {
                Ok(mut work) => {
                    work.take()?.finish();
                    return Some(self.indexing.summary());
                }
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let mut summary = self.indexing.summary();
                    summary.left += self.indexing.held.load(Ordering::Acquire) as u64;
                    return Some(summary);
                }
            }
        }
    }
}

/// What the thread does until its work is taken from it.
fn run(work: &Mutex<Option<Indexer>>, indexing: &Indexing) {
    let _ = indexing.thread.set(std::thread::current());
    let locked = || work.lock().unwrap_or_else(PoisonError::into_inner);
    #[cfg(test)]
    let _ = { locked().as_mut().and_then(|it| it.gate.take()) }.map(|gate| gate.recv());
    locked().iter().for_each(Indexer::take_place);
    while !indexing.is_closing() {
        let mut held = locked();
        let Some(indexer) = held.as_mut() else { return };
        if !indexer.pass() {
            let pause = indexer.pause();
            drop(held);
            park_timeout(pause);
        }
    }
}

/// What the index thread does.
pub(super) struct Indexer {
    shared: Arc<Shared>,
    indexing: Arc<Indexing>,
    begun: Receiver<Arc<OpenFile>>,
    view: Arc<RingView>,
    jobs: Vec<Job>,
    block: Vec<u8>,
    /// CPUs that no worker is pinned to; empty leaves the thread to the scheduler.
    cpus: Vec<usize>,
    /// The thread waits for it.
    #[cfg(test)]
    pub(super) gate: Option<Receiver<()>>,
}

/// A file whose index is made.
struct Job {
    file: Arc<OpenFile>,
    growing: Growing,
    /// Ring blocks that are to be added next.
    run: Option<ToldRun>,
    /// Ring blocks that were added, and how many there were when the index was written last.
    added: u64,
    written: u64,
    /// When it may be written again.
    due: Instant,
}

/// How it stands with a file.
enum Course {
    /// A ring block was added.
    Progress,
    /// There is nothing to add now.
    Waits,
    /// It has its index.
    Done,
    /// Its index is left to others.
    Left,
}

impl Indexer {
    /// Of the files of a recorder whose ring `view` shows. The thread keeps off the workers' CPUs.
    pub(super) fn new(shared: Arc<Shared>, view: Arc<RingView>, worker_cpus: &[usize]) -> Indexer {
        let mut cpus = allowed_cpus().unwrap_or_default();
        cpus.retain(|cpu| !worker_cpus.is_empty() && !worker_cpus.contains(cpu));
        let (sender, begun) = channel();
        let indexing = Arc::new(Indexing {
            begun: sender,
            held: AtomicUsize::new(0),
            held_max: files_max(&shared),
            left: AtomicU64::new(0),
            made: AtomicU64::new(0),
            made_bytes: AtomicU64::new(0),
            thread: OnceLock::new(),
            closing: AtomicBool::new(false),
        });
        Indexer {
            shared,
            indexing,
            begun,
            view,
            jobs: Vec::new(),
            block: Vec::new(),
            cpus,
            #[cfg(test)]
            gate: None,
        }
    }

    /// What the other threads have of it.
    pub(super) fn indexing(&self) -> Arc<Indexing> {
        self.indexing.clone()
    }

    /// Has the calling thread run only where nothing else wants to.
    fn take_place(&self) {
        let placed = if self.cpus.is_empty() { Ok(()) } else { pin_to_cpus(&self.cpus) };
        if let Err(error) = placed.and_then(|()| yield_to_all()) {
            tracing::warn!("{error}; the index thread competes with others for its CPU");
        }
    }

    fn finish(mut self) {
        while self.pass() {}
        for job in std::mem::take(&mut self.jobs) {
            self.leave(job);
        }
    }

    /// Adds a ring block to each index that has one to add. False if that is none.
    fn pass(&mut self) -> bool {
        while let Ok(file) = self.begun.try_recv() {
            self.jobs.push(Job::new(file, &self.shared));
        }
        let mut progress = false;
        for mut job in std::mem::take(&mut self.jobs) {
            match self.step(&mut job) {
                Course::Progress => progress = true,
                Course::Waits => {}
                Course::Done => {
                    self.indexing.made.fetch_add(1, Ordering::AcqRel);
                    self.indexing.made_bytes.fetch_add(job.growing.bytes(), Ordering::AcqRel);
                    self.indexing.held.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                Course::Left => {
                    self.leave(job);
                    continue;
                }
            }
            self.jobs.push(job);
        }
        progress
    }

    fn step(&mut self, job: &mut Job) -> Course {
        // Before the look at the queue: that is all then.
        let is_finished = job.file.feed.is_finished();
        if job.file.feed.is_left() {
            return Course::Left;
        }
        let Some(run) = job.run.take().or_else(|| job.file.feed.take()) else {
            return match is_finished {
                true => job.finish(&mut self.block),
                false => job.refresh(),
            };
        };
        let lane = job.file.lane;
        let there = self.view.copy_block(lane, run.sequence, &mut self.block);
        let block_bytes = job.file.series.block_bytes();
        let is_whole = there.is_some_and(|it| it.closed && it.bytes as u64 == block_bytes);
        if !is_whole || job.add(&self.block).is_err() {
            return Course::Left;
        }
        let (sequence, blocks) = (run.sequence + 1, run.blocks - 1);
        job.run = (blocks > 0).then_some(ToldRun { sequence, blocks });
        match job.refresh() {
            Course::Waits => Course::Progress,
            other => other,
        }
    }

    /// Leaves the index of a file to others, but for its beginning.
    fn leave(&mut self, mut job: Job) {
        job.file.feed.leave();
        self.indexing.held.fetch_sub(1, Ordering::AcqRel);
        if job.file.series.entry().is(job.file.series.file()) {
            self.indexing.left.fetch_add(1, Ordering::AcqRel);
            if job.added > job.written {
                // Best effort: it is of use for what it covers.
                let _ = job.write(false);
            }
        }
    }

    /// How long there is nothing to do, unless somebody wakes it.
    fn pause(&self) -> Duration {
        let due = self.jobs.iter().filter(|job| job.added > job.written).map(|job| job.due);
        let due = due.min().map(|due| due.saturating_duration_since(Instant::now()));
        due.unwrap_or(PAUSE).min(PAUSE)
    }
}

/// Files that the index thread may have at the same time.
fn files_max(shared: &Shared) -> usize {
    let bytes = shared.recording.rotation.bytes.unwrap_or(u64::MAX).max(1);
    let open = shared.lanes.len() * shared.gone.len();
    let small = usize::try_from(FILES_BYTES_MAX / bytes).unwrap_or(usize::MAX);
    small.max(2 * open).min(FILES_MAX)
}

impl Job {
    fn new(file: Arc<OpenFile>, shared: &Shared) -> Job {
        let Recording { run, interfaces, .. } = &*shared.recording;
        let lane = shared.lanes[file.lane].id;
        let growing = Growing::new(run, lane, file.series.sequence(), interfaces);
        let due = Instant::now() + REFRESH;
        Job { file, growing, run: None, added: 0, written: 0, due }
    }

    /// Adds the next ring block of the file.
    fn add(&mut self, block: &[u8]) -> Result<(), ringside_index::NoBlock> {
        self.growing.add(self.file.series.block_offset(self.added), block)?;
        self.added += 1;
        Ok(())
    }

    /// Writes the index of what there is so far, if that is due.
    fn refresh(&mut self) -> Course {
        if self.added == self.written || Instant::now() < self.due {
            return Course::Waits;
        }
        self.write(false).map_or_else(|error| self.failed(&error), |()| Course::Waits)
    }

    /// Writes the index of a file that is whole.
    fn finish(&mut self, block: &mut Vec<u8>) -> Course {
        if self.added != self.file.complete() || self.add_rest(block).is_err() {
            return Course::Left;
        }
        self.write(true).map_or_else(|error| self.failed(&error), |()| Course::Done)
    }

    /// Adds what follows the complete ring blocks: a part of one, which its writer wrote itself.
    fn add_rest(&mut self, block: &mut Vec<u8>) -> io::Result<()> {
        let series = &self.file.series;
        let (start, end) = (series.block_offset(self.added), self.file.end());
        let bytes = end.saturating_sub(start);
        if bytes > series.block_bytes() {
            return Err(io::Error::other("more than a ring block"));
        }
        if bytes > 0 {
            block.clear();
            block.resize(bytes as usize, 0);
            series.file().read_exact_at(block, start)?;
            self.growing.add(start, block).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn write(&mut self, is_finished: bool) -> io::Result<()> {
        let series = &self.file.series;
        self.growing.write(series.entry(), series.file(), is_finished)?;
        self.written = self.added;
        let by_size = Duration::from_secs(self.growing.bytes() / REFRESH_BYTES_PER_SECOND);
        self.due = Instant::now() + REFRESH.max(by_size);
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> Course {
        let series = &self.file.series;
        if series.entry().is(series.file()) {
            tracing::warn!("cannot write the index of {}: {error}", series.path().shown());
        }
        Course::Left
    }
}
