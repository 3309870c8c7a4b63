//! The lock of a run: the process that holds it says that its files are still written.
//!
//! A file `.ringside-RUN.lock` in each directory of the recording, locked by flock(2) through one
//! open file description that the recorder's processes share: the lock lasts until the last of
//! them is gone, however it ends. At a clean end the file is removed; a file that is there and not
//! locked is that of a run that was never ended. Only its owner may open it: a lock can be taken
//! through any descriptor, and who holds it keeps the recorder from starting.

use crate::StoreError;
use crate::dir::{Dir, Entry};
use crate::file_header::RUN_ID_BYTES_MAX;
use crate::writer::LOCK_MODE;
use ringside_core::Shown;
use ringside_sys::file_lock::{self, Holder};
use rustix::fs::{FlockOperation, OFlags, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a lock is tried, with [`RETRY`] between: someone who only asks whether it is held
/// has it for an instant.
const TRIES_MAX: u32 = 20;
const RETRY: Duration = Duration::from_millis(5);

const PREFIX: &str = ".ringside-";
const SUFFIX: &str = ".lock";

/// The lock of one run in one directory. It is given back when the last holder of its descriptor
/// is gone; the file stays unless it is [removed](RunLock::remove).
#[derive(Debug)]
pub struct RunLock {
    file: File,
    entry: Entry,
}

impl RunLock {
    /// Creates and takes the lock of the run `run` in `directory`.
    ///
    /// # Errors
    /// Another process holds it, the name of the run cannot be part of a file's name, or the
    /// system refused.
    pub fn create(directory: &Dir, run: &str) -> Result<RunLock, StoreError> {
        let name = run_lock_name(run).ok_or_else(|| unusable_name(directory.path(), run))?;
        let entry = directory.entry(name);
        let mut holder = None;
        for _ in 0..TRIES_MAX {
            let file = entry.open(OFlags::RDWR | OFlags::CREATE, LOCK_MODE);
            let file = file.map_err(|error| cannot("create", &entry, error))?;
            // If the name leads elsewhere now, the process that held the lock has removed the file.
            if lock(&file, &entry)? && entry.is(&file) {
                return Ok(RunLock { file, entry });
            }
            holder = file_lock::holder(&file).or(holder);
        }
        let who = Holder::name_of(&holder);
        let reason = format!("run {run} is being recorded or repaired by {who}");
        Err(StoreError::Unusable { path: entry.path().to_owned(), reason })
    }

    /// Takes the lock `entry`; `None` if another process holds it, or if it is gone.
    ///
    /// # Errors
    /// It is no regular file, or the system refused.
    pub fn try_take(entry: &Entry) -> Result<Option<RunLock>, StoreError> {
        let file = match entry.open_regular(OFlags::RDWR) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("open the lock", entry, error)),
        };
        let is_taken = lock(&file, entry)? && entry.is(&file);
        Ok(is_taken.then(|| RunLock { file, entry: entry.clone() }))
    }

    /// The lock behind a descriptor that another process of the recorder created and sent: both
    /// hold it from now on. Its directory is opened, and held too.
    ///
    /// # Errors
    /// Its directory cannot be found out or opened, or the file is not there any more.
    pub fn adopt(fd: OwnedFd) -> Result<RunLock, StoreError> {
        let link = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let path = std::fs::read_link(&link)
            .map_err(|error| StoreError::io(format!("cannot read {}", link.shown()), error))?;
        let fail = |error| StoreError::io(format!("cannot adopt {}", path.shown()), error);
        let (file, entry) = (File::from(fd), Entry::at(&path).map_err(fail)?);
        match entry.is(&file) {
            true => Ok(RunLock { file, entry }),
            false => Err(fail(io::Error::other("it is not the file that was locked"))),
        }
    }

    /// The directory that it is in.
    pub fn dir(&self) -> &Dir {
        self.entry.dir()
    }

    /// Where the lock is, for messages.
    pub fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Removes the file: the run has ended in order, or was repaired. Without effect if another
    /// holder did so before.
    ///
    /// # Errors
    /// The system refused; the next start will look at the run again.
    pub fn remove(self) -> Result<(), StoreError> {
        if !self.entry.is(&self.file) {
            return Ok(());
        }
        match self.entry.remove() {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(cannot("remove", &self.entry, error))
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for RunLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Name of the lock of a run; `None` if `run` cannot be part of a file's name.
pub fn run_lock_name(run: &str) -> Option<String> {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let valid = !run.is_empty() && run.len() <= RUN_ID_BYTES_MAX && run.chars().all(is_kept);
    valid.then(|| format!("{PREFIX}{run}{SUFFIX}"))
}

/// The run whose lock has this name.
pub(crate) fn run_of_lock(name: &str) -> Option<&str> {
    let run = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    run_lock_name(run).map(|_| run)
}

/// Takes the lock; false if somebody holds it.
fn lock(file: &File, entry: &Entry) -> Result<bool, StoreError> {
    for _ in 0..TRIES_MAX {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(RETRY),
            Err(error) => return Err(cannot("lock", entry, error.into())),
        }
    }
    Ok(false)
}

/// What the lock of a run says of its recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockState {
    /// There is none: the run has ended in order or was repaired, or this is a copy.
    Absent,
    /// A process holds it: the run is being recorded or repaired.
    Held,
    /// It is there and no process holds it: the recorder was killed.
    Left,
    /// It is there, and another user's: held or left.
    Unknown,
}

/// How the lock of the run `run` in `directory` stands. Who wants the lock meanwhile tries
/// again.
///
/// # Errors
/// The lock cannot be opened or asked.
pub(crate) fn lock_state(directory: &Dir, run: &str) -> io::Result<LockState> {
    // A run whose name cannot be a lock's was never a run that is recorded.
    let Some(name) = run_lock_name(run) else { return Ok(LockState::Absent) };
    let lock = match directory.entry(name).open(OFlags::RDONLY, 0) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LockState::Absent),
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
            return Ok(LockState::Unknown);
        }
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
        // It may have been removed between the two calls, at the end of its run.
        Ok(()) if fstat(&lock)?.st_nlink == 0 => Ok(LockState::Absent),
        Ok(()) => Ok(LockState::Left),
        Err(Errno::WOULDBLOCK) => Ok(LockState::Held),
        Err(error) => Err(error.into()),
    }
}

fn cannot(what: &str, entry: &Entry, error: io::Error) -> StoreError {
    StoreError::io(format!("cannot {what} {}", entry.path().shown()), error)
}

fn unusable_name(directory: &Path, run: &str) -> StoreError {
    let reason = format!("the run {run:?} cannot be part of a file's name");
    StoreError::Unusable { path: directory.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_last_holder_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let place = Dir::open(dir.path()).unwrap();
        let lock = RunLock::create(&place, "20261121T053000Z-1").unwrap();
        let entry = lock.entry.clone();
        let path = dir.path().join(".ringside-20261121T053000Z-1.lock");
        assert_eq!(lock.path(), path);
        let again = RunLock::create(&place, "20261121T053000Z-1").unwrap_err();
        assert!(again.to_string().contains("is being recorded"), "{again}");
        assert!(RunLock::try_take(&entry).unwrap().is_none());

        let other = RunLock::adopt(lock.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(other.path(), path);
        drop(lock);
        assert!(RunLock::try_take(&entry).unwrap().is_none(), "the other holds it");
        drop(other);
        let taken = RunLock::try_take(&entry).unwrap().expect("no process holds it");
        taken.remove().unwrap();
        assert!(!path.exists());
        assert!(RunLock::try_take(&entry).unwrap().is_none());
    }

    #[test]
    fn only_the_lock_that_is_held_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = RunLock::create(&Dir::open(dir.path()).unwrap(), "a").unwrap();
        std::fs::remove_file(old.path()).unwrap();
        let new = RunLock::create(&Dir::open(dir.path()).unwrap(), "a").unwrap();
        old.remove().unwrap();
        assert!(new.path().exists());
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for run in ["", "..", "../x", "a/b", "a b", "\u{e9}", &"x".repeat(129)] {
            let dir = tempfile::tempdir().unwrap();
            let is_plain = run == "..";
            let made = RunLock::create(&Dir::open(dir.path()).unwrap(), run);
            assert_eq!(made.is_ok(), is_plain, "{run:?}");
        }
        assert_eq!(run_of_lock(".ringside-a-1.lock"), Some("a-1"));
        for name in [".ringside.lock", ".ringside-.lock", "x.lock", ".ringside-a/b.lock"] {
            assert_eq!(run_of_lock(name), None, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join(".ringside-a.lock"), dir.path().join("b"));
        std::fs::write(&target, b"").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(RunLock::create(&Dir::open(dir.path()).unwrap(), "a").is_err());
        assert!(RunLock::try_take(&Entry::at(&link).unwrap()).is_err());
    }
}
