//! From the threads that add up to the one that writes.

use super::{Record, Sum};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Records on their way, some 2 MB: a tenth of a second of what a busy link has new ones.
const RECORDS_MAX: usize = 16_384;

/// How long a thread that may wait does so while the writer takes nothing. A pipe without a reader
/// is given up sooner once the run ends.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(1);

/// Whether a thread may wait for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Frames come meanwhile.
    None,
    /// Its frames wait too, or there are none any more.
    Some,
}

/// Records, and the frames that are in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestSums {
    /// Number of records.
    pub records: u64,
    /// Frames in them.
    pub frames: u64,
    /// Bytes of these on the wire.
    pub bytes: u64,
}

/// Why records were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestMiss {
    /// The writer was behind: the queue had no room for more.
    WriterBehind,
    /// The disk was full.
    DiskFull,
    /// Writing failed for another reason.
    WriteFailed,
    /// The other end of the pipe was closed.
    PipeClosed,
    /// The other end of the pipe did not read until the end of the run.
    PipeStalled,
}

impl DigestMiss {
    /// All of them.
    pub const ALL: [DigestMiss; 5] = [
        DigestMiss::WriterBehind,
        DigestMiss::DiskFull,
        DigestMiss::WriteFailed,
        DigestMiss::PipeClosed,
        DigestMiss::PipeStalled,
    ];

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            DigestMiss::WriterBehind => "writer_behind",
            DigestMiss::DiskFull => "disk_full",
            DigestMiss::WriteFailed => "write_failed",
            DigestMiss::PipeClosed => "pipe_closed",
            DigestMiss::PipeStalled => "pipe_stalled",
        }
    }
}

/// Where the frames are that rules digested: once the run is over, all are in records that were
/// written or missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestCounts {
    /// Frames that rules digested, and their bytes; records are not counted here.
    pub digested: DigestSums,
    /// What was written.
    pub written: DigestSums,
    /// What was not, by reason.
    pub missed: Vec<(DigestMiss, DigestSums)>,
}

/// The counts while they rise.
#[derive(Debug, Default)]
pub(super) struct Tally {
    digested: Rising,
    written: Rising,
    missed: [Rising; DigestMiss::ALL.len()],
}

#[derive(Debug, Default)]
struct Rising {
    records: AtomicU64,
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Rising {
    fn add(&self, more: &DigestSums) {
        self.records.fetch_add(more.records, Ordering::Relaxed);
        self.frames.fetch_add(more.frames, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
    }

    fn get(&self) -> DigestSums {
        let [records, frames, bytes] = [&self.records, &self.frames, &self.bytes]
            .map(|counter| counter.load(Ordering::Relaxed));
        DigestSums { records, frames, bytes }
    }
}

impl Tally {
    pub(super) fn write(&self, sums: &DigestSums) {
        self.written.add(sums);
    }

    pub(super) fn miss(&self, why: DigestMiss, sums: &DigestSums) {
        self.missed[why as usize].add(sums);
    }

    fn counts(&self) -> DigestCounts {
        let missed = DigestMiss::ALL.into_iter().zip(self.missed.iter().map(Rising::get));
        DigestCounts {
            digested: self.digested.get(),
            written: self.written.get(),
            missed: missed.filter(|(_, sums)| sums.records > 0).collect(),
        }
    }
}

/// Reads the counts while the run goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct DigestReader(Arc<Tally>);

impl DigestReader {
    pub(crate) fn counts(&self) -> DigestCounts {
        self.0.counts()
    }

    /// A queue whose records are counted here, and its other end.
    pub(super) fn queue(&self) -> (DigestQueue, Receiver<Record>) {
        let (sender, receiver) = sync_channel(RECORDS_MAX);
        let (tally, patience) = (self.0.clone(), Patience::None);
        (DigestQueue { sender, tally, patience, gave_up: Cell::new(false) }, receiver)
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.0
    }
}

/// One thread's end of the queue.
#[derive(Clone)]
pub(crate) struct DigestQueue {
    sender: SyncSender<Record>,
    tally: Arc<Tally>,
    patience: Patience,
    /// It has waited in vain, and waits no more.
    gave_up: Cell<bool>,
}

impl DigestQueue {
    /// The same for another thread.
    pub(crate) fn with(&self, patience: Patience) -> DigestQueue {
        DigestQueue { patience, ..self.clone() }
    }

    /// From now on there is time to wait.
    pub(super) fn be_patient(&mut self) {
        self.patience = Patience::Some;
    }

    /// Counts frames that were digested.
    pub(super) fn count(&self, frames: &DigestSums) {
        if frames.frames > 0 {
            self.tally.digested.add(frames);
        }
    }

    /// Hands over a record; counts it where there is no room.
    pub(super) fn put(&self, record: Record) {
        let mut record = record;
        let mut since = None;
        loop {
            record = match self.sender.try_send(record) {
                Ok(()) => return self.gave_up.set(false),
                // The writer ends after all who could ask it.
                Err(TrySendError::Full(record) | TrySendError::Disconnected(record)) => record,
            };
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if self.patience == Patience::None || self.gave_up.get() || waited > WAIT_MAX {
                self.gave_up.set(self.patience == Patience::Some);
                return self.tally.miss(DigestMiss::WriterBehind, &DigestSums::of(&record.sum));
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}

impl DigestSums {
    /// One record.
    pub(super) fn of(sum: &Sum) -> DigestSums {
        DigestSums { records: 1, frames: sum.frames, bytes: sum.bytes }
    }
}
