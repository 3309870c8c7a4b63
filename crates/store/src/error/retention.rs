//! Why retention could not do what it was asked for.

use ringside_sys::file_lock::Holder;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What prevents a reservation, with its numbers and the fix.
#[derive(Debug, Error)]
pub enum RetentionError {
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, with the name.
        context: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The limit has no room for the files that are written at one time.
    #[error(
        "a limit of {limit} bytes is too small: with two files for each lane in each directory \
         ({lanes} by {directories}) at least {least} bytes are needed"
    )]
    LimitTooSmall {
        /// Bytes of the limit, for all directories.
        limit: u64,
        /// The least that would do.
        least: u64,
        /// Lanes of the run.
        lanes: usize,
        /// Directories of the run.
        directories: usize,
    },
    /// Files are larger than the limit allows.
    #[error(
        "files of {file_bytes} bytes are too large for a limit of {limit} bytes, of which each of \
         {lanes} lanes has two at a time in each directory; at most {most} bytes (-C) would do, \
         or a limit of at least {least}"
    )]
    FilesTooLarge {
        /// Bytes of a file.
        file_bytes: u64,
        /// The most that would do.
        most: u64,
        /// Bytes of the limit, for all directories.
        limit: u64,
        /// The least limit that would do.
        least: u64,
        /// Lanes of the run.
        lanes: usize,
    },
    /// What may not be deleted leaves no room below the limit.
    #[error(
        "{directory}: no room for a file of {asked} bytes below the limit of {limit} bytes: \
         {held} bytes are pinned, or in or reserved for files that are being written ({holders}); \
         remove a pin (ringside unpin), end one of these runs, or raise the limit"
    )]
    LimitHeld {
        /// The directory.
        directory: PathBuf,
        /// Bytes of the limit.
        limit: u64,
        /// Bytes asked for.
        asked: u64,
        /// Bytes that may not be deleted.
        held: u128,
        /// Runs that hold them.
        holders: String,
    },
    /// Deleting everything that may be deleted would not free enough.
    #[error(
        "{directory}: {wanted} bytes of the file system must be free, for the next file, for those \
         being written and for others; {free} are, and deleting every recording that \
         may be deleted would give {deletable}, with {pinned} pinned: something else fills it"
    )]
    FreeHeld {
        /// The directory.
        directory: PathBuf,
        /// Bytes free now.
        free: u64,
        /// Bytes that must be.
        wanted: u64,
        /// Bytes that deleting could give.
        deletable: u64,
        /// Bytes of files that are pinned.
        pinned: u64,
    },
    /// Deleting does not free space.
    #[error(
        "{directory}: {count} recordings were deleted, the last {name}, and the file system has no \
         more free space than before: hard links, snapshots or programs that have them open hold \
         it; nothing more is deleted"
    )]
    NotFreed {
        /// The directory.
        directory: PathBuf,
        /// Last file that was deleted.
        name: String,
        /// Files deleted in vain.
        count: u32,
    },
    /// The oldest file cannot be deleted.
    #[error(
        "cannot delete {path}, the oldest recording that may go: {source}; younger ones are not \
         deleted in its place"
    )]
    Delete {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What is pinned is not known, so nothing is deleted.
    #[error(
        "{path} cannot be read: {reason}; it says which files are pinned, so nothing is deleted; \
         repair the file by hand, or remove it if nothing is to be kept"
    )]
    PinsUnreadable {
        /// The file of pins.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no place for another pin.
    #[error("{directory}: nothing was pinned: {reason}")]
    PinsFull {
        /// The directory.
        directory: PathBuf,
        /// What is full, and the fix.
        reason: String,
    },
    /// Another process does not give the directory's lock back.
    #[error(
        "{path} has been locked by {} for {seconds} s; if it is stopped, let it go on or end it",
        Holder::name_of(.holder)
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
        /// Who has it, if that can be seen.
        holder: Option<Holder>,
    },
    /// The lock file was written by a later version.
    #[error("{path} is of version {version}, this program knows {known}: use the later program")]
    LaterVersion {
        /// The lock file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The version that is known.
        known: u32,
    },
    /// A file with the name of the one that is about to be created.
    #[error("{path} exists already; it is left as it is")]
    NameTaken {
        /// The file.
        path: PathBuf,
    },
    /// More of something than is handled.
    #[error("{directory}: more than {limit} {what}")]
    TooMany {
        /// The directory.
        directory: PathBuf,
        /// The limit.
        limit: usize,
        /// Of what, and the fix.
        what: &'static str,
    },
    /// The last serial number is in use: no file of ours reaches it, so the header is wrong.
    #[error("{path} bears the last serial number there is; move it elsewhere")]
    SerialsUsedUp {
        /// The file.
        path: PathBuf,
    },
}

impl RetentionError {
    /// True if what is there leaves no room, and may not or cannot be deleted.
    pub(crate) fn is_no_room(&self) -> bool {
        use RetentionError::{FreeHeld, LimitHeld, NotFreed};
        matches!(self, LimitHeld { .. } | FreeHeld { .. } | NotFreed { .. })
    }

    pub(crate) fn io(context: impl Into<String>, source: impl Into<io::Error>) -> RetentionError {
        RetentionError::Io { context: context.into(), source: source.into() }
    }
}
