//! Why an outlet cannot be had.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why an outlet cannot be had.
#[derive(Debug, Error)]
pub enum OutletError {
    /// Text that names no outlet.
    #[error(
        "{text} is no outlet: {reason}; write clickhouse://HOST:PORT/DATABASE/TABLE, \
         kafka://HOST:PORT/TOPIC, otlp://HOST:PORT/PATH or s3://HOST:PORT/BUCKET/PREFIX, with TLS \
         clickhouse+https://, kafka+tls://, otlp+https:// or s3+https://"
    )]
    Address {
        /// What was written, without a password.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file that should hold certificates of authorities.
    #[error("{} holds no certificate of an authority: {reason}", path.display())]
    Authorities {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A system without certificates, by which a server would be known.
    #[error(
        "this system has no certificates of authorities{reason}: install ca-certificates, or name \
         a file of them"
    )]
    NoAuthorities {
        /// The first error, if there was one.
        reason: String,
    },
    /// A file that should hold a user's name and password.
    #[error("{}: {reason}", path.display())]
    User {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Kafka's client cannot be used.
    #[error("{outlet}: {source}")]
    Kafka {
        /// The outlet.
        outlet: String,
        /// Why.
        source: ringside_kafka::KafkaError,
    },
    /// A spool that is too small.
    #[error("a spool of {bytes} bytes is too small; give it at least {least}")]
    SpoolBytes {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// A folder that another process uses.
    #[error("{} is in use by another process; give each a spool of its own", path.display())]
    Busy {
        /// Its path.
        path: PathBuf,
    },
    /// A file that cannot be used.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system has no more of what a thread needs.
    #[error("starting a thread of {outlet}: {source}")]
    Thread {
        /// The outlet.
        outlet: String,
        /// The system's reason.
        source: io::Error,
    },
}
