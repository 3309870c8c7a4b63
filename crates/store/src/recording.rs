//! Files of a recording (`-w DIR`): one series per lane, the ring's blocks as they lie.
//!
//! A file is a header page of 4 KiB (a whole multiple with many interfaces), then ring block `i` at
//! `header_bytes + i * block_bytes`. The page holds a section header with a JSON comment, the
//! descriptions of all interfaces of the run, one block of the local-use type 0x80525348 with a
//! fixed layout, and padding. The whole is legal pcapng at every moment. A file holds some of the
//! ring blocks of its lane, in order; each tells its number, so that a lane may lie in several
//! directories. docs/formats/recording.md describes it for those who read it without Ringside.

mod directory;
mod file;
mod header;
mod mapped;
mod room;
mod storage;

pub(crate) use crate::file_header::HeaderPage;
pub use crate::file_header::{
    FORMAT_VERSION, FileHeader, HEADER_BYTES_MAX, HEADER_PAGE_BYTES, RUN_ID_BYTES_MAX,
};
pub use crate::file_name::file_name;
pub use crate::run_lock::{RunLock, run_lock_name};
pub use directory::{NO_RECORDING, Series, StoredFile, capture_files, series_of};
pub use file::{END_BYTES, Reused, SeriesFile};
pub use header::read_header;
pub(crate) use header::{Header, read_from as read_header_from, read_stored as read_stored_header};
pub use mapped::MappedFiles;
pub use room::is_room_at;
pub use storage::Storage;

#[cfg(test)]
mod tests;
