//! What the thread that finds records and the outlet's threads share: the batch that is being
//! filled, full ones in memory, and the status.

use crate::batch::Batch;
use crate::options::Options;
use crate::spool::Appended;
use crate::status::{State, Status};
use ringside_flow::RecordSums;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much longer than the outlet's own limit its end is waited for: a disk or a server that does
/// not answer must not hold up the run.
const GRACE: Duration = Duration::from_secs(1);

/// Longest sleep of a thread without work.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Something in it is new.
    changed: Condvar,
    run: u128,
    options: Options,
}

#[derive(Default)]
struct Inner {
    open: Open,
    /// In order, behind what is in the spool.
    full: VecDeque<Arc<Batch>>,
    /// Of their records and those of the open batch.
    bytes: usize,
    /// Batches that were begun.
    sequence: u64,
    /// The spool has something new.
    is_spool_new: bool,
    /// No batch will go to the spool any more.
    is_spooling_over: bool,
    /// Until when what is left should be delivered.
    closing: Option<Instant>,
    /// Nothing counts any more.
    is_over: bool,
    threads: usize,
    status: Status,
}

impl Inner {
    /// Nothing counts any more: what waits in memory is lost.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            let counts = &mut self.status.counts;
            counts.undelivered.take(&mut counts.waiting);
            self.full.clear();
            self.open = Open::default();
        }
    }
}

/// The batch that is being filled.
#[derive(Default)]
struct Open {
    body: Vec<u8>,
    held: RecordSums,
    since: Option<Instant>,
}

/// A thread of the outlet; says that it is over, also if it panicked.
pub(crate) struct AtWork(Arc<Desk>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.change(|inner| {
            inner.threads -= 1;
            // What it should have done will not be done: who waits for it must not.
            if std::thread::panicking() {
                inner.end();
            }
        });
    }
}

impl Desk {
    pub fn new(run: u128, status: Status, options: Options) -> Desk {
        let inner = Mutex::new(Inner { status, ..Inner::default() });
        Desk { inner, changed: Condvar::new(), run, options }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, at most for `time`.
    fn wait<'i>(&self, inner: MutexGuard<'i, Inner>, time: Duration) -> MutexGuard<'i, Inner> {
        let waited = self.changed.wait_timeout(inner, time.min(SLEEP_MAX));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// A record comes.
    pub fn put(&self, record: &[u8], held: RecordSums) {
        let mut inner = self.lock();
        let is_full = |inner: &Inner| inner.bytes + record.len() > self.options.queue_bytes;
        // With a spool there will be room: the disk takes what comes, or has it dropped.
        let may_wait = |inner: &Inner| {
            let is_away = inner.status.state == State::Away && self.options.spool.is_none();
            self.options.waits_for_room && !is_away && !inner.is_over && inner.threads > 0
        };
        while is_full(&inner) && may_wait(&inner) {
            inner = self.wait(inner, SLEEP_MAX);
        }
        if inner.is_over {
            inner.status.counts.undelivered += held;
            return;
        }
        if is_full(&inner) {
            inner.status.counts.queue_full += held;
            return;
        }
        inner.status.counts.waiting += held;
        inner.bytes += record.len();
        let is_first = inner.open.since.is_none();
        inner.open.since.get_or_insert_with(Instant::now);
        inner.open.body.extend_from_slice(record);
        inner.open.held += held;
        let is_batch = inner.open.held.records >= self.options.batch_records
            || inner.open.body.len() >= self.options.batch_bytes;
        if is_batch {
            self.fill(&mut inner);
        }
        drop(inner);
        if is_first || is_batch {
            self.changed.notify_all();
        }
    }

    /// The format has no way to say a record.
    pub fn inexpressible(&self, held: RecordSums) {
        self.lock().status.counts.inexpressible += held;
    }

    /// The open batch is full, or is to go as it is.
    fn fill(&self, inner: &mut Inner) {
        let Open { body, held, since } = std::mem::take(&mut inner.open);
        if since.is_some() {
            inner.sequence += 1;
            let batch = Batch { run: self.run, sequence: inner.sequence, held, body };
            inner.full.push_back(Arc::new(batch));
        }
    }

    /// No record will come; what is there has so long to be delivered. Waits for that.
    pub fn close(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut inner = self.lock();
        inner.closing.get_or_insert(until);
        self.changed.notify_all();
        while !inner.is_over && inner.threads > 0 {
            let left = (until + GRACE).saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.wait(inner, left);
        }
        inner.end();
        drop(inner);
        self.changed.notify_all();
    }

    pub fn status(&self) -> Status {
        self.lock().status.clone()
    }

    pub fn change_status(&self, change: impl FnOnce(&mut Status)) {
        self.change(|inner| change(&mut inner.status));
    }
}

/// The outlet's threads.
impl Desk {
    /// A thread is about to start.
    pub fn at_work(self: &Arc<Desk>) -> AtWork {
        self.change(|inner| inner.threads += 1);
        AtWork(Arc::clone(self))
    }

    /// Waits for a batch in memory, which stays there until it is [`taken`](Desk::taken); `None` if
    /// there will not be one.
    pub fn next_batch(&self) -> Option<Arc<Batch>> {
        let mut inner = self.lock();
        loop {
            let age = inner.open.since.map(|since| since.elapsed());
            let is_due = age.is_some_and(|age| age >= self.options.batch_age);
            if inner.full.is_empty() && (is_due || inner.closing.is_some()) {
                self.fill(&mut inner);
            }
            if inner.is_over {
                return None;
            }
            if let Some(first) = inner.full.front() {
                return Some(Arc::clone(first));
            }
            if inner.closing.is_some() {
                return None;
            }
            let left = age.map_or(SLEEP_MAX, |age| self.options.batch_age.saturating_sub(age));
            inner = self.wait(inner, left);
        }
    }

    /// The first batch in memory is there no more; `change` says what became of its records. False
    /// if the run is over, and nothing counts.
    pub fn taken(&self, batch: &Batch, change: impl FnOnce(&mut Status)) -> bool {
        self.change(|inner| {
            if inner.is_over {
                return false;
            }
            inner.full.pop_front();
            inner.bytes -= batch.body.len();
            inner.status.counts.waiting -= batch.held;
            change(&mut inner.status);
            true
        })
    }

    /// A batch was to go to the spool. False if the run is over, and nothing counts.
    pub fn appended(&self, batch: &Batch, appended: Appended, spool_bytes: u64) -> bool {
        let Appended { is_kept, dropped } = appended;
        let counts = self.taken(batch, |status| {
            let counts = &mut status.counts;
            counts.spooled -= dropped;
            counts.spool_full += dropped;
            match is_kept {
                Ok(true) => counts.spooled += batch.held,
                Ok(false) => counts.spool_full += batch.held,
                Err(error) => {
                    counts.write_failed += batch.held;
                    status.spool_error = Some(error.to_string());
                }
            }
            status.spool_bytes = spool_bytes;
        });
        self.change(|inner| inner.is_spool_new = true);
        counts
    }

    /// No batch will go to the spool any more.
    pub fn spooling_over(&self) {
        self.change(|inner| inner.is_spooling_over = true);
    }

    /// Waits until the spool may have something new; false if it will not.
    pub fn wait_for_spool(&self) -> bool {
        let mut inner = self.lock();
        while !inner.is_spool_new && !inner.is_spooling_over && !inner.is_over {
            inner = self.wait(inner, SLEEP_MAX);
        }
        std::mem::take(&mut inner.is_spool_new) && !inner.is_over
    }

    /// Changes the status for a batch of the spool, unless the run is over: then the batch stays.
    pub fn settle(&self, change: impl FnOnce(&mut Status)) -> bool {
        self.change(|inner| {
            if !inner.is_over {
                change(&mut inner.status);
            }
            !inner.is_over
        })
    }

    /// How long a try to deliver may take now; `None` if there is no time for one.
    pub fn time_for_try(&self) -> Option<Duration> {
        let inner = self.lock();
        let time = match inner.closing {
            None => self.options.try_time,
            Some(until) => {
                until.saturating_duration_since(Instant::now()).min(self.options.try_time)
            }
        };
        (!inner.is_over && !time.is_zero()).then_some(time)
    }

    /// Waits between two tries. If the end has come since it `was_closing`, one is made at once.
    pub fn pause(&self, time: Duration, was_closing: bool) {
        let until = Instant::now() + time;
        let mut inner = self.lock();
        while !inner.is_over && inner.closing.is_some() == was_closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            inner = self.wait(inner, left);
        }
    }

    pub fn is_closing(&self) -> bool {
        self.lock().closing.is_some()
    }
}
