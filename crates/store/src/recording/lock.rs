//! The lock of a run: the process that holds it says that its files are still written.
//!
//! A file `.ringside-RUN.lock` in each directory of the recording, locked by flock(2) through one
//! open file description that the recorder's processes share: the lock lasts until the last of
//! them is gone, however it ends. At a clean end the file is removed; a file that is there and not
//! locked is that of a run that was never ended. Only its owner may open it: a lock can be taken
//! through any descriptor, and who holds it keeps the recorder from starting.

use crate::StoreError;
use crate::writer::LOCK_MODE;
use ringside_sys::file_lock::{self, Holder};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, fstat, open, openat, statat,
};
use rustix::io::Errno;
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
    fd: OwnedFd,
    path: PathBuf,
}

impl RunLock {
    /// Creates and takes the lock of the run `run` in `directory`.
    ///
    /// # Errors
    /// Another process holds it, the name of the run cannot be part of a file's name, or the
    /// system refused.
    pub fn create(directory: &Path, run: &str) -> Result<RunLock, StoreError> {
        let path = directory.join(run_lock_name(run).ok_or_else(|| unusable_name(directory, run))?);
        let mut holder = None;
        for _ in 0..TRIES_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let fd = open(&path, flags | SAFELY, Mode::from_raw_mode(LOCK_MODE));
            let fd = fd.map_err(|error| cannot("create", &path, error))?;
            // If the name leads elsewhere now, the process that held the lock has removed the file.
            if lock(&fd, &path)? && is_current(&fd, &path) {
                return Ok(RunLock { fd, path });
            }
            holder = file_lock::holder(&fd).or(holder);
        }
        let who = Holder::name_of(&holder);
        let reason = format!("run {run} is being recorded or repaired by {who}");
        Err(StoreError::Unusable { path, reason })
    }

    /// Takes the lock at `path`; `None` if another process holds it, or if it is gone.
    ///
    /// # Errors
    /// It is no regular file, or the system refused.
    pub fn try_take(path: &Path) -> Result<Option<RunLock>, StoreError> {
        let fd = match open(path, OFlags::RDWR | SAFELY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(cannot("open", path, error)),
        };
        let found = fstat(&fd).map_err(|error| cannot("look at", path, error))?;
        if !FileType::from_raw_mode(found.st_mode).is_file() {
            let reason = "is no lock of a run: not a regular file".into();
            return Err(StoreError::Unusable { path: path.to_owned(), reason });
        }
        let is_taken = lock(&fd, path)? && is_current(&fd, path);
        Ok(is_taken.then(|| RunLock { fd, path: path.to_owned() }))
    }

    /// The lock behind a descriptor that another process of the recorder created and sent: both
    /// hold it from now on.
    ///
    /// # Errors
    /// The path of the file cannot be found out.
    pub fn adopt(fd: OwnedFd) -> Result<RunLock, StoreError> {
        let link = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let path = std::fs::read_link(&link)
            .map_err(|error| StoreError::io(format!("cannot read {}", link.display()), error))?;
        Ok(RunLock { fd, path })
    }

    /// Where the lock is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file: the run has ended in order, or was repaired. Without effect if another
    /// holder did so before.
    ///
    /// # Errors
    /// The system refused; the next start will look at the run again.
    pub fn remove(self) -> Result<(), StoreError> {
        if !is_current(&self.fd, &self.path) {
            return Ok(());
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io(format!("cannot remove {}", self.path.display()), error))
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for RunLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Neither waits for a FIFO, nor follows a link, nor lives on in programs that are started.
const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Name of the lock of a run; `None` if `run` cannot be part of a file's name.
pub fn run_lock_name(run: &str) -> Option<String> {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let valid = !run.is_empty() && run.len() <= super::RUN_ID_BYTES_MAX && run.chars().all(is_kept);
    valid.then(|| format!("{PREFIX}{run}{SUFFIX}"))
}

/// The run whose lock has this name.
pub(crate) fn run_of_lock(name: &str) -> Option<&str> {
    let run = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    run_lock_name(run).map(|_| run)
}

/// Takes the lock; false if somebody holds it.
fn lock(fd: &OwnedFd, path: &Path) -> Result<bool, StoreError> {
    for _ in 0..TRIES_MAX {
        match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(RETRY),
            Err(error) => return Err(cannot("lock", path, error)),
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

/// How the lock of the run `run` in the directory `at` stands. Who wants the lock meanwhile tries
/// again.
///
/// # Errors
/// The lock cannot be opened or asked.
pub(crate) fn lock_state(at: impl AsFd, run: &str) -> std::io::Result<LockState> {
    // A run whose name cannot be a lock's was never a run that is recorded.
    let Some(name) = run_lock_name(run) else { return Ok(LockState::Absent) };
    let lock = match openat(at, name.as_str(), OFlags::RDONLY | SAFELY, Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(LockState::Absent),
        Err(Errno::ACCESS) => return Ok(LockState::Unknown),
        Err(error) => return Err(error.into()),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
        // It may have been removed between the two calls, at the end of its run.
        Ok(()) if fstat(&lock)?.st_nlink == 0 => Ok(LockState::Absent),
        Ok(()) => Ok(LockState::Left),
        Err(Errno::WOULDBLOCK) => Ok(LockState::Held),
        Err(error) => Err(error.into()),
    }
}

/// True if `path` still names the file behind `fd`.
fn is_current(fd: &OwnedFd, path: &Path) -> bool {
    let named = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(named), Ok(held)) = (named, fstat(fd)) else { return false };
    (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
}

fn cannot(what: &str, path: &Path, error: Errno) -> StoreError {
    StoreError::io(format!("cannot {what} {}", path.display()), error.into())
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
        let lock = RunLock::create(dir.path(), "20261121T053000Z-1").unwrap();
        let path = dir.path().join(".ringside-20261121T053000Z-1.lock");
        assert_eq!(lock.path(), path);
        let again = RunLock::create(dir.path(), "20261121T053000Z-1").unwrap_err();
        assert!(again.to_string().contains("is being recorded"), "{again}");
        assert!(RunLock::try_take(&path).unwrap().is_none());

        let other = RunLock::adopt(lock.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(other.path(), path);
        drop(lock);
        assert!(RunLock::try_take(&path).unwrap().is_none(), "the other holds it");
        drop(other);
        let taken = RunLock::try_take(&path).unwrap().expect("no process holds it");
        taken.remove().unwrap();
        assert!(!path.exists());
        assert!(RunLock::try_take(&path).unwrap().is_none());
    }

    #[test]
    fn only_the_lock_that_is_held_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = RunLock::create(dir.path(), "a").unwrap();
        std::fs::remove_file(old.path()).unwrap();
        let new = RunLock::create(dir.path(), "a").unwrap();
        old.remove().unwrap();
        assert!(new.path().exists());
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for run in ["", "..", "../x", "a/b", "a b", "\u{e9}", &"x".repeat(129)] {
            let dir = tempfile::tempdir().unwrap();
            let is_plain = run == "..";
            assert_eq!(RunLock::create(dir.path(), run).is_ok(), is_plain, "{run:?}");
        }
        assert_eq!(run_of_lock(".ringside-a-1.lock"), Some("a-1"));
        for name in [".ringside.lock", ".ringside-.lock", "x.lock", ".ringside-a/b.lock"] {
            assert_eq!(run_of_lock(name), None, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join(".ringside-a.lock"), dir.path().join("b"));
        std::fs::write(&target, b"").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(RunLock::create(dir.path(), "a").is_err());
        assert!(RunLock::try_take(&link).is_err());
    }
}
