//! What is pinned in a directory: files that retention keeps, and why
//! (docs/formats/recording-pins.md).
//!
//! A small file of JSON, written under another name and renamed, so that a killed writer leaves the
//! old or the new. What it says is read with each decision, under the directory's lock, and is not
//! remembered: a pin holds as soon as it is written.

use super::RetentionError;
use super::disk::LOCK_NAME;
use crate::dir::Dir;
use crate::file_name::parts_of_name;
use crate::seekable::unpacked_name;
use ringside_core::{LaneId, Timestamp};
use rustix::fs::{self, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the file in the directory.
pub(super) const PINS_NAME: &str = ".ringside.pins";
/// Name under which it is written.
const DRAFT_NAME: &str = ".ringside.pins.next";
/// Version of the file's content.
const VERSION: u32 = 1;
/// Bytes of it that are read: a pin of a hundred thousand files takes 8 MiB.
const BYTES_MAX: usize = 16 << 20;
/// Pins of a directory: a list that a person can still look through.
const PINS_MAX: usize = 1000;
/// Bytes of a note, so that it remains one.
pub const NOTE_BYTES_MAX: usize = 1024;
/// Readable by the directory's group, as the recordings are.
const MODE: u32 = 0o640;

/// A file that a pin keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PinnedFile {
    /// The name that the recorder gave it, also if it was packed since.
    pub name: String,
    /// The lane that it is of.
    pub lane: LaneId,
}

impl PinnedFile {
    /// The file at `path`, which is of this lane; none if its name is not a recorder's: retention
    /// never deletes it.
    pub fn of(path: &Path, lane: LaneId) -> Option<PinnedFile> {
        let name = path.file_name()?.to_str()?;
        let name = unpacked_name(name).unwrap_or(name);
        parts_of_name(name).map(|_| PinnedFile { name: name.to_owned(), lane })
    }
}

/// Files that are kept until the pin is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// By which it is removed; no other pin of the directory ever had it.
    pub id: u64,
    /// What people wrote.
    #[serde(default)]
    pub note: String,
    /// When it was made.
    pub created: Timestamp,
    /// Packets from this time on were asked for,
    #[serde(default)]
    pub from: Option<Timestamp>,
    /// up to this one,
    #[serde(default)]
    pub to: Option<Timestamp>,
    /// that match this expression.
    #[serde(default)]
    pub filter: String,
    /// The files that hold some of them.
    pub files: Vec<PinnedFile>,
}

/// All pins of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    version: u32,
    /// No pin of the directory ever had this id or a greater one.
    next_id: u64,
    pins: Vec<Pin>,
}

impl Default for Pins {
    fn default() -> Pins {
        Pins { version: VERSION, next_id: 1, pins: Vec::new() }
    }
}

impl Pins {
    /// Reads the pins of a directory; none if nothing was ever pinned there.
    ///
    /// # Errors
    /// They cannot be read, or are not what was written: then all files count as pinned.
    pub fn read(dir: &Dir) -> Result<Pins, RetentionError> {
        let entry = dir.entry(PINS_NAME);
        let mut bytes = Vec::new();
        let limit = BYTES_MAX as u64 + 1;
        let read = entry.open_regular(OFlags::RDONLY | OFlags::NONBLOCK);
        match read.and_then(|file: File| file.take(limit).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Pins::default()),
            Err(error) => return Err(unreadable(dir, error.to_string())),
        }
        Pins::decode(&bytes).map_err(|reason| unreadable(dir, reason))
    }

    /// From the bytes of the file; the error says what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Pins, String> {
        if bytes.len() > BYTES_MAX {
            return Err(format!("more than {BYTES_MAX} bytes"));
        }
        let pins: Pins = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match pins.version {
            VERSION => Ok(pins),
            version => Err(format!("it is of version {version}, this program knows {VERSION}")),
        }
    }

    /// In the order in which they were made.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// The id of the next pin.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Names of files that are pinned, as they were before they were packed.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.pins.iter().flat_map(|pin| &pin.files).map(|file| &*file.name).collect()
    }

    /// Adds a pin.
    pub(super) fn add(&mut self, pin: Pin) -> Result<(), String> {
        if self.pins.len() >= PINS_MAX {
            return Err(format!("there are {PINS_MAX} pins already: remove some (unpin)"));
        }
        let next = pin.id.checked_add(1).ok_or("the numbers of pins are used up")?;
        self.next_id = self.next_id.max(next);
        self.pins.push(pin);
        Ok(())
    }

    /// Removes those of these ids; returns them.
    pub(super) fn remove(&mut self, ids: &BTreeSet<u64>) -> Vec<Pin> {
        let (gone, kept) =
            std::mem::take(&mut self.pins).into_iter().partition(|pin| ids.contains(&pin.id));
        self.pins = kept;
        gone
    }

    /// Replaces the pins of a directory whose lock is held.
    pub(super) fn write(&self, dir: &Dir) -> Result<(), RetentionError> {
        let fail =
            |error| RetentionError::io(format!("cannot write {}", path_of(dir).display()), error);
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|e| fail(io::Error::other(e)))?;
        bytes.push(b'\n');
        if bytes.len() > BYTES_MAX {
            let reason = format!("pins of more than {BYTES_MAX} bytes: pin fewer files at once");
            return Err(fail(io::Error::other(reason)));
        }
        let draft = dir.entry(DRAFT_NAME);
        // What a killed writer left.
        let _ = draft.remove();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = draft.open(flags, MODE).map_err(fail)?;
        let _ = fs::fchmod(&file, Mode::from_raw_mode(MODE));
        give_to_owner(dir, &file);
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        fs::renameat(dir, DRAFT_NAME, dir, PINS_NAME).map_err(|error| fail(error.into()))?;
        dir.sync().map_err(fail)
    }
}

/// Who pins may be another user than who records, and the recorder must be able to read it: it
/// belongs to whom the directory's lock belongs, and to the directory's group.
fn give_to_owner(dir: &Dir, file: &File) {
    let lock = fs::statat(dir, LOCK_NAME, fs::AtFlags::SYMLINK_NOFOLLOW);
    if let (Ok(folder), lock) = (fs::fstat(dir), lock) {
        let user = lock.map_or(folder.st_uid, |lock| lock.st_uid);
        let (user, group) = (fs::Uid::from_raw(user), fs::Gid::from_raw(folder.st_gid));
        // Only root can; anybody else's own is right then.
        let _ = fs::fchown(file, Some(user), Some(group));
    }
}

pub(super) fn path_of(dir: &Dir) -> PathBuf {
    dir.path().join(PINS_NAME)
}

fn unreadable(dir: &Dir, reason: String) -> RetentionError {
    RetentionError::PinsUnreadable { path: path_of(dir), reason }
}
