//! The folder of a spool, step by step, so that tests can let the power go between any two.

use crate::error::OutletError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What a spool does with files, by their names.
pub(crate) trait Files: Send {
    /// Names and lengths of all files.
    fn list(&mut self) -> io::Result<Vec<(String, u64)>>;

    /// The first bytes of a file, at most this number.
    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>>;

    /// Makes a file, and has the disk hold what is in it.
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Has the disk hold the names.
    fn sync(&mut self) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A folder that no other process uses.
pub(crate) struct Folder {
    path: PathBuf,
    opened: File,
    /// Holds off other processes.
    _lock: File,
}

impl Folder {
    /// Takes possession of a folder, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Folder, OutletError> {
        let failed = |action, source| OutletError::File { action, path: path.into(), source };
        fs::create_dir_all(path).map_err(|error| failed("making", error))?;
        let opened = File::open(path).map_err(|error| failed("opening", error))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let lock = options.open(path.join("lock")).map_err(|error| failed("opening", error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.into(), opened, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OutletError::Busy { path: path.into() }),
            Err(TryLockError::Error(error)) => Err(failed("locking", error)),
        }
    }
}

impl Files for Folder {
    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // No file of ours has a name that is no text.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                found.push((name, metadata.len()));
            }
        }
        Ok(found)
    }

    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path.join(name))?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(self.path.join(name))?;
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.opened.sync_all()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}
