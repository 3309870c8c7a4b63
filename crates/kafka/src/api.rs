//! The functions of librdkafka that are called, and the numbers that go with them: what its manual
//! (`rdkafka.h`) says of them, declared anew.

use crate::error::KafkaError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// Declares types of which only the library knows what is in them.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(crate) struct $name {
                _private: [u8; 0],
            }
        )+
    };
}

opaque! {
    /// `rd_kafka_t`: a producer or a consumer.
    Client,
    /// `rd_kafka_conf_t`.
    Config,
    /// `rd_kafka_topic_t`.
    Topic,
    /// `rd_kafka_topic_conf_t`; never made here.
    TopicConfig,
    /// `rd_kafka_error_t`.
    Error,
    /// `rd_kafka_consumer_group_metadata_t`.
    Group,
}

/// Kinds of clients (`rd_kafka_type_t`).
pub(crate) const PRODUCER: c_int = 0;
pub(crate) const CONSUMER: c_int = 1;

/// What `rd_kafka_conf_set` answers if all is well.
pub(crate) const CONFIG_OK: c_int = 0;

/// A partition for the library to choose.
pub(crate) const ANY_PARTITION: i32 = -1;

/// Of `rd_kafka_produce`: payload and key are copied.
pub(crate) const COPY: c_int = 2;

/// Of `rd_kafka_destroy_flags`: a consumer leaves without a word to its group.
pub(crate) const LEAVE_AT_ONCE: c_int = 8;

/// Errors (`rd_kafka_resp_err_t`): the client's are negative, the servers' positive.
pub(crate) const NO_ERROR: c_int = 0;
pub(crate) const QUEUE_FULL: c_int = -184;
pub(crate) const TIMED_OUT: c_int = -185;
pub(crate) const ALL_BROKERS_DOWN: c_int = -187;
pub(crate) const NO_TLS: c_int = -181;
pub(crate) const NOT_LET_IN: c_int = -169;
pub(crate) const PURGED_UNDER_WAY: c_int = -151;
pub(crate) const PURGED_IN_QUEUE: c_int = -152;
pub(crate) const NO_RESOURCES: c_int = -194;
pub(crate) const INVALID_RECORD: c_int = 87;

/// `rd_kafka_topic_partition_t`.
#[repr(C)]
pub(crate) struct Partition {
    pub topic: *mut c_char,
    pub partition: i32,
    pub offset: i64,
    metadata: *mut c_void,
    metadata_bytes: usize,
    opaque: *mut c_void,
    pub error: c_int,
    private: *mut c_void,
}

/// `rd_kafka_topic_partition_list_t`.
#[repr(C)]
pub(crate) struct Partitions {
    pub count: c_int,
    size: c_int,
    pub first: *mut Partition,
}

/// `rd_kafka_message_t`, as far as it is read.
#[repr(C)]
pub(crate) struct Message {
    pub error: c_int,
}

/// What is called with errors that concern no message in particular.
pub(crate) type OnError =
    unsafe extern "C" fn(*mut Client, c_int, *const c_char, opaque: *mut c_void);

/// What is called with what became of a message.
pub(crate) type OnDelivery = unsafe extern "C" fn(*mut Client, *const Message, opaque: *mut c_void);

/// What is called with lines of the library's log.
pub(crate) type OnLog = unsafe extern "C" fn(*const Client, c_int, *const c_char, *const c_char);

/// Declares the table, and how it is filled.
macro_rules! functions {
    ($($name:ident: $type:ty,)+) => {
        /// The library's functions.
        pub(crate) struct Api {
            $(pub $name: $type,)+
        }

        impl Api {
            /// Looks all of them up.
            ///
            /// # Safety
            /// `library` is librdkafka, or has functions of these names and types.
            pub unsafe fn of(library: &Library, path: &Path) -> Result<Api, KafkaError> {
                let missing = |name: &str| KafkaError::NoSymbol {
                    path: path.to_owned(),
                    name: name.to_owned(),
                };
                Ok(Api {
                    $($name: {
                        // SAFETY: the caller says that a function of this name has this type.
                        let found = unsafe { library.get::<$type>(stringify!($name).as_bytes()) };
                        *found.map_err(|_| missing(stringify!($name)))?
                    },)+
                })
            }
        }
    };
}

functions! {
    rd_kafka_version: unsafe extern "C" fn() -> c_int,
    rd_kafka_version_str: unsafe extern "C" fn() -> *const c_char,
    rd_kafka_conf_new: unsafe extern "C" fn() -> *mut Config,
    rd_kafka_conf_destroy: unsafe extern "C" fn(*mut Config),
    rd_kafka_conf_set: unsafe extern "C" fn(
        *mut Config,
        *const c_char,
        *const c_char,
        *mut c_char,
        usize,
    ) -> c_int,
    rd_kafka_conf_set_opaque: unsafe extern "C" fn(*mut Config, *mut c_void),
    rd_kafka_conf_set_log_cb: unsafe extern "C" fn(*mut Config, Option<OnLog>),
    rd_kafka_conf_set_error_cb: unsafe extern "C" fn(*mut Config, Option<OnError>),
    rd_kafka_conf_set_dr_msg_cb: unsafe extern "C" fn(*mut Config, Option<OnDelivery>),
    rd_kafka_new: unsafe extern "C" fn(c_int, *mut Config, *mut c_char, usize) -> *mut Client,
    rd_kafka_destroy_flags: unsafe extern "C" fn(*mut Client, c_int),
    rd_kafka_topic_new:
        unsafe extern "C" fn(*mut Client, *const c_char, *mut TopicConfig) -> *mut Topic,
    rd_kafka_topic_destroy: unsafe extern "C" fn(*mut Topic),
    rd_kafka_poll: unsafe extern "C" fn(*mut Client, c_int) -> c_int,
    rd_kafka_produce: unsafe extern "C" fn(
        *mut Topic,
        i32,
        c_int,
        *const c_void,
        usize,
        *const c_void,
        usize,
        *mut c_void,
    ) -> c_int,
    rd_kafka_last_error: unsafe extern "C" fn() -> c_int,
    rd_kafka_err2str: unsafe extern "C" fn(c_int) -> *const c_char,
    rd_kafka_error_code: unsafe extern "C" fn(*const Error) -> c_int,
    rd_kafka_error_string: unsafe extern "C" fn(*const Error) -> *const c_char,
    rd_kafka_error_is_retriable: unsafe extern "C" fn(*const Error) -> c_int,
    rd_kafka_error_destroy: unsafe extern "C" fn(*mut Error),
    rd_kafka_init_transactions: unsafe extern "C" fn(*mut Client, c_int) -> *mut Error,
    rd_kafka_begin_transaction: unsafe extern "C" fn(*mut Client) -> *mut Error,
    rd_kafka_send_offsets_to_transaction: unsafe extern "C" fn(
        *mut Client,
        *const Partitions,
        *const Group,
        c_int,
    ) -> *mut Error,
    rd_kafka_commit_transaction: unsafe extern "C" fn(*mut Client, c_int) -> *mut Error,
    rd_kafka_consumer_group_metadata_new: unsafe extern "C" fn(*const c_char) -> *mut Group,
    rd_kafka_consumer_group_metadata_destroy: unsafe extern "C" fn(*mut Group),
    rd_kafka_topic_partition_list_new: unsafe extern "C" fn(c_int) -> *mut Partitions,
    rd_kafka_topic_partition_list_destroy: unsafe extern "C" fn(*mut Partitions),
    rd_kafka_topic_partition_list_add:
        unsafe extern "C" fn(*mut Partitions, *const c_char, i32) -> *mut Partition,
    rd_kafka_committed: unsafe extern "C" fn(*mut Client, *mut Partitions, c_int) -> c_int,
}
