//! The files of a kind of records, and which of them are still kept.

use super::StoreOptions;
use crate::columnar::{ENDING, Hour};
use crate::error::OutletError;
use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Ending of files that are being written; their names begin with a dot, too, so that no pattern
/// of a reader finds them.
const PART: &str = ".part";

/// A file that is being written is not older than this; what is, a process left that was killed.
const PART_AGE: Duration = Duration::from_secs(3_600);

const HOUR: u64 = 3_600;

pub(super) struct Folder {
    path: PathBuf,
    bytes_max: Option<u64>,
    hours_max: Option<u64>,
}

impl Folder {
    /// The folder of a kind, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub fn open(options: &StoreOptions, kind: &str) -> Result<Folder, OutletError> {
        let path = options.directory.join(kind);
        let failed = |action, source| OutletError::File { action, path: path.clone(), source };
        fs::create_dir_all(&path).map_err(|error| failed("making", error))?;
        let hours_max = options.age_max.map(|age| age.as_secs().div_ceil(HOUR));
        let folder = Folder { path: path.clone(), bytes_max: options.bytes_max, hours_max };
        folder.remove_parts().map_err(|error| failed("reading", error))?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a file there, in place of one of the same name.
    pub fn put(&self, hour: Hour, token: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.path.join(hour.to_string());
        fs::create_dir_all(&folder)?;
        let part = folder.join(format!(".{token}{PART}"));
        let written = write(&part, bytes)
            .and_then(|()| fs::rename(&part, folder.join(format!("{token}{ENDING}"))))
            // The file's name, and those of folders that were made for it.
            .and_then(|()| folder.ancestors().take(3).try_for_each(sync));
        if written.is_err() {
            // A full disk needs the room; what cannot be removed is removed by a later run.
            let _ = fs::remove_file(&part);
        }
        written
    }

    /// Removes the oldest hours, as far as there is too much of them; never the newest.
    pub fn retain(&self) -> io::Result<()> {
        if self.bytes_max.is_none() && self.hours_max.is_none() {
            return Ok(());
        }
        let hours = self.hours()?;
        let Some((&newest, _)) = hours.last_key_value() else { return Ok(()) };
        let mut bytes: u64 = hours.values().flatten().map(|(_, bytes)| bytes).sum();
        for (&hour, files) in hours.iter().filter(|(hour, _)| **hour != newest) {
            let is_old = self.hours_max.is_some_and(|most| hour.behind(newest) > most);
            if !is_old && self.bytes_max.is_none_or(|most| bytes <= most) {
                continue;
            }
            for (path, length) in files {
                remove(path)?;
                bytes -= length;
            }
            let folder = self.path.join(hour.to_string());
            // Only what is empty goes.
            let _ = fs::remove_dir(&folder).and_then(|()| match folder.parent() {
                Some(day) => fs::remove_dir(day),
                None => Ok(()),
            });
        }
        Ok(())
    }

    /// Files by hour, with their lengths: those that are ours by their names.
    fn hours(&self) -> io::Result<BTreeMap<Hour, Vec<(PathBuf, u64)>>> {
        let mut hours: BTreeMap<Hour, Vec<_>> = BTreeMap::new();
        self.visit(|hour, file, name| {
            if name.strip_suffix(ENDING).is_some_and(is_token) {
                hours.entry(hour).or_default().push((file.path(), file.metadata()?.len()));
            }
            Ok(())
        })?;
        Ok(hours)
    }

    /// Removes what a process that was killed was writing.
    fn remove_parts(&self) -> io::Result<()> {
        self.visit(|_, file, name| {
            let token = name.strip_prefix('.').and_then(|name| name.strip_suffix(PART));
            let is_old = || {
                let age = file.metadata()?.modified()?.elapsed();
                // One from the future is not being written either, but may be a clock's mistake.
                Ok::<_, io::Error>(age.is_ok_and(|age| age > PART_AGE))
            };
            if token.is_some_and(is_token) && is_old()? {
                remove(&file.path())?;
            }
            Ok(())
        })
    }

    /// Looks at all files in folders of hours.
    fn visit(
        &self,
        mut look: impl FnMut(Hour, &DirEntry, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        for (day, day_name) in entries(&self.path)? {
            for (hour, hour_name) in entries(&day.path())? {
                let Some(hour_read) = Hour::read(&day_name, &hour_name) else { continue };
                for (file, name) in entries(&hour.path())? {
                    match look(hour_read, &file, &name) {
                        // Another process removes files too.
                        Err(error) if error.kind() == ErrorKind::NotFound => {}
                        looked => looked?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is in a folder, with names that are text; nothing if it is none, or gone.
fn entries(path: &Path) -> io::Result<Vec<(DirEntry, String)>> {
    let found = match fs::read_dir(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        found => found?,
    };
    let named = |entry: io::Result<DirEntry>| match entry {
        Ok(entry) => entry.file_name().into_string().ok().map(|name| Ok((entry, name))),
        Err(error) => Some(Err(error)),
    };
    found.filter_map(named).collect()
}

/// The run, 32 hexadecimal digits, and the number of a batch.
fn is_token(text: &str) -> bool {
    let Some((run, sequence)) = text.split_once('-') else { return false };
    let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    run.len() == 32
        && run.bytes().all(is_hex)
        && !sequence.is_empty()
        && sequence.bytes().all(|byte| byte.is_ascii_digit())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// Has the disk hold the names in a folder.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
