//! Where running processes leave what others must find: sockets, and the journal of knobs.
//!
//! `/run/ringside`, or the user's own runtime directory: memory that is empty after a system start,
//! as the settings are that it tells of.

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directory of root's processes.
const SYSTEM_DIRECTORY: &str = "/run/ringside";
/// Longest wait for the lock of a directory. Whoever holds it looks at a few small files.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often a lock is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// A directory that may or may not exist.
pub struct StateDirectory {
    /// Where.
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
    /// Another place, for tests.
    #[cfg(test)]
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
                Err(error).with_context(|| format!("cannot make {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Holds the lock of a directory until the file is dropped.
///
/// # Errors
/// The directory cannot be opened, or another process holds the lock for too long.
pub fn lock(directory: &Path) -> anyhow::Result<File> {
    let file = File::open(directory).with_context(|| format!("opening {}", directory.display()))?;
    let start = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN) if start.elapsed() < LOCK_WAIT_MAX => std::thread::sleep(RETRY),
            Err(error) => {
                return Err(error).with_context(|| format!("locking {}", directory.display()));
            }
        }
    }
}
