//! What a file of a recording asks of the file system, so that tests can be the file system: one
//! that fails, writes short and loses what was not synced.

use crate::dir::Entry;
use ringside_sys::disk;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// An open file. What is done through all of its handles is done to one file.
pub trait Storage: Sized {
    /// Writes `bytes` at `offset`. Returns how many were written, also when it fails.
    fn write_counted(&self, bytes: &[u8], offset: u64) -> (usize, io::Result<()>);

    /// Makes the file that long; gives back what is reserved beyond.
    ///
    /// # Errors
    /// The system refused.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Waits until the content is on the medium, with what is needed to read it.
    ///
    /// # Errors
    /// The system refused: what was written may be lost, and no later call tells.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`sync_data`](Storage::sync_data), with all that the file system keeps of the file.
    ///
    /// # Errors
    /// As there.
    fn sync_all(&self) -> io::Result<()>;

    /// Sends the first `bytes` to the disk and waits until it has them.
    ///
    /// # Errors
    /// The disk did not take them.
    fn write_out(&self, bytes: u64) -> io::Result<()>;

    /// Reserves room for bytes `from..from + bytes` without changing the size.
    ///
    /// # Errors
    /// There is none, or the file system cannot reserve.
    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()>;

    /// Another handle.
    ///
    /// # Errors
    /// The system refused.
    fn duplicate(&self) -> io::Result<Self>;

    /// A handle that writes past the page cache; `None` where that cannot be had, or if the name
    /// leads to another file by now.
    fn open_direct(&self, entry: &Entry) -> Option<Self>;

    /// Gives the file, whose name is `from`, the name `to`, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the system refused.
    fn rename(&self, from: &Entry, to: &Entry) -> io::Result<()>;
}

impl Storage for File {
    fn write_counted(&self, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
        disk::write_counted(self, bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn write_out(&self, bytes: u64) -> io::Result<()> {
        disk::write_out(self, bytes)
    }

    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        disk::preallocate(self, from, bytes).map_err(io::Error::other)
    }

    fn duplicate(&self) -> io::Result<File> {
        self.try_clone()
    }

    fn open_direct(&self, entry: &Entry) -> Option<File> {
        let direct = disk::open_direct(entry.dir(), entry.name()).ok().flatten()?;
        let identity = |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino()));
        (identity(&direct)? == identity(self)?).then_some(direct)
    }

    fn rename(&self, from: &Entry, to: &Entry) -> io::Result<()> {
        from.rename(to)
    }
}
