//! A disk whose power goes, with one directory: every call may fail, and after the last one all do.

use super::body::{Body, Crash};
use super::file::SimulatedFile;
use super::names::{Directory, Names};
use ringside_store::dir::Entry;
use ringside_testkit::Random;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// The whole disk.
pub(super) struct State {
    random: Random,
    /// One call in this number fails; 0 for none.
    fault_in: usize,
    /// Calls until the power goes.
    left: usize,
    files: Vec<Body>,
    names: Names,
}

/// A handle of the disk.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub(super) fn new(seed: u64, fault_in: usize, calls: usize) -> Disk {
        let (random, names) = (Random::new(seed), Names::default());
        let state = State { random, fault_in, left: calls, files: Vec::new(), names };
        Disk(Arc::new(Mutex::new(state)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.lock().has_crashed()
    }

    /// Makes a file.
    pub(super) fn create(&self, entry: &Entry, takes_direct: bool) -> io::Result<SimulatedFile> {
        let index = self.lock().create(text(entry))?;
        Ok(SimulatedFile::new(self.clone(), index, takes_direct))
    }

    /// Writes to `directory` what a crash leaves.
    pub(super) fn leave(&self, directory: &Path, crash: Crash) {
        let state = &mut *self.lock();
        for (name, index) in state.names.left(crash, &mut state.random) {
            let file = File::create_new(directory.join(name)).unwrap();
            state.files[index].leave(&file, crash, &mut state.random);
        }
    }
}

pub(super) fn text(entry: &Entry) -> &str {
    entry.name().to_str().unwrap()
}

impl State {
    /// A call is made: it may fail, and after the last one all do.
    pub(super) fn call(&mut self) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(Errno::IO.into());
        }
        if self.fault_in == 0 || self.random.below(self.fault_in) != 0 {
            return Ok(());
        }
        Err([Errno::IO, Errno::NOSPC][self.random.below(2)].into())
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.left == 0
    }

    /// A call is made that succeeds unless the power is gone.
    pub(super) fn read_call(&self) -> io::Result<&State> {
        if self.has_crashed() { Err(Errno::IO.into()) } else { Ok(self) }
    }

    pub(super) fn names(&self) -> &Directory {
        self.names.now()
    }

    /// Bytes of a file.
    pub(super) fn bytes(&self, file: usize) -> u64 {
        self.files[file].size()
    }

    /// Makes a file whose name is free. Returns its number.
    pub(super) fn create(&mut self, name: &str) -> io::Result<usize> {
        self.call()?;
        self.files.push(Body::new());
        let file = self.files.len() - 1;
        self.names.add(name, file);
        Ok(file)
    }

    /// Deletes the name of a file that is there.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.call()?;
        self.names.remove(name);
        Ok(())
    }

    /// Renames a file that is there.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.call()?;
        self.names.rename(from, to);
        Ok(())
    }

    /// Reads at most `bytes`.
    pub(super) fn read(&self, file: usize, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        Ok(self.read_call()?.files[file].read(offset, bytes))
    }

    /// Writes `bytes` from `offset` on. Returns how many were written, whole `step`s, also when it
    /// fails.
    pub(super) fn write(
        &mut self,
        file: usize,
        bytes: &[u8],
        offset: u64,
        step: usize,
    ) -> (usize, io::Result<()>) {
        let was_there = !self.has_crashed();
        let result = self.call();
        let written = match (&result, was_there) {
            (Ok(()), _) => bytes.len(),
            (Err(_), false) => 0,
            // It ends anywhere.
            (Err(_), true) => self.random.below(bytes.len() + 1) / step * step,
        };
        self.files[file].write(&bytes[..written], offset);
        (written, result)
    }

    pub(super) fn set_len(&mut self, file: usize, bytes: u64) -> io::Result<()> {
        self.call()?;
        self.files[file].set_len(bytes);
        Ok(())
    }

    /// Syncs a file, and all names.
    pub(super) fn sync(&mut self, file: usize) -> io::Result<()> {
        self.call().inspect_err(|_| self.files[file].lose())?;
        self.files[file].sync();
        self.names.settle();
        Ok(())
    }

    pub(super) fn sync_names(&mut self) -> io::Result<()> {
        self.call()?;
        self.names.settle();
        Ok(())
    }
}
