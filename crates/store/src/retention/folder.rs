//! What retention sees of a directory, and the few things that it does there.
//!
//! A trait, because there are two: the directory of a file system, and the model that the random
//! histories of the tests run on.

use super::RetentionError;
use super::state::State;
use crate::file_header::is_finished;
use crate::file_name::parts_of_name;
use crate::seekable::unpacked_name;
use ringside_core::{LaneId, Timestamp};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// A file of a recording: its name and its header page both say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) name: String,
    /// Made ready, not yet in use: see [`spare_name`].
    pub(super) is_spare: bool,
    /// The file's size.
    pub(super) size_bytes: u64,
    /// Bytes that the file system has allocated for it, which may be more or less.
    pub(super) allocated_bytes: u64,
    pub(super) header_bytes: u64,
    /// True if there is room where its first ring block is to be.
    pub(super) begins_with_room: bool,
    pub(super) run: String,
    pub(super) serial: u64,
    /// Largest size that it will reach; 0 if that is not known. Once it is written, its size.
    pub(super) bytes_max: u64,
    pub(super) born: Born,
}

/// When a file was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Born {
    pub(super) wall: Timestamp,
    pub(super) boot_ns: u64,
    pub(super) boot_id: [u8; 16],
}

impl FileFacts {
    /// False once the file says that nothing more will be written to it.
    pub(super) fn is_unfinished(&self) -> bool {
        !is_finished(self.bytes_max, self.size_bytes)
    }

    /// True if it was made ready and never used: it holds no frame.
    pub(super) fn is_empty_spare(&self) -> bool {
        self.is_spare && (self.size_bytes <= self.header_bytes || self.begins_with_room)
    }

    /// The name that the recorder gave it.
    pub(super) fn first_name(&self) -> &str {
        unpacked_name(&self.name).unwrap_or(&self.name)
    }

    /// The lane that it is of, among all runs.
    pub(super) fn lane_of_run(&self) -> (String, Option<LaneId>) {
        let parts = parts_of_name(name_of_spare(self.first_name()).unwrap_or(self.first_name()));
        (self.run.clone(), parts.map(|(lane, _)| lane))
    }

    /// True once it was packed.
    pub(super) fn is_packed(&self) -> bool {
        unpacked_name(&self.name).is_some()
    }

    /// Bytes that it takes now.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.size_bytes.max(self.allocated_bytes)
    }
}

/// A directory whose lock is held.
pub(super) trait Folder {
    /// Its path, for messages.
    fn path(&self) -> &Path;

    /// The state, or a fresh one if there is none.
    fn state(&mut self) -> Result<State, RetentionError>;

    /// Replaces the state, at once or not at all.
    fn set_state(&mut self, state: &State) -> Result<(), RetentionError>;

    /// All files of recordings, in any order. What is not one does not appear.
    fn files(&mut self) -> Result<Vec<FileFacts>, RetentionError>;

    /// Names of files that are pinned, as they were before they were packed.
    fn pinned(&mut self) -> Result<BTreeSet<String>, RetentionError>;

    /// Bytes that are taken by or reserved for what files are being packed into. What no process
    /// works on any more is removed.
    fn drafts_bytes(&mut self) -> Result<u64, RetentionError>;

    /// True if a process still writes for `run`.
    fn is_live(&mut self, run: &str) -> Result<bool, RetentionError>;

    /// Bytes of the file system that are free for this user.
    fn free_bytes(&mut self) -> Result<u64, RetentionError>;

    /// Makes the file system count what deleted files gave back, where it does so only later.
    fn settle_free_bytes(&mut self);

    /// True if there is anything of this name.
    fn exists(&mut self, name: &str) -> Result<bool, RetentionError>;

    /// Deletes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Gives a file that is to be deleted the name `to`, under which no reader looks, to be
    /// overwritten, and returns true. If another process could see that, deletes it and returns
    /// false.
    fn reuse(&mut self, name: &str, to: &str) -> io::Result<bool>;
}

/// Name of a file that is being made of an old one, to be `name` when it is done. Neither readers
/// nor repairs know it: what is in it is neither what was nor what comes.
pub(super) fn reused_name(name: &str) -> String {
    format!("{name}.reused")
}

/// Hidden name under which a file is made ready; it is renamed to `name` when it comes into use.
pub fn spare_name(name: &str) -> String {
    format!(".{name}.next")
}

/// The name that a spare file is to have, or `None` if `name` is no spare's.
pub(crate) fn name_of_spare(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".next")
}
