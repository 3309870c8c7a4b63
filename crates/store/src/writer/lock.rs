//! Which process writes a file: no other may empty it meanwhile.
//!
//! An exclusive flock(2) of the file itself, so that nothing is left behind, whatever happens to
//! the writer: it lasts as long as the open file description. It binds only programs that ask for
//! it: every writer of this one; readers and other programs are not in its way.

use crate::StoreError;
use ringside_core::Shown;
use ringside_sys::file_lock::{self, Holder};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Locks a regular file for its writer, as long as a handle of this opening lasts. Other kinds have
/// no content to destroy; a file system without locks never refuses.
///
/// # Errors
/// Another process writes the file; the message names it, where the system tells.
pub fn lock_for_writing(file: &File, path: &Path) -> Result<(), StoreError> {
    let fail = |error| StoreError::io(format!("cannot look at {}", path.shown()), error);
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Ok(());
    }
    let is_locked = loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            result => break result == Err(Errno::WOULDBLOCK),
        }
    };
    if !is_locked {
        return Ok(());
    }
    let by = Holder::name_of(&file_lock::holder(file));
    let reason = format!("is being written by {by}: name another file, or end that process first");
    Err(StoreError::Unusable { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_lasts_until_the_last_handle_is_closed_and_names_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        let first = File::create(&path).unwrap();
        lock_for_writing(&first, &path).unwrap();
        let copy = first.try_clone().unwrap();
        lock_for_writing(&copy, &path).unwrap();
        drop(first);
        let second = File::options().write(true).open(&path).unwrap();
        let error = lock_for_writing(&second, &path).unwrap_err().to_string();
        assert!(error.contains("a.pcap: is being written by "), "{error}");
        let (own, unseen) = (format!("process {} (", std::process::id()), "another process:");
        assert!(error.contains(&own) || error.contains(unseen), "{error}");
        drop(copy);
        lock_for_writing(&second, &path).unwrap();
    }
}
