//! How far a producer has come: the number that its last transaction wrote down, as the position of
//! a group that is called like the producer, in the first partition of the topic.

use crate::api::{Group, NO_ERROR, Partitions};
use crate::error::{Failure, KafkaError};
use crate::handle::{Handle, c_string, milliseconds};
use crate::library::Library;
use crate::settings::Settings;
use std::ffi::CString;
use std::ptr::NonNull;
use std::time::Duration;

/// The partition that has it.
const PARTITION: i32 = 0;

/// A position, as the library has it.
pub(crate) struct Position(NonNull<Partitions>, Library);

impl Position {
    /// The number `next` in a topic.
    pub fn new(library: Library, topic: &CString, next: i64) -> Position {
        let api = library.api;
        // SAFETY: a list with room for one, and a text that ends with 0; both calls end the process
        // where there is no memory.
        unsafe {
            let list = (api.rd_kafka_topic_partition_list_new)(1);
            let one = (api.rd_kafka_topic_partition_list_add)(list, topic.as_ptr(), PARTITION);
            (*one).offset = next;
            Position(NonNull::new_unchecked(list), library)
        }
    }

    pub fn as_ptr(&self) -> *mut Partitions {
        self.0.as_ptr()
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { (self.1.api.rd_kafka_topic_partition_list_destroy)(self.0.as_ptr()) };
    }
}

/// A group, as a transaction names it.
pub(crate) struct GroupName(NonNull<Group>, Library);

// SAFETY: texts and numbers, which only who has this reads.
unsafe impl Send for GroupName {}

impl GroupName {
    pub fn new(library: Library, name: &str) -> Result<GroupName, KafkaError> {
        let name = c_string("the name", name)?;
        // SAFETY: a text that ends with 0; the call ends the process where there is no memory.
        let group = unsafe {
            let group = (library.api.rd_kafka_consumer_group_metadata_new)(name.as_ptr());
            NonNull::new_unchecked(group)
        };
        Ok(GroupName(group, library))
    }

    pub fn as_ptr(&self) -> *const Group {
        self.0.as_ptr()
    }
}

impl Drop for GroupName {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { (self.1.api.rd_kafka_consumer_group_metadata_destroy)(self.0.as_ptr()) };
    }
}

/// Asks for the position; 0 if nothing was written down.
pub(crate) fn read(
    library: Library,
    settings: &Settings,
    topic: &CString,
    time: Duration,
) -> Result<u64, Failure> {
    let client = Handle::consumer(library, &settings.of_consumer())?;
    let position = Position::new(library, topic, 0);
    // SAFETY: a client and a list that are there.
    let (answer, found, error) = unsafe {
        let (client, list) = (client.client.as_ptr(), position.as_ptr());
        let answer = (library.api.rd_kafka_committed)(client, list, milliseconds(time));
        let one = &*(*list).first;
        (answer, one.offset, one.error)
    };
    match [answer, error].into_iter().find(|&error| error != NO_ERROR) {
        Some(error) => Err(client.failure(error, client.meaning(error))),
        // Numbers below 0 have meanings of their own: here that nothing was written down.
        None => Ok(u64::try_from(found).unwrap_or(0)),
    }
}
