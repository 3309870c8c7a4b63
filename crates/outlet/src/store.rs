//! A store of records on this machine: files of Parquet that every engine reads, in folders by
//! kind, day and hour: `docs/howto/store.md`.
//!
//! A batch is a file for each hour of its records, with the batch's token as its name: when it is
//! delivered again, the same files take the place of those that are there. A file has its name once
//! it is on the disk, so that who reads the store sees whole ones alone.

mod folder;

use crate::batch::Batch;
use crate::columnar::Columnar;
use crate::engine::{Engine, Outcome};
use crate::error::OutletError;
use folder::Folder;
use ringside_arrow::WrongRecord;
use ringside_record::Record;
use std::path::PathBuf;
use std::time::Duration;

/// Where records are kept, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The folder of all kinds.
    pub directory: PathBuf,
    /// Most bytes of the files of a kind; those that were written first go first.
    pub bytes_max: Option<u64>,
    /// Files that were written so long ago go.
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
}

impl Engine for Store {
    fn deliver(&mut self, batch: &Batch, _time: Duration) -> Outcome {
        let token = batch.token();
        let files = match self.columnar.files(batch) {
            Ok(files) => files,
            Err(WrongRecord(why)) => return Outcome::Refused(why),
        };
        for (hour, file) in files {
            if let Err(error) = self.folder.put(hour, &token, &file) {
                return Outcome::Failed(format!("{}: {error}", self.folder.path().display()));
            }
        }
        // The records are there, whatever else is.
        let reason = self.folder.retain(&token).err().map(|error| error.to_string());
        Outcome::Acknowledged { refused: 0, reason }
    }
}

#[cfg(test)]
mod tests;
