//! A store of records on this machine: files of Parquet that every engine reads, in folders by
//! kind, day and hour: `docs/howto/store.md`.
//!
//! A batch is a file for each hour of its records, with the batch's token as its name: when it is
//! delivered again, the same files take the place of those that are there. A file has its name once
//! it is on the disk, so that who reads the store sees whole ones alone.

mod folder;

use crate::batch::Batch;
use crate::columnar::{Columnar, Hour, WrongRecord};
use crate::engine::{Engine, Outcome};
use crate::error::OutletError;
use folder::Folder;
use ringside_record::Record;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Where records are kept, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The folder of all kinds.
    pub directory: PathBuf,
    /// Most bytes of the files of a kind; the oldest hours go first.
    pub bytes_max: Option<u64>,
    /// Hours that lie so far behind the newest go.
    pub age_max: Option<Duration>,
}

impl StoreOptions {
    /// What people know the files of a kind by.
    pub(crate) fn name(&self, kind: &str) -> String {
        format!("store:{}", self.directory.join(kind).display())
    }
}

/// Writes batches as files.
pub(crate) struct Store {
    columnar: Columnar,
    folder: Folder,
}

impl Store {
    /// For records `R`, which are called `kind`.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open<R: Record>(options: &StoreOptions, kind: &str) -> Result<Store, OutletError> {
        let columnar = Columnar::of::<R>(kind);
        Ok(Store { columnar, folder: Folder::open(options, kind)? })
    }

    fn put(&mut self, files: &[(Hour, Vec<u8>)], token: &str) -> io::Result<()> {
        files.iter().try_for_each(|(hour, file)| self.folder.put(*hour, token, file))?;
        self.folder.retain()
    }
}

impl Engine for Store {
    fn deliver(&mut self, batch: &Batch, _time: Duration) -> Outcome {
        let files = match self.columnar.files(batch) {
            Ok(files) => files,
            Err(WrongRecord(why)) => return Outcome::Refused(why),
        };
        match self.put(&files, &batch.token()) {
            Ok(()) => Outcome::acknowledged(),
            Err(error) => Outcome::Failed(format!("{}: {error}", self.folder.path().display())),
        }
    }
}

#[cfg(test)]
mod tests;
