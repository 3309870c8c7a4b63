//! A question to recordings: the frames of which inputs, and of what time.

use crate::StoreError;
use crate::merged::MergedSource;
use crate::part::Pruner;
use crate::reader::{FileSource, StoredSource, Tally, Wanted};
use ringside_core::{Source, TimeRange, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which frames are asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Files, `-` for standard input, directories of recordings; several are merged by time. A
    /// recording may lie in several of the directories.
    pub inputs: Vec<PathBuf>,
    /// By their stamps. Frames outside are passed by and counted.
    pub range: TimeRange,
}

impl Query {
    /// Opens the inputs. Frames come in the order in which they would come without the range. One
    /// file of which all is asked for is lent in place; of anything else frames are copied once.
    ///
    /// # Errors
    /// Nothing was named, or something cannot be opened or is no capture.
    pub fn open(&self) -> Result<Box<dyn StoredSource>, StoreError> {
        if let [path] = &self.inputs[..]
            && self.range == TimeRange::default()
            && !path.is_dir()
        {
            return Ok(Box::new(FileSource::open(path)?));
        }
        Ok(Box::new(MergedSource::open(&self.inputs, Wanted::of(self.range))?))
    }

    /// As [`open`](Query::open), without the parts of files that `pruner` says need not be read.
    /// Frames come in the order in which they would come with them.
    ///
    /// # Errors
    /// As [`open`](Query::open).
    pub fn open_pruned(&self, pruner: Arc<dyn Pruner>) -> Result<MergedSource, StoreError> {
        MergedSource::open(
            &self.inputs,
            Wanted { range: self.range, pruner: Some(pruner), reads_ahead: true },
        )
    }

    /// Finds the newest stamp of the inputs, whatever the range, and says what that took. A stream
    /// is gone after it. Damage is passed over: who reads the inputs comes to it again.
    ///
    /// # Errors
    /// As [`open`](Query::open).
    pub fn newest(&self) -> Result<Tally, StoreError> {
        self.newest_pruned(None)
    }

    /// As [`newest`](Query::newest), where `pruner` may know when the frames of parts were.
    ///
    /// # Errors
    /// As [`open`](Query::open).
    pub fn newest_pruned(&self, pruner: Option<Arc<dyn Pruner>>) -> Result<Tally, StoreError> {
        let range = TimeRange { from: None, to: Some(Timestamp(0)) };
        let mut source =
            MergedSource::open(&self.inputs, Wanted { range, pruner, reads_ahead: false })?;
        while !source.is_finished() {
            // An error ends the reading of its file, and is reported when all others are read.
            let _ = source.next_batch(Duration::MAX);
        }
        Ok(source.tally())
    }
}

/// Opens all of what `paths` name; see [`Query::open`].
///
/// # Errors
/// Nothing was named, or something cannot be opened or is no capture.
pub fn open(paths: &[PathBuf]) -> Result<Box<dyn StoredSource>, StoreError> {
    Query { inputs: paths.to_vec(), range: TimeRange::default() }.open()
}
