//! Batches, each by one transaction.

use crate::api::{
    ALL_BROKERS_DOWN, ANY_PARTITION, COPY, Error, NO_ERROR, NO_TLS, NOT_LET_IN, QUEUE_FULL,
    TIMED_OUT, Topic,
};
use crate::error::Failure;
use crate::handle::{Handle, c_string, milliseconds};
use crate::library::Library;
use crate::position::{self, GroupName, Position};
use crate::settings::Settings;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// After these there is no point in waiting for an answer; of several brokers another one may
/// answer where it is not the first.
const VAIN: [i32; 3] = [ALL_BROKERS_DOWN, NOT_LET_IN, NO_TLS];

/// So often it is looked whether it is one of them.
const LOOK: Duration = Duration::from_millis(250);

/// What one message is.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// What decides about its partition.
    pub key: Option<&'r [u8]>,
    /// The message.
    pub value: &'r [u8],
}

/// Sends batches. After a [`Failure`] another one has to be made: what became of the batch, its
/// start finds out.
pub struct Producer {
    topic: TopicHandle,
    topic_name: CString,
    group: GroupName,
    handle: Handle,
    library: Library,
}

/// A topic of a client. It goes before the client.
struct TopicHandle(NonNull<Topic>, Library);

// SAFETY: as of the client.
unsafe impl Send for TopicHandle {}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { (self.1.api.rd_kafka_topic_destroy)(self.0.as_ptr()) };
    }
}

impl Producer {
    /// A producer, and the number that the last transaction of its name wrote down, 0 if there was
    /// none: one that was under way is over, in one way or the other.
    ///
    /// # Errors
    /// No broker was reached in this time, or they refused.
    pub fn start(
        library: Library,
        settings: &Settings,
        time: Duration,
    ) -> Result<(Producer, u64), Failure> {
        let until = Instant::now() + time;
        let handle = Handle::producer(library, &settings.of_producer())?;
        let topic_name = c_string("the topic", &settings.topic)?;
        let group = GroupName::new(library, &settings.name)?;
        // SAFETY: a client that is there, a text that ends with 0, and no configuration.
        let topic = unsafe {
            let new = library.api.rd_kafka_topic_new;
            new(handle.client.as_ptr(), topic_name.as_ptr(), std::ptr::null_mut())
        };
        let Some(topic) = NonNull::new(topic) else {
            // SAFETY: it reads a number of this thread's.
            let error = unsafe { (library.api.rd_kafka_last_error)() };
            return Err(handle.failure(error, handle.meaning(error)));
        };
        let topic = TopicHandle(topic, library);
        let producer = Producer { topic, topic_name, group, handle, library };
        let vain = if settings.brokers.contains(',') { &VAIN[..1] } else { &VAIN[..] };
        producer.shut_others_out(until, vain)?;
        let left = until.saturating_duration_since(Instant::now());
        let next = position::read(library, settings, &producer.topic_name, left)?;
        Ok((producer, next))
    }

    /// Takes the name from who had it before.
    fn shut_others_out(&self, until: Instant, vain: &[i32]) -> Result<(), Failure> {
        let mut said = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let slice = milliseconds(left.min(LOOK));
            // SAFETY: a client that is there.
            let error = unsafe {
                (self.library.api.rd_kafka_init_transactions)(self.handle.client.as_ptr(), slice)
            };
            let Some(refused) = self.taken(error) else { return Ok(()) };
            self.handle.poll(Duration::ZERO);
            said = self.handle.said().error.or(said);
            let is_vain = said.as_ref().is_some_and(|(error, _)| vain.contains(error));
            if left.is_zero() || !refused.may_go_on || is_vain {
                let reason = said.map_or(refused.reason, |(_, reason)| reason);
                return Err(Failure { reason, is_final: false });
            }
            // Still under way: the next call goes on with it.
        }
    }

    /// Sends records, none longer than [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX), and writes
    /// down the number `next` with them, all or nothing.
    ///
    /// # Errors
    /// The brokers do not have the records, or it is not known.
    pub fn send<'r>(
        &mut self,
        records: impl IntoIterator<Item = Record<'r>>,
        next: u64,
        time: Duration,
    ) -> Result<(), Failure> {
        let until = Instant::now() + time;
        let (api, client) = (self.library.api, self.handle.client.as_ptr());
        // What was said while nothing was sent.
        self.handle.poll(Duration::ZERO);
        self.handle.said();
        // SAFETY: a client that is there.
        self.check(unsafe { (api.rd_kafka_begin_transaction)(client) })?;
        for record in records {
            self.put(&record, until)?;
        }
        let next = i64::try_from(next).unwrap_or(i64::MAX);
        let position = Position::new(self.library, &self.topic_name, next);
        let left = || milliseconds(until.saturating_duration_since(Instant::now()));
        // SAFETY: a client, a list and a group that are there.
        self.check(unsafe {
            let (list, group) = (position.as_ptr(), self.group.as_ptr());
            (api.rd_kafka_send_offsets_to_transaction)(client, list, group, left())
        })?;
        // SAFETY: a client that is there.
        self.check(unsafe { (api.rd_kafka_commit_transaction)(client, left()) })
    }

    /// Hands a message to the library.
    fn put(&self, record: &Record<'_>, until: Instant) -> Result<(), Failure> {
        let api = self.library.api;
        let (key, value) = (record.key.unwrap_or_default(), record.value);
        loop {
            let no_key = record.key.is_none();
            let key_at = if no_key { std::ptr::null() } else { key.as_ptr() };
            // SAFETY: a topic that is there, and bytes of these lengths, which are copied.
            let error = unsafe {
                let answer = (api.rd_kafka_produce)(
                    self.topic.0.as_ptr(),
                    ANY_PARTITION,
                    COPY,
                    value.as_ptr().cast(),
                    value.len(),
                    key_at.cast(),
                    key.len(),
                    std::ptr::null_mut(),
                );
                if answer == 0 { NO_ERROR } else { (api.rd_kafka_last_error)() }
            };
            match error {
                NO_ERROR => return Ok(()),
                QUEUE_FULL if Instant::now() < until => self.handle.poll(LOOK),
                error => return Err(self.handle.failure(error, self.handle.meaning(error))),
            }
        }
    }

    fn check(&self, error: *mut Error) -> Result<(), Failure> {
        match self.taken(error) {
            None => Ok(()),
            Some(Refused { error, reason, .. }) => Err(self.handle.failure(error, reason)),
        }
    }

    /// What an error says; it is gone then.
    fn taken(&self, error: *mut Error) -> Option<Refused> {
        let api = self.library.api;
        let error = NonNull::new(error)?.as_ptr();
        // SAFETY: an error of the library's, which is ours; its text is copied before it goes.
        unsafe {
            let refused = Refused {
                error: (api.rd_kafka_error_code)(error),
                reason: CStr::from_ptr((api.rd_kafka_error_string)(error))
                    .to_string_lossy()
                    .into_owned(),
                may_go_on: (api.rd_kafka_error_code)(error) == TIMED_OUT
                    || (api.rd_kafka_error_is_retriable)(error) != 0,
            };
            (api.rd_kafka_error_destroy)(error);
            Some(refused)
        }
    }
}

/// What an error said.
struct Refused {
    error: i32,
    reason: String,
    /// The same call may succeed later.
    may_go_on: bool,
}

#[cfg(test)]
mod tests;
