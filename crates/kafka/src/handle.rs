//! A client of the library's, and what it said.

use crate::api::{
    ALL_BROKERS_DOWN, CONFIG_OK, CONSUMER, Client, Config, INVALID_RECORD, LEAVE_AT_ONCE, Message,
    NO_ERROR, NO_RESOURCES, PRODUCER, PURGED_IN_QUEUE, PURGED_UNDER_WAY,
};
use crate::error::{Failure, KafkaError};
use crate::library::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Room for the library's reason.
const REASON_BYTES: usize = 512;

/// What is called while the library is asked: of errors the last one.
#[derive(Default)]
pub(crate) struct Said {
    /// Of no message in particular, with its words.
    pub error: Option<(c_int, String)>,
    /// Of a message: the first one.
    pub delivery: Option<c_int>,
}

/// A client. It goes with this; what is under way is given up.
pub(crate) struct Handle {
    pub library: Library,
    pub client: NonNull<Client>,
    /// The library has a pointer to it until the client is gone.
    said: Arc<Mutex<Said>>,
}

// SAFETY: the library's clients may be used from any thread (rdkafka.h: "librdkafka is completely
// thread-safe").
unsafe impl Send for Handle {}

impl Handle {
    pub fn producer(library: Library, settings: &[(&str, &str)]) -> Result<Handle, KafkaError> {
        Handle::new(library, PRODUCER, settings)
    }

    pub fn consumer(library: Library, settings: &[(&str, &str)]) -> Result<Handle, KafkaError> {
        Handle::new(library, CONSUMER, settings)
    }

    fn new(library: Library, kind: c_int, settings: &[(&str, &str)]) -> Result<Handle, KafkaError> {
        let config = Configured::new(library, settings)?;
        let said: Arc<Mutex<Said>> = Arc::default();
        let api = library.api;
        let mut reason = [0; REASON_BYTES];
        // SAFETY: a configuration that is ours; what it points to outlives the client, and the
        // functions are of the types that they are called by. A client takes the configuration
        // over, unless it is null.
        let client = unsafe {
            (api.rd_kafka_conf_set_opaque)(config.0, Arc::as_ptr(&said).cast_mut().cast());
            (api.rd_kafka_conf_set_log_cb)(config.0, None);
            (api.rd_kafka_conf_set_error_cb)(config.0, Some(on_error));
            if kind == PRODUCER {
                (api.rd_kafka_conf_set_dr_msg_cb)(config.0, Some(on_delivery));
            }
            (api.rd_kafka_new)(kind, config.0, reason.as_mut_ptr(), REASON_BYTES)
        };
        match NonNull::new(client) {
            Some(client) => {
                std::mem::forget(config);
                Ok(Handle { library, client, said })
            }
            None => {
                // SAFETY: it reads a number of this thread's.
                if unsafe { (api.rd_kafka_last_error)() } == NO_RESOURCES {
                    // Threads of the client's may be there all the same, and have both.
                    std::mem::forget((config, said));
                }
                Err(KafkaError::Refused { reason: text_of(&reason) })
            }
        }
    }

    /// Has the library call back with what it has to say, for at most this time.
    pub fn poll(&self, time: Duration) {
        // SAFETY: a client that is there.
        unsafe { (self.library.api.rd_kafka_poll)(self.client.as_ptr(), milliseconds(time)) };
    }

    /// What it said since this was asked last.
    pub fn said(&self) -> Said {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What an error of this number means.
    pub fn meaning(&self, error: c_int) -> String {
        // SAFETY: a text of the library's that stays.
        let text = unsafe { CStr::from_ptr((self.library.api.rd_kafka_err2str)(error)) };
        text.to_string_lossy().into_owned()
    }

    /// A failure by an error, with what the library said meanwhile, which says more.
    pub fn failure(&self, error: c_int, text: String) -> Failure {
        self.poll(Duration::ZERO);
        let said = self.said();
        let (error, reason) = match (said.delivery, said.error) {
            (Some(error), _) => (error, self.meaning(error)),
            (None, Some(said)) => said,
            (None, None) => (error, text),
        };
        Failure { reason, is_final: error == INVALID_RECORD }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a client that is there, of which nothing is left but this.
        unsafe {
            (self.library.api.rd_kafka_destroy_flags)(self.client.as_ptr(), LEAVE_AT_ONCE);
        }
    }
}

/// A configuration of which no client was made yet.
struct Configured(*mut Config, Library);

impl Configured {
    fn new(library: Library, settings: &[(&str, &str)]) -> Result<Configured, KafkaError> {
        // SAFETY: it makes one.
        let config = Configured(unsafe { (library.api.rd_kafka_conf_new)() }, library);
        let text = |text: &str| c_string("a setting", text);
        for (name, value) in settings {
            let (name, value) = (text(name)?, text(value)?);
            let mut reason = [0; REASON_BYTES];
            // SAFETY: texts that end with 0, and room for an answer that does.
            let answer = unsafe {
                let (name, value) = (name.as_ptr(), value.as_ptr());
                let set = library.api.rd_kafka_conf_set;
                set(config.0, name, value, reason.as_mut_ptr(), REASON_BYTES)
            };
            if answer != CONFIG_OK {
                return Err(KafkaError::Refused { reason: text_of(&reason) });
            }
        }
        Ok(config)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: no client has it.
        unsafe { (self.1.api.rd_kafka_conf_destroy)(self.0) };
    }
}

/// # Safety
/// `opaque` is the `Said` of a client that is there, and `reason` ends with 0.
unsafe extern "C" fn on_error(
    _: *mut Client,
    error: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: as above.
    let (said, reason) = unsafe { (&*opaque.cast::<Mutex<Said>>(), CStr::from_ptr(reason)) };
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    // "All brokers are down" is said once, and has less to say than what comes before and behind.
    said.error = Some(match said.error.take() {
        Some((_, before)) if error == ALL_BROKERS_DOWN => (error, before),
        Some((ALL_BROKERS_DOWN, _)) => (ALL_BROKERS_DOWN, reason.to_string_lossy().into_owned()),
        _ => (error, reason.to_string_lossy().into_owned()),
    });
}

/// # Safety
/// `opaque` is the `Said` of a client that is there, and `message` a message.
unsafe extern "C" fn on_delivery(_: *mut Client, message: *const Message, opaque: *mut c_void) {
    // SAFETY: as above.
    let (said, error) = unsafe { (&*opaque.cast::<Mutex<Said>>(), (*message).error) };
    // What is given up because of the first one says nothing.
    if ![NO_ERROR, PURGED_UNDER_WAY, PURGED_IN_QUEUE].contains(&error) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.delivery = said.delivery.or(Some(error));
    }
}

/// The text of C for a text.
pub(crate) fn c_string(what: &'static str, text: &str) -> Result<CString, KafkaError> {
    CString::new(text).map_err(|_| KafkaError::Zero { what })
}

/// Up to its first 0.
fn text_of(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// As the library counts time.
pub(crate) fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}
