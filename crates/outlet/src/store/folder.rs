//! The files of a kind of records, and which of them are still kept.
//!
//! No step goes through a symbolic link: who may write into a folder of the store cannot have a
//! process with more rights write or delete elsewhere.

use super::StoreOptions;
use crate::columnar::{ENDING, Hour};
use crate::error::OutletError;
use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::fs::{accessat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Ending of files that are being written; their names begin with a dot, too, so that no pattern
/// of a reader finds them.
const PART: &str = ".part";

/// A file that is being written is not older than this; what is, a process left that was killed.
const PART_AGE: Duration = Duration::from_secs(3_600);

/// Between two looks at all files, where a limit may be reached by what other processes write, or
/// by age.
const LOOK: Duration = Duration::from_secs(600);

/// How far clocks are apart, of this machine and of who writes into the same store.
const CLOCK_SLACK: Duration = Duration::from_secs(86_400);

/// What is deleted at once beyond the limit of size, as a part of it: not each batch asks for a
/// look at all files.
const SPARE_PART: u64 = 20;

/// Files and folders are for the user and the group: they hold what packets say.
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

pub(super) struct Folder {
    path: PathBuf,
    opened: OwnedFd,
    bytes_max: Option<u64>,
    age_max: Option<Duration>,
    /// Of all files at the last look, and of those that were written since.
    bytes: u64,
    next_look: Instant,
}

/// A file that is there.
struct Kept {
    written: SystemTime,
    hour: Hour,
    name: String,
    bytes: u64,
}

impl Folder {
    /// The folder of a kind, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made or read, or is a link.
    pub fn open(options: &StoreOptions, kind: &str) -> Result<Folder, OutletError> {
        let path = options.directory.join(kind);
        let failed = |action, source| OutletError::File { action, path: path.clone(), source };
        fs::create_dir_all(&options.directory).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => failed("making", ErrorKind::NotADirectory.into()),
            _ => failed("making", error),
        })?;
        let all =
            openat(CWD, &options.directory, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
        let opened = all.and_then(|all| folder(all.as_fd(), kind));
        let opened = opened.map_err(|error| failed("opening", error.into()))?;
        accessat(&opened, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| failed("writing into", error.into()))?;
        let folder = Folder {
            path: path.clone(),
            opened,
            bytes_max: options.bytes_max,
            age_max: options.age_max,
            bytes: 0,
            next_look: Instant::now(),
        };
        folder.remove_parts().map_err(|error| failed("reading", error))?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a file there, in place of one of the same name.
    pub fn put(&mut self, hour: Hour, token: &str, bytes: &[u8]) -> io::Result<()> {
        let (day_name, hour_name) = hour.folders();
        let day = folder(self.opened.as_fd(), &day_name)?;
        let hour = folder(day.as_fd(), &hour_name)?;
        let part = format!(".{token}{PART}");
        let written = write(hour.as_fd(), &part, bytes)
            .and_then(|()| Ok(renameat(&hour, &part, &hour, format!("{token}{ENDING}"))?))
            .and_then(|()| sync(hour.as_fd()))
            // The names of its folders: a try before, or another process, may have made them.
            .and_then(|()| sync(day.as_fd()))
            .and_then(|()| sync(self.opened.as_fd()));
        if written.is_err() {
            // A full disk needs the room; what cannot be removed is removed by a later run.
            let _ = unlinkat(&hour, &part, AtFlags::empty());
        }
        written?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Removes what was written first, as far as there is too much or it is too old by now, but
    /// nothing of the batch `token`: the order is that in which files came here, since stamps of
    /// packets may say anything. What cannot be removed stays, and the first reason is given.
    pub fn retain(&mut self, token: &str) -> io::Result<()> {
        let is_full = |bytes| self.bytes_max.is_some_and(|most| bytes > most);
        let is_due = self.next_look <= Instant::now();
        if self.bytes_max.is_none() && self.age_max.is_none() || !is_full(self.bytes) && !is_due {
            return Ok(());
        }
        self.next_look = Instant::now() + LOOK;
        let (mut files, now) = (self.files()?, SystemTime::now());
        // What a clock wrote that was ahead comes before everything else: nothing is younger.
        let written = |file: &Kept| {
            let is_ahead = file.written > now + CLOCK_SLACK;
            if is_ahead { SystemTime::UNIX_EPOCH } else { file.written }
        };
        files.sort_by(|one, other| {
            (written(one), one.hour, &one.name).cmp(&(written(other), other.hour, &other.name))
        });
        self.bytes = files.iter().map(|file| file.bytes).sum();
        let most = self.bytes_max.filter(|most| self.bytes > *most);
        let most = most.map(|most| most - most / SPARE_PART);
        let mut outcome = Ok(());
        for file in files.iter().filter(|file| !file.name.starts_with(token)) {
            let age = now.duration_since(file.written).unwrap_or_default();
            let is_old = self.age_max.is_some_and(|most| age > most);
            if !is_old && most.is_none_or(|most| self.bytes <= most) {
                break;
            }
            // Others do not go in place of what cannot be deleted: the limit is for the rest.
            self.bytes -= file.bytes;
            outcome = outcome.and(self.remove(file));
        }
        outcome
    }

    /// Removes a file, and its folders if nothing else is in them.
    fn remove(&self, file: &Kept) -> io::Result<()> {
        let (day_name, hour_name) = file.hour.folders();
        let named = |error: Errno| {
            let path = self.path.join(&day_name).join(&hour_name).join(&file.name);
            io::Error::other(format!("{} cannot be deleted: {error}", path.display()))
        };
        let Some(day) = at(self.opened.as_fd(), &day_name).map_err(named)? else { return Ok(()) };
        let Some(hour) = at(day.as_fd(), &hour_name).map_err(named)? else { return Ok(()) };
        match unlinkat(&hour, &file.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(named(error)),
        }
        // Only what is empty goes.
        let _ = unlinkat(&day, &hour_name, AtFlags::REMOVEDIR)
            .and_then(|()| unlinkat(&self.opened, &day_name, AtFlags::REMOVEDIR));
        Ok(())
    }

    /// Files that are ours by their names.
    fn files(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        self.visit(|hour, folder, name| {
            if name.strip_suffix(ENDING).is_some_and(is_token)
                && let Some((written, bytes)) = file(folder, name)?
            {
                files.push(Kept { written, hour, name: name.to_owned(), bytes });
            }
            Ok(())
        })?;
        Ok(files)
    }

    /// Removes what a process that was killed was writing.
    fn remove_parts(&self) -> io::Result<()> {
        self.visit(|_, folder, name| {
            let token = name.strip_prefix('.').and_then(|name| name.strip_suffix(PART));
            let Some((written, _)) =
                token.filter(|token| is_token(token)).map_or(Ok(None), |_| file(folder, name))?
            else {
                return Ok(());
            };
            // One from the future is not being written either, but may be a clock's mistake.
            if written.elapsed().is_ok_and(|age| age > PART_AGE) {
                // Another process may have been faster, or own it.
                let _ = unlinkat(folder, name, AtFlags::empty());
            }
            Ok(())
        })
    }

    /// Looks at all names in folders of hours.
    fn visit(
        &self,
        mut look: impl FnMut(Hour, BorrowedFd<'_>, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        for day_name in names(self.opened.as_fd())? {
            let Some(day) = at(self.opened.as_fd(), &day_name)? else { continue };
            for hour_name in names(day.as_fd())? {
                let Some(hour) = Hour::read(&day_name, &hour_name) else { continue };
                let Some(folder) = at(day.as_fd(), &hour_name)? else { continue };
                for name in names(folder.as_fd())? {
                    look(hour, folder.as_fd(), &name)?;
                }
            }
        }
        Ok(())
    }
}

/// A folder in a folder, which is made if it is not there.
fn folder(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, name, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => openat(parent, name, FOLDER, Mode::empty()),
        Err(error) => Err(error),
    }
}

/// A folder in a folder; `None` if there is none of that name, or something else.
fn at(parent: BorrowedFd<'_>, name: &str) -> Result<Option<OwnedFd>, Errno> {
    match openat(parent, name, FOLDER, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names in a folder, as far as they are text.
fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        names.extend(
            entry.file_name().to_str().ok().filter(|name| !is_dots(name)).map(str::to_owned),
        );
    }
    Ok(names)
}

fn is_dots(name: &str) -> bool {
    name == "." || name == ".."
}

/// When a file was written, and its length; `None` if it is none, or gone.
fn file(folder: BorrowedFd<'_>, name: &str) -> io::Result<Option<(SystemTime, u64)>> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or_default());
    let since = seconds.saturating_add(Duration::from_nanos(stat.st_mtime_nsec as u64));
    let written = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some((written, u64::try_from(stat.st_size).unwrap_or_default())))
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

fn write(folder: BorrowedFd<'_>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let opened = match openat(folder, name, NEW_FILE, FILE_MODE) {
        // Of a try before, whose end could not remove it.
        Err(Errno::EXIST) => {
            unlinkat(folder, name, AtFlags::empty())?;
            openat(folder, name, NEW_FILE, FILE_MODE)
        }
        opened => opened,
    };
    let mut file = File::from(opened?);
    file.write_all(bytes)?;
    file.sync_data()
}

/// Has the disk hold the names in a folder.
fn sync(folder: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fsync(folder)?)
}
