//! A file of a simulated disk as the recorder sees one, without a file system around it.

use super::body::PAGE_BYTES;
use super::disk::{Disk, text};
use ringside_store::dir::Entry;
use ringside_store::recording::Storage;
use std::io;

/// A handle of a file.
pub(super) struct SimulatedFile {
    disk: Disk,
    index: usize,
    is_direct: bool,
    /// Direct writes can be had.
    takes_direct: bool,
}

impl SimulatedFile {
    /// A handle of file `index`; `takes_direct` says whether direct writes can be had.
    pub(super) fn new(disk: Disk, index: usize, takes_direct: bool) -> SimulatedFile {
        SimulatedFile { disk, index, is_direct: false, takes_direct }
    }

    fn another(&self, is_direct: bool) -> SimulatedFile {
        let SimulatedFile { index, takes_direct, .. } = *self;
        SimulatedFile { disk: self.disk.clone(), index, is_direct, takes_direct }
    }
}

impl Storage for SimulatedFile {
    fn write_counted(&self, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
        if self.is_direct {
            let is_whole = |number: usize| number.is_multiple_of(PAGE_BYTES);
            assert!(is_whole(bytes.len()) && is_whole(offset as usize), "no direct write");
            assert!(is_whole(bytes.as_ptr().addr()), "nor from such memory");
        }
        let step = if self.is_direct { PAGE_BYTES } else { 1 };
        self.disk.lock().write(self.index, bytes, offset, step)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.lock().set_len(self.index, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().sync(self.index)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn write_out(&self, _bytes: u64) -> io::Result<()> {
        self.disk.lock().call()
    }

    fn reserve(&self, _from: u64, _bytes: u64) -> io::Result<()> {
        self.disk.lock().call()
    }

    fn duplicate(&self) -> io::Result<SimulatedFile> {
        Ok(self.another(false))
    }

    fn open_direct(&self, _entry: &Entry) -> Option<SimulatedFile> {
        self.takes_direct.then(|| self.another(true))
    }

    fn rename(&self, from: &Entry, to: &Entry) -> io::Result<()> {
        self.disk.lock().rename(text(from), text(to))
    }
}
