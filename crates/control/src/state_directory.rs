//! Where running processes leave what others must find: sockets, and the journal of knobs.
//!
//! `/run/ringside`, or the user's own runtime directory: memory that is empty after a system start,
//! as the settings are that it tells of.

use anyhow::{Context, bail};
use ringside_core::Shown;
use ringside_sys::file_lock::{self, Holder};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directory of root's processes.
const SYSTEM_DIRECTORY: &str = "/run/ringside";
/// Longest wait for the lock of a directory. Its holder reads a few small files.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often a lock is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// A directory that may or may not exist.
pub struct StateDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Mode that a new one gets.
    mode: u32,
}

/// The directories, in the order in which they are tried.
pub fn candidates() -> Vec<StateDirectory> {
    // Others may see that something runs; what it says is behind the mode of the file.
    let system = StateDirectory { path: PathBuf::from(SYSTEM_DIRECTORY), mode: 0o755 };
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = user.filter(|path| path.is_absolute());
    let user = user.map(|path| StateDirectory { path: path.join("ringside"), mode: 0o700 });
    std::iter::once(system).chain(user).collect()
}

impl StateDirectory {
    /// Another place; if it is missing, only its owner may enter it.
    pub fn at(path: &Path) -> StateDirectory {
        StateDirectory { path: path.to_owned(), mode: 0o700 }
    }

    /// Makes it if it is missing.
    ///
    /// # Errors
    /// The system refused.
    pub fn make(&self) -> anyhow::Result<()> {
        match DirBuilder::new().mode(self.mode).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot make {}", self.path.shown()))
            }
            _ => Ok(()),
        }
    }
}

/// Name of the file that is locked. A directory that others may open could be locked by them too.
const LOCK: &str = ".lock";

/// Holds the lock of the first directory in which one can be made, for what happens elsewhere; none
/// if there is no such directory.
///
/// # Errors
/// Another process holds it for too long.
pub fn lock_first() -> anyhow::Result<Option<File>> {
    let open = |directory: StateDirectory| {
        directory.make().ok()?;
        let path = directory.path.join(LOCK);
        Some((open_lock(&path).ok()?, path))
    };
    let first = candidates().into_iter().find_map(open);
    first.map(|(file, path)| take(file, &path)).transpose()
}

/// Holds the lock of a directory until the file is dropped; makes the file that is locked.
///
/// # Errors
/// The directory cannot be written, or another process holds the lock for too long.
pub fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join(LOCK);
    let file = open_lock(&path).with_context(|| format!("opening {}", path.shown()))?;
    take(file, &path)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // No link is followed, and no FIFO waited for.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    options.open(path)
}

fn take(file: File, path: &Path) -> anyhow::Result<File> {
    let start = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN) if start.elapsed() < LOCK_WAIT_MAX => std::thread::sleep(RETRY),
            Err(Errno::AGAIN) => {
                let who = Holder::name_of(&file_lock::holder(&file));
                bail!(
                    "{} has been locked by {who} for {} s; if it is stopped, let it go on or end \
                     it",
                    path.shown(),
                    LOCK_WAIT_MAX.as_secs()
                );
            }
            Err(error) => return Err(error).with_context(|| format!("locking {}", path.shown())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_lock_is_its_owners_file_and_who_keeps_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let mode = held.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // What others may do to the directory is nothing to it.
        let other = File::open(folder.path()).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let error = lock(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("by process {} (", std::process::id())), "{error}");
        drop(held);
        lock(folder.path()).unwrap();
    }

    #[test]
    fn a_lock_that_leads_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(LOCK)).unwrap();
        assert!(lock(folder.path()).is_err());
    }
}
