//! Why Kafka cannot be used.

use std::path::PathBuf;
use thiserror::Error;

/// Why Kafka cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KafkaError {
    /// There is no library.
    #[error(
        "librdkafka was not found ({reason}): install librdkafka1 (Debian, Ubuntu) or librdkafka \
         (Fedora, RHEL)"
    )]
    NoLibrary {
        /// The linker's words.
        reason: String,
    },
    /// It is there and lacks what is called.
    #[error("{} has no function {name}: librdkafka 1.9 or newer is needed", .path.display())]
    NoSymbol {
        /// The library.
        path: PathBuf,
        /// What it lacks.
        name: String,
    },
    /// A text that C has no string for.
    #[error("{what} has a byte 0")]
    Zero {
        /// What it is.
        what: &'static str,
    },
    /// The library refused a setting, or what it needs of the system.
    #[error("librdkafka: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
}

/// Why a batch is not there, or may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The library's words.
    pub reason: String,
    /// The brokers will never take these records.
    pub is_final: bool,
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Failure {
        Failure { reason: error.to_string(), is_final: false }
    }
}
