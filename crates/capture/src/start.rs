//! Why a run cannot start, and the threads that it starts.

use ringside_core::SourceError;
use ringside_core::limits::LANE_THREADS_MAX;
use ringside_ring::RingError;
use ringside_rules::engine::BuildError;
use ringside_store::StoreError;
use ringside_sys::SysError;
use std::path::PathBuf;
use std::thread::JoinHandle;
use thiserror::Error;

/// Why a run could not start.
#[derive(Debug, Error)]
pub enum RunError {
    /// No source was given.
    #[error("nothing to capture from")]
    NoSource,
    /// The capture ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// What stands in front of the lanes could not begin.
    #[error("{0}")]
    Ahead(String),
    /// The output.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A source could not begin.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Several threads for a lane that one must drain.
    #[error(
        "{threads} threads a lane are asked for, and interface {interface} is received in a way \
         that has one thread for each lane"
    )]
    OneThread {
        /// Interface.
        interface: String,
        /// What was asked for.
        threads: usize,
    },
    /// More or less threads than a lane can have.
    #[error("{0} threads a lane are asked for, allowed are 1 to {LANE_THREADS_MAX}")]
    Threads(usize),
    /// No thread was to be had.
    #[error("cannot start a thread ({0}): raise the limit (ulimit -u, pids.max)")]
    Thread(#[source] std::io::Error),
    /// An output directory twice.
    #[error("{path} is named twice as a directory to record to; name it once")]
    DirectoryTwice {
        /// The directory.
        path: PathBuf,
    },
    /// The rules cannot be put to work.
    #[error(transparent)]
    Rules(#[from] BuildError),
    /// The system refused something small.
    #[error(transparent)]
    System(#[from] SysError),
    /// The output directory.
    #[error("cannot make the directory {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Starts a thread of this name.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(RunError::Thread)
}
