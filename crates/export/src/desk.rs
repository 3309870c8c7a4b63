//! What the meter's thread and an outlet's thread share: the queue of messages, and the status.

use crate::message::Message;
use crate::status::{State, Status};
use ringside_flow::RecordSums;
use ringside_sys::bell::Bell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes that an outlet's thread takes at once.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Longest sleep of a thread that waits for messages alone: a bell that was missed costs so much.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// How much longer than the outlet's own limit its end is waited for: a call of the system that
/// does not come back must not hold the meter.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// There is room again, or none will come.
    changed: Condvar,
    /// Wakes the outlet's thread.
    pub bell: Bell,
    queue_bytes: usize,
    pub waits_for_room: bool,
}

struct Inner {
    queue: VecDeque<Message>,
    bytes: usize,
    /// Until when what is left should be delivered.
    closing: Option<Instant>,
    is_done: bool,
    wants_templates: bool,
    /// Records that do not fill a message yet, as of the last tick.
    unfinished: RecordSums,
    status: Status,
}

impl Desk {
    pub fn new(bell: Bell, status: Status, queue_bytes: usize, waits_for_room: bool) -> Desk {
        let inner = Inner {
            queue: VecDeque::new(),
            bytes: 0,
            closing: None,
            is_done: false,
            wants_templates: false,
            unfinished: RecordSums::default(),
            status,
        };
        let (inner, changed) = (Mutex::new(inner), Condvar::new());
        Desk { inner, changed, bell, queue_bytes, waits_for_room }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meter's side: a message comes.
    pub fn put(&self, bytes: &[u8], held: RecordSums) {
        let message = Message { bytes: bytes.to_vec(), held };
        let mut inner = self.lock();
        inner.unfinished = RecordSums::default();
        let is_full = |inner: &Inner| {
            !inner.queue.is_empty() && inner.bytes + message.cost() > self.queue_bytes
        };
        let may_wait = |inner: &Inner| {
            self.waits_for_room && !inner.is_done && inner.status.state != State::Away
        };
        while is_full(&inner) && may_wait(&inner) {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if inner.is_done || is_full(&inner) {
            let is_done = inner.is_done;
            let counts = &mut inner.status.counts;
            *(if is_done { &mut counts.undelivered } else { &mut counts.queue_full }) += held;
            return;
        }
        inner.bytes += message.cost();
        inner.status.counts.waiting += held;
        inner.queue.push_back(message);
        drop(inner);
        self.bell.ring();
    }

    /// The meter's side: what does not fill a message, and what no message can say.
    pub fn note(&self, unfinished: RecordSums, inexpressible: RecordSums) {
        let mut inner = self.lock();
        inner.unfinished = unfinished;
        inner.status.counts.inexpressible = inexpressible;
    }

    /// The meter's side: no message will come; what is there has until then to be delivered.
    pub fn close(&self, deadline: Instant) {
        self.lock().closing.get_or_insert(deadline);
        self.bell.ring();
    }

    /// Waits until the outlet's thread is done, a little longer than it was given.
    pub fn wait_done(&self) {
        let mut inner = self.lock();
        let until = inner.closing.unwrap_or_else(Instant::now) + GRACE;
        while !inner.is_done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True once after the thread asked that the next message begin with templates.
    pub fn are_templates_wanted(&self) -> bool {
        std::mem::take(&mut self.lock().wants_templates)
    }

    pub fn want_templates(&self) {
        self.lock().wants_templates = true;
    }

    pub fn status(&self) -> Status {
        let inner = self.lock();
        let mut status = inner.status.clone();
        status.counts.waiting += inner.unfinished;
        status
    }

    /// What holds of messages that left the encoder.
    pub fn counts(&self) -> ringside_flow::SinkCounts {
        self.lock().status.counts
    }

    /// The outlet's side: changes the status. Who waits for room looks again.
    pub fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.lock().status);
        self.changed.notify_all();
    }

    /// The outlet's side: messages of some `bytes_max` bytes, none of 0, and until when it is
    /// closed.
    pub fn take(&self, bytes_max: usize) -> (Vec<Message>, Option<Instant>) {
        let mut inner = self.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(message) = inner.queue.pop_front()
        {
            bytes += message.cost();
            taken.push(message);
        }
        inner.bytes -= bytes;
        let closing = inner.closing;
        drop(inner);
        if !taken.is_empty() {
            self.changed.notify_all();
        }
        (taken, closing)
    }

    /// The outlet's side: true if there is something to take, or it is closed.
    pub fn has_news(&self, takes: bool, knows_closing: bool) -> bool {
        let inner = self.lock();
        (takes && !inner.queue.is_empty()) || (inner.closing.is_some() && !knows_closing)
    }

    /// The outlet's side: hands on all that comes, until it is closed and nothing is left, or the
    /// time for that is over.
    pub fn serve(&self, mut hand_on: impl FnMut(&[Message])) {
        loop {
            let (batch, closing) = self.take(BATCH_BYTES);
            if closing.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            match (batch.is_empty(), closing) {
                (false, _) => hand_on(&batch),
                (true, Some(_)) => return,
                (true, None) => {
                    self.bell.listen();
                    if !self.has_news(true, false) {
                        self.bell.wait(SLEEP_MAX);
                    }
                    self.bell.stop_listening();
                }
            }
        }
    }

    /// The outlet's side: nothing will be delivered any more.
    pub fn done(&self) {
        let mut inner = self.lock();
        inner.is_done = true;
        inner.queue.clear();
        inner.bytes = 0;
        let status = &mut inner.status;
        status.state = State::Ended;
        status.counts.undelivered.take(&mut status.counts.waiting);
        drop(inner);
        self.changed.notify_all();
    }
}
