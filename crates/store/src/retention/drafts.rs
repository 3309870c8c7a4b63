//! What files are being packed into: hidden files, which their makers hold locked.

use super::RetentionError;
use super::disk::{Disk, STAT_BLOCK_BYTES, is_gone};
use super::folder::name_of_spare;
use super::packing::packed_bytes_max;
use crate::file_name::parts_of_name;
use crate::seekable::unpacked_name;
use rustix::fs::{self, FlockOperation, OFlags, Statx};

impl Disk {
    /// Bytes that are taken by or reserved for drafts that somebody works on. Others are removed.
    pub(super) fn held_drafts_bytes(&self) -> Result<u64, RetentionError> {
        let mut bytes = 0_u64;
        for (draft, first_name) in self.drafts()? {
            let held = match self.dir.entry(&draft).open(OFlags::RDONLY | OFlags::NONBLOCK, 0) {
                Ok(file) => fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
                Err(error) if is_gone(&error) => continue,
                // Another user's: it is there, and may be held.
                Err(_) => true,
            };
            if !held {
                // Who worked on it is dead, and what it was made of is there.
                let _ = self.dir.entry(&draft).remove();
                continue;
            }
            let size = |found: Statx| found.stx_size.max(found.stx_blocks * STAT_BLOCK_BYTES);
            let [now, first] = [&draft, &first_name].map(|name| self.look(name));
            let first = first?.map_or(0, |found| packed_bytes_max(found.stx_size));
            bytes = bytes.saturating_add(now?.map_or(0, size).max(first));
        }
        Ok(bytes)
    }

    /// What files are being packed into, with the names of these files.
    fn drafts(&self) -> Result<Vec<(String, String)>, RetentionError> {
        let mut drafts = Vec::new();
        for name in self.dir.names().map_err(|e| self.fail("read directory", e))? {
            let (name, _) = name.map_err(|e| self.fail("read directory", e))?;
            let Some(name) = name.to_str() else { continue };
            drafts.extend(draft_of(name).map(|first| (name.to_owned(), first.to_owned())));
        }
        Ok(drafts)
    }
}

/// The name of the file that is being packed into one of that name.
pub(super) fn draft_of(name: &str) -> Option<&str> {
    let first = unpacked_name(name_of_spare(name)?)?;
    parts_of_name(first).map(|_| first)
}
