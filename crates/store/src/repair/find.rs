//! Which files and locks of recordings lie in directories.

use super::report::Unreadable;
use crate::StoreError;
use crate::dir::{Dir, Entry};
use crate::file_name::parts_of_name;
use crate::recording::{FileHeader, HeaderPage, read_header_from, read_stored_header};
use crate::retention::name_of_spare;
use crate::run_lock::{run_lock_name, run_of_lock};
use crate::seekable::unpacked_name;
use ringside_core::{LaneId, Shown, SourceInterface};
use rustix::fs::{FileType, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names in a directory: as many as a reader of recordings takes.
const NAMES_MAX: usize = 1 << 20;

/// Why a file in a directory of recordings is left.
const LOST_HEADER: &str = "its header page cannot be read, and no other file here tells of which \
                           recording it is; left as it is";

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) lane: LaneId,
    pub(super) sequence: u64,
    pub(super) entry: Entry,
    /// The name that it was made ready for.
    pub(super) final_name: Option<String>,
    /// True if its header page is lost.
    pub(super) is_lost: bool,
    serial: u64,
}

/// Everything of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) files: Vec<Found>,
    /// Number of the first ring block of each file that was packed: these had ended, and are not
    /// looked at.
    pub(super) packed: Vec<(LaneId, u64)>,
    /// Locks that are there.
    pub(super) locks: Vec<Entry>,
    /// Directories in which its files lie.
    pub(super) directories: BTreeSet<Dir>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Finds {
    pub(super) runs: BTreeMap<String, Run>,
    /// Files that cannot be read, or that have the name of a recording's file, no header page, and
    /// no run that claims them.
    pub(super) unreadable: Vec<Unreadable>,
    /// Files that were named alone and are of no recording.
    pub(super) captures: Vec<PathBuf>,
    /// Directories without any file of a recording.
    pub(super) empty: Vec<PathBuf>,
    /// Files without a header page, until the runs are known.
    lost: Vec<Lost>,
}

/// A file without a header page.
#[derive(Debug)]
struct Lost {
    entry: Entry,
    /// It was named alone.
    alone: bool,
}

impl Finds {
    /// Looks at `paths`: directories, or single files.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Finds, StoreError> {
        let mut finds = Finds::default();
        for path in paths {
            match path.is_dir() {
                true => finds.add_directory(path)?,
                false => finds.add_alone(path)?,
            }
        }
        finds.claim_lost();
        for run in finds.runs.values_mut() {
            run.files.sort();
            run.files.dedup();
            run.locks.sort();
            run.locks.dedup();
        }
        Ok(finds)
    }

    fn add_directory(&mut self, directory: &Path) -> Result<(), StoreError> {
        let fail =
            |error| StoreError::io(format!("cannot read directory {}", directory.shown()), error);
        let dir = Dir::open(directory).map_err(fail)?;
        let mut found = false;
        for (count, name) in dir.names().map_err(fail)?.enumerate() {
            if count == NAMES_MAX {
                let reason = format!("holds more than {NAMES_MAX} files; name some of them");
                return Err(StoreError::Unusable { path: directory.to_owned(), reason });
            }
            let (name, kind) = name.map_err(fail)?;
            let entry = dir.entry(&name);
            if !is_file(&entry, kind) {
                continue;
            }
            let Some(name) = name.to_str() else { continue };
            if let Some(run) = run_of_lock(name) {
                found = true;
                let run = self.runs.entry(run.to_owned()).or_default();
                run.locks.push(entry);
                run.directories.insert(dir.clone());
            } else if name.ends_with(".pcapng") && !name.starts_with('.')
                || name_of_spare(name).is_some()
            {
                found |= self.add_file(entry, false)?;
            } else if unpacked_name(name).is_some_and(|name| parts_of_name(name).is_some()) {
                found |= self.add_packed(&entry);
            }
        }
        if !found {
            self.empty.push(directory.to_owned());
        }
        Ok(())
    }

    /// Notes a file that was packed; false if no recorder made it.
    fn add_packed(&mut self, entry: &Entry) -> bool {
        let file = entry.open_regular(OFlags::RDONLY);
        let Ok(Some((header, true))) = file.and_then(|file| read_stored_header(&file)) else {
            return false;
        };
        let run = self.runs.entry(header.file.run).or_default();
        run.packed.extend(header.file.first_block.map(|first| (header.file.lane, first)));
        run.directories.insert(entry.dir().clone());
        true
    }

    /// Adds a file that was named itself.
    fn add_alone(&mut self, path: &Path) -> Result<(), StoreError> {
        let entry = Entry::at(path);
        let entry =
            entry.map_err(|e| StoreError::io(format!("cannot read {}", path.shown()), e))?;
        self.add_file(entry, true).map(drop)
    }

    /// Adds a file; one that is named alone brings its lock along. False if it has nothing to do
    /// with recordings.
    fn add_file(&mut self, entry: Entry, alone: bool) -> Result<bool, StoreError> {
        let path = entry.path();
        let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
        let header = match entry.open(OFlags::RDONLY, 0).and_then(|file| read_header_from(&file)) {
            Err(error) if alone => return Err(fail(error)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                let reason = format!("cannot be read: {error}");
                self.unreadable.push(Unreadable { path: path.to_owned(), reason });
                return Ok(true);
            }
            Ok(header) => header,
        };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let final_name = name_of_spare(name).map(str::to_owned);
        let Some(header) = header.map(|header| header.file) else {
            let is_lost = alone || parts_of_name(final_name.as_deref().unwrap_or(name)).is_some();
            if is_lost {
                self.lost.push(Lost { entry, alone });
            }
            return Ok(is_lost);
        };
        // A run whose name cannot be that of a lock is none that a recorder made.
        let Some(lock) = run_lock_name(&header.run) else { return Ok(false) };
        let lock = entry.dir().entry(lock);
        let run = self.runs.entry(header.run).or_default();
        if alone && lock.exists().unwrap_or(true) {
            run.locks.push(lock);
        }
        run.directories.insert(entry.dir().clone());
        run.files.push(Found {
            lane: header.lane,
            sequence: header.sequence,
            entry,
            final_name,
            is_lost: false,
            serial: header.serial,
        });
        Ok(true)
    }

    /// Gives files without a header page to the run that began when their names say, if it is
    /// the only one.
    fn claim_lost(&mut self) {
        let mut owners: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
        for (name, run) in &self.runs {
            for start in run.files.iter().filter_map(|file| start_of(file.entry.path())) {
                owners.entry(start).or_default().insert(name);
            }
        }
        let owner = |path: &Path| {
            let owners = owners.get(&start_of(path)?)?;
            let only = owners.first().filter(|_| owners.len() == 1)?;
            Some((*only).clone())
        };
        let lost = std::mem::take(&mut self.lost).into_iter();
        let lost: Vec<_> = lost.map(|lost| (owner(lost.entry.path()), lost)).collect();
        for (owner, Lost { entry, alone }) in lost {
            let path = entry.path().to_owned();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let final_name = name_of_spare(name).map(str::to_owned);
            let parts = parts_of_name(final_name.as_deref().unwrap_or(name));
            let run = owner.and_then(|owner| self.runs.get_mut(&owner));
            let (Some(run), Some((lane, sequence))) = (run, parts) else {
                if alone {
                    self.captures.push(path);
                } else {
                    self.unreadable.push(Unreadable { path, reason: LOST_HEADER.into() });
                }
                continue;
            };
            let found = Found { lane, sequence, entry, final_name, is_lost: true, serial: 0 };
            run.files.push(found);
        }
    }
}

impl Run {
    /// The header page that the lost one of `found` must have been, from another file of the run:
    /// all its files describe the same interfaces.
    pub(super) fn lost_page(&self, found: &Found) -> Result<Option<HeaderPage>, StoreError> {
        // The one before it in its lane and directory is closest to it in age.
        let siblings = self.files.iter().filter(|file| !file.is_lost);
        let closest = siblings.max_by_key(|file| {
            let same_directory = file.entry.dir() == found.entry.dir();
            let before = file.lane == found.lane && file.sequence < found.sequence;
            (same_directory, before, file.serial)
        });
        let Some(sibling) = closest else { return Ok(None) };
        let context = format!("cannot read {}", sibling.entry.path().shown());
        let fail = |error| StoreError::io(context, error);
        let file = sibling.entry.open(OFlags::RDONLY, 0);
        let header = file.and_then(|file| read_header_from(&file)).map_err(fail)?;
        let Some(header) = header else { return Ok(None) };
        let interfaces: &[SourceInterface] = header.walk.interfaces();
        let lost = FileHeader {
            lane: found.lane,
            sequence: found.sequence,
            first_block: None,
            blocks_complete: 0,
            ..header.file.clone()
        };
        lost.encode(interfaces).map(Some)
    }
}

/// True if it is a regular file; some file systems tell only when each is looked at.
fn is_file(entry: &Entry, kind: FileType) -> bool {
    match kind {
        FileType::Unknown => entry.file_type() == Some(FileType::RegularFile),
        kind => kind.is_file(),
    }
}

/// The start of the run in a file's name, and its interface: `20261121T053000Z-eth1`.
fn start_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name_of_spare(name).unwrap_or(name);
    parts_of_name(name)?;
    name.split_once('-').map(|(start, _)| start.to_owned())
}
