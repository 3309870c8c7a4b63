//! What can go wrong with files.

mod retention;

pub use retention::RetentionError;

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a file could not be written or opened. Errors of the system keep their
/// [`std::io::Error`], so that a full disk stays recognisable ([`StoreError::is_disk_full`]).
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, with the name.
        context: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A pcap file holds one link type.
    #[error(
        "a pcap file holds one link type, here {first}, and a frame of interface {interface} has \
         link type {second}; write pcapng instead (a file name that ends in .pcapng)"
    )]
    SecondLinkType {
        /// Link type of the file.
        first: u16,
        /// Link type of the frame.
        second: u16,
        /// Interface of the frame.
        interface: u32,
    },
    /// A pcap file stores 32 bits of seconds.
    #[error(
        "the time {seconds} s is beyond 4294967295 s (the year 2106), the last that pcap can \
         store; write pcapng instead (a file name that ends in .pcapng)"
    )]
    TimeBeyondPcap {
        /// Seconds since 1970.
        seconds: u64,
    },
    /// A frame of an interface that was not added to the writer before.
    #[error("a frame of interface {interface}, but the file has {known} interfaces")]
    UnknownInterface {
        /// Interface of the frame.
        interface: u32,
        /// Interfaces of the file.
        known: usize,
    },
    /// More interfaces than a file may have.
    #[error("more than {limit} interfaces in one file")]
    TooManyInterfaces {
        /// The limit.
        limit: usize,
    },
    /// The descriptions of the interfaces do not fit the header page.
    #[error(
        "the interface descriptions need {bytes} bytes, and a header holds at most {limit}; \
         capture fewer interfaces in one run or use a shorter filter"
    )]
    HeaderTooLarge {
        /// Bytes needed.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// No room below the limits of a directory, or it could not be made.
    #[error(transparent)]
    Retention(#[from] RetentionError),
    /// A writer that failed before.
    #[error("the file cannot be written any more, because an earlier write failed")]
    FailedBefore,
    /// Bytes appended to a recording that do not follow its format.
    #[error("{path}: {reason}")]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// What is wrong about them.
        reason: String,
    },
    /// Input that cannot be used.
    #[error("{path}: {reason}")]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A file that a program has compressed.
    #[error(
        "{path}: is compressed ({format}); unpack it first, as in {unpacker} FILE | ringside read \
         -r -"
    )]
    Compressed {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
        /// A program that unpacks it to standard output.
        unpacker: &'static str,
    },
}

impl StoreError {
    pub(crate) fn io(context: impl Into<String>, source: io::Error) -> StoreError {
        StoreError::Io { context: context.into(), source }
    }

    /// True if what was named is not there, or not any more.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// True if the disk, a quota, the file's size limit or a limit of retention was reached: what
    /// is written stays valid, and space fixes it.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            StoreError::Io { source, .. } => {
                matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            StoreError::Retention(error) => error.is_no_room(),
            _ => false,
        }
    }

    /// True if the other end of a pipe was closed.
    pub fn is_pipe_closed(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
