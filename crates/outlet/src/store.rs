//! A store of records on this machine: files of Parquet that every engine reads, in folders by
//! kind, day and hour: `docs/howto/store.md`.
//!
//! A batch is a file for each hour of its records, with the batch's token as its name: when it is
//! delivered again, the same files take the place of those that are there. A file has its name once
//! it is on the disk, so that who reads the store sees whole ones alone.

mod columns;
mod folder;
mod hours;

use crate::batch::Batch;
use crate::engine::{Engine, Outcome};
use crate::error::OutletError;
use columns::Columns;
use folder::Folder;
use hours::by_hour;
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
    columns: Columns,
    folder: Folder,
}

impl Store {
    /// For records `R`, which are called `kind`.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open<R: Record>(options: &StoreOptions, kind: &str) -> Result<Store, OutletError> {
        let columns = Columns::of::<R>(kind);
        Ok(Store { columns, folder: Folder::open(options, kind)? })
    }

    fn write(&mut self, batch: &Batch) -> Result<(), Error> {
        let token = batch.token();
        for (hour, lines) in by_hour(&batch.body, self.columns.key())? {
            let file = self.columns.file(&lines)?;
            self.folder.put(hour, &token, &file)?;
        }
        Ok(self.folder.retain()?)
    }
}

impl Engine for Store {
    fn deliver(&mut self, batch: &Batch, _time: Duration) -> Outcome {
        match self.write(batch) {
            Ok(()) => Outcome::acknowledged(),
            Err(Error::Disk(error)) => {
                Outcome::Failed(format!("{}: {error}", self.folder.path().display()))
            }
            Err(Error::Record(why)) => Outcome::Refused(why),
        }
    }
}

/// Why a batch is not there.
#[derive(Debug)]
enum Error {
    /// Another try may succeed.
    Disk(io::Error),
    /// No try will.
    Record(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Disk(error)
    }
}

#[cfg(test)]
mod tests;
