//! Batches as files of Parquet, one for each hour of their records: what a store on this machine
//! and an object store hold.

mod file;
mod hours;

use crate::batch::Batch;
use file::Files;
use hours::by_hour;
use ringside_arrow::WrongRecord;
use ringside_record::Record;

pub(crate) use hours::Hour;

/// Ending of files' names; what stands before it is the batch's token.
pub(crate) const ENDING: &str = ".parquet";

/// Makes the files of a kind of records.
pub(crate) struct Columnar {
    files: Files,
}

impl Columnar {
    /// For records `R`, which are called `kind`.
    pub fn of<R: Record>(kind: &str) -> Columnar {
        Columnar { files: Files::of::<R>(kind) }
    }

    /// The files of a batch, in the order of hours.
    ///
    /// # Errors
    /// A record is none.
    pub fn files(&self, batch: &Batch) -> Result<Vec<(Hour, Vec<u8>)>, WrongRecord> {
        let hours = by_hour(&batch.body, self.files.key())?;
        let file = |(hour, lines): (Hour, Vec<_>)| Ok((hour, self.files.file(&lines)?));
        hours.into_iter().map(file).collect()
    }
}

#[cfg(test)]
mod tests;
