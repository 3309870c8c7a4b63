//! Retention: a directory of recordings never passes its limit, and the oldest go first.
//!
//! A process that creates a file of a recording reserves its largest size here first. Under a lock
//! of the whole directory, what is there is read anew, files are deleted strictly in the order of
//! their serial numbers until the new one fits, and the next serial is handed out. Because sizes
//! are reserved and not estimated, the limit holds at every moment, also if a process dies in
//! between. Because what is there is read and not remembered, the limit holds with several
//! recorders, restarts and files that vanish. docs/retention.md describes it for users.
//!
//! Refused: to delete what a live run still writes, what is not Ringside's (by name *and* by
//! content), anything out of order, and anything if deleting cannot help.

mod age;
mod disk;
mod drafts;
mod enforce;
mod folder;
mod packing;
mod pinning;
mod pins;
mod sizes;
mod state;

pub use crate::error::RetentionError;
pub use disk::remove_directory_lock;
pub(crate) use folder::name_of_spare;
pub use folder::spare_name;
pub use packing::{Packed, PackedState, PackingJob, PackingOrder};
pub use pinning::{Pinned, add_pin, extend_pin, pinned_sizes, remove_pins};
pub use pins::{NOTE_BYTES_MAX, Pin, PinnedFile, Pins};
pub use sizes::{FILES_PER_LANE, Shape, file_interval};

use crate::StoreError;
use crate::dir::Dir;
use crate::recording::{MappedFiles, Reused};
use disk::Disk;
use enforce::{InVain, Kept, Order, enforce};
use folder::Folder;
use ringside_core::ledger::sum;
use ringside_core::{Shown, Timestamp};
use ringside_sys::clock::Clocks;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What a directory may hold. Without a limit files only get their serial numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Bytes of all files of recordings together, reservations included.
    pub limit_bytes: Option<u64>,
    /// Time after its creation at which a file goes.
    pub limit_age: Option<Duration>,
    /// Bytes of the file system that stay free for others, after every reservation.
    pub min_free: Option<u64>,
    /// Bytes of files that may be pinned; none: half of `limit_bytes`.
    pub pin_bytes: Option<u64>,
    /// Time after its creation at which a file that ended is packed.
    pub compress_after: Option<Duration>,
}

impl Policy {
    /// True if nothing is ever deleted.
    pub fn is_unlimited(&self) -> bool {
        let Policy { pin_bytes, compress_after, .. } = *self;
        *self == Policy { pin_bytes, compress_after, ..Policy::default() }
    }

    /// The policy of each of the `directories` of one recording: they share its bytes evenly.
    ///
    /// # Panics
    /// If `directories` is 0.
    #[must_use]
    pub fn for_each_of(self, directories: usize) -> Policy {
        let [limit_bytes, pin_bytes] = [self.limit_bytes, self.pin_bytes]
            .map(|bytes| bytes.map(|bytes| bytes / directories as u64));
        Policy { limit_bytes, pin_bytes, ..self }
    }
}

/// One file that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Name within the directory.
    pub name: String,
    /// Its serial number.
    pub serial: u64,
    /// Bytes that it took.
    pub bytes: u64,
}

/// What retention did since the directory was opened, and what is there: for status and reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files deleted. Spare files that a killed run left empty are not counted.
    pub deleted_files: u64,
    /// Bytes that they took.
    pub deleted_bytes: u64,
    /// When the oldest file that is kept was created, by the clock of that time.
    pub oldest: Option<Timestamp>,
    /// Bytes in use or reserved, at the last look.
    pub used_bytes: u64,
    /// Files of recordings, at the last look.
    pub files: u64,
    /// Why files that are past their age are still there.
    pub overdue: Option<String>,
    /// Files that are pinned, at the last look,
    pub pinned_files: u64,
    /// and the bytes that they take or may come to take.
    pub pinned_bytes: u64,
    /// Files that were packed,
    pub packed_files: u64,
    /// the bytes that they took before,
    pub packed_bytes_before: u64,
    /// and after.
    pub packed_bytes: u64,
}

impl Summary {
    /// Adds what was done in another directory of the same recording.
    pub fn add(&mut self, other: &Summary) {
        self.deleted_files = self.deleted_files.saturating_add(other.deleted_files);
        self.deleted_bytes = self.deleted_bytes.saturating_add(other.deleted_bytes);
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.used_bytes = self.used_bytes.saturating_add(other.used_bytes);
        self.files = self.files.saturating_add(other.files);
        self.overdue = self.overdue.take().or_else(|| other.overdue.clone());
        self.pinned_files = self.pinned_files.saturating_add(other.pinned_files);
        self.pinned_bytes = self.pinned_bytes.saturating_add(other.pinned_bytes);
        self.packed_files += other.packed_files;
        self.packed_bytes_before =
            self.packed_bytes_before.saturating_add(other.packed_bytes_before);
        self.packed_bytes = self.packed_bytes.saturating_add(other.packed_bytes);
    }
}

/// A directory of recordings, as one run uses it.
#[derive(Debug)]
pub struct Directory {
    disk: Disk,
    run: String,
    policy: Policy,
    summary: Summary,
    reuses: bool,
    in_vain: Option<InVain>,
    has_warned_of_pins: bool,
}

impl Directory {
    /// Looks after the directory `dir` for the run `run`, whose run lock is held. Deletes nothing
    /// yet.
    ///
    /// # Errors
    /// Its lock file cannot be made.
    pub fn open(dir: &Dir, run: &str, policy: Policy) -> Result<Directory, StoreError> {
        let disk = Disk::open(dir)?;
        let (run, summary) = (run.to_owned(), Summary::default());
        let (reuses, in_vain, has_warned_of_pins) = (false, None, false);
        Ok(Directory { disk, run, policy, summary, reuses, in_vain, has_warned_of_pins })
    }

    /// With `reuses` a file that goes for the limit of bytes may be handed to the one that comes
    /// ([`Reservation::take_reused`]), if that has a [`spare_name`], it is of about the same size
    /// and no other process has it open: for file systems on which new space is dearer than space
    /// that is written again.
    #[must_use]
    pub fn reusing(self, reuses: bool) -> Directory {
        Directory { reuses, ..self }
    }

    /// Where files that will be used again are kept mapped meanwhile; `None` if none is used again.
    pub fn mapped_files(&self) -> Option<Arc<MappedFiles>> {
        let Policy { limit_bytes, min_free, .. } = self.policy;
        let reuses = self.reuses && limit_bytes.is_some() && min_free.is_none();
        reuses.then(|| self.disk.mapped.clone())
    }

    /// Reserves `bytes_max` bytes for the file that is about to be created as `name`, and deletes
    /// what has to go for it. `bytes_max` 0 reserves nothing: a file without a limit, whose size
    /// counts as it grows.
    ///
    /// The last [`END_BYTES`](crate::recording::END_BYTES) of it are not for ring blocks, but for
    /// the mark of a repair.
    ///
    /// The directory stays locked until the reservation is dropped. Meanwhile the file is created
    /// and its header page written, with the reservation's serial, `bytes_max` and `now`; only
    /// then space may be allocated for it. Once nothing more is written to a file, its header's
    /// `bytes_max` becomes its size: until then it is not deleted, and counts as if it were full.
    /// So a lane's file is finished before the one after the next is reserved.
    ///
    /// # Errors
    /// There is no room and deleting cannot make it, a file cannot be deleted, or the directory
    /// cannot be read. Nothing is reserved then; what was deleted before stands in the summary.
    pub fn reserve(
        &mut self,
        name: &str,
        bytes_max: u64,
        now: Clocks,
    ) -> Result<Reservation<'_>, StoreError> {
        self.disk.lock()?;
        match self.enforce(Some(name), bytes_max, now) {
            Ok((kept, deleted)) => {
                let reused = self.disk.reused.take().filter(|_| kept.is_reused);
                Ok(Reservation { directory: self, serial: kept.serial, reused, deleted })
            }
            Err(error) => {
                self.disk.unlock();
                Err(error.into())
            }
        }
    }

    /// Deletes what is past its age, and what the limits do not allow: for quiet times, in which
    /// no file is begun.
    ///
    /// # Errors
    /// As [`Directory::reserve`].
    pub fn sweep(&mut self, now: Clocks) -> Result<Vec<Deleted>, StoreError> {
        self.disk.lock()?;
        let result = self.enforce(None, 0, now);
        self.disk.unlock();
        Ok(result.map(|(_, deleted)| deleted)?)
    }

    /// What was done so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn enforce(
        &mut self,
        name: Option<&str>,
        room: u64,
        now: Clocks,
    ) -> Result<(Kept, Vec<Deleted>), RetentionError> {
        // Under a name that others read, what a file held would be seen while it is written over.
        let is_hidden = name.and_then(name_of_spare).is_some();
        let (reuses, in_vain) = (self.reuses && is_hidden, self.in_vain.as_ref());
        let order = Order { run: &self.run, policy: self.policy, name, room, now, reuses, in_vain };
        let mut deleted = Vec::new();
        let result = enforce(&mut self.disk, &order, &mut deleted);
        self.summary.deleted_files += deleted.len() as u64;
        // Sparse files may be of any size.
        let bytes = deleted.iter().map(|file| file.bytes).chain([self.summary.deleted_bytes]);
        self.summary.deleted_bytes = sum(bytes);
        match &result {
            Ok(_) => self.in_vain = None,
            Err(RetentionError::NotFreed { name, count, .. }) => {
                self.in_vain = Some(InVain { name: name.clone(), count: *count });
            }
            Err(_) => {}
        }
        let kept = result?;
        self.disk.mapped.share(kept.is_shared);
        self.summary.oldest = kept.oldest;
        self.summary.used_bytes = kept.used_bytes;
        self.summary.files = kept.files;
        (self.summary.pinned_files, self.summary.pinned_bytes) =
            (kept.pinned_files, kept.pinned_bytes);
        if let Some(budget) = kept.pin_budget.filter(|&budget| kept.pinned_bytes > budget)
            && !std::mem::replace(&mut self.has_warned_of_pins, true)
        {
            let (directory, pinned) = (self.disk.path().shown(), kept.pinned_bytes);
            tracing::warn!(
                "{directory}: {pinned} bytes are pinned, more than the {budget} of --pin-bytes; \
                 they are kept, and other files go earlier: remove a pin (ringside unpin), or \
                 allow more"
            );
        }
        self.summary.overdue = kept.overdue.as_ref().map(ToString::to_string);
        Ok((kept, deleted))
    }
}

/// Room for one file, and the lock of the directory until this is dropped.
#[derive(Debug)]
pub struct Reservation<'d> {
    directory: &'d mut Directory,
    serial: u64,
    reused: Option<Reused>,
    deleted: Vec<Deleted>,
}

impl Reservation<'_> {
    /// Serial number of the file: greater than that of every file in the directory.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The file that went and is to be made the new one, if there is one; once. If it does not have
    /// the new one's name when the reservation is dropped, it is deleted then.
    pub fn take_reused(&mut self) -> Option<Reused> {
        self.reused.take()
    }

    /// What was deleted for it, in order, what is reused included.
    pub fn deleted(&self) -> &[Deleted] {
        &self.deleted
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.directory.disk.end_creation();
        self.directory.disk.unlock();
    }
}

#[cfg(test)]
mod tests;
