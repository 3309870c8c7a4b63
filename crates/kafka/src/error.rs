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
    #[error("{} has no function {name}: librdkafka 2.0 or newer is needed", .path.display())]
    NoSymbol {
        /// The library.
        path: PathBuf,
        /// What it lacks.
        name: String,
    },
    /// It is too old: before 2.0 it believes a server with any name.
    #[error("librdkafka is {version}: 2.0 or newer is needed")]
    TooOld {
        /// Its version.
        version: String,
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
