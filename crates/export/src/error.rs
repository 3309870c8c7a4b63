//! Why an outlet cannot be had.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why an outlet cannot be had.
#[derive(Debug, Error)]
pub enum ExportError {
    /// Text that names no collector.
    #[error(
        "{text} is no collector: {reason}; write udp:HOST:PORT, tcp:HOST:PORT or file:PATH, with \
         IPv6 addresses in brackets"
    )]
    Address {
        /// What was written.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A format that does not go this way.
    #[error(
        "{format} to {address}: {way} carries IPFIX alone, whose messages say how long they are; \
         take a format of IPFIX, or udp"
    )]
    Format {
        /// Name of the format.
        format: &'static str,
        /// The collector.
        address: String,
        /// What carries it.
        way: &'static str,
    },
    /// A spool that is too small.
    #[error("a spool of {bytes} bytes is too small; give it at least {least}")]
    SpoolBytes {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// A file that another process writes.
    #[error("{} is in use by another process", path.display())]
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
    /// The collector's name or address cannot be used.
    #[error("{address}: {source}")]
    Collector {
        /// The collector.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system has no more of what a thread needs.
    #[error("starting the thread of {address}: {source}")]
    Thread {
        /// The collector.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl ExportError {
    pub(crate) fn file<'p>(
        action: &'static str,
        path: &'p Path,
    ) -> impl Fn(io::Error) -> ExportError + use<'p> {
        move |source| ExportError::File { action, path: path.to_owned(), source }
    }
}
