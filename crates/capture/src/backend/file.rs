//! Captures on disk as the lane of a run: what would have been, had it been received now.

use ringside_core::{
    Batch, Cause, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use ringside_store::{StoreError, StoredSource};
use std::path::PathBuf;
use std::time::Duration;

/// Files, directories or a stream, in the order of time, as fast as they are taken. No frame is
/// lost for want of room: who has none waits.
pub struct FileLane {
    stored: Box<dyn StoredSource>,
    /// Interfaces that the run knows: its outputs describe them at the start.
    interfaces: Vec<SourceInterface>,
    /// Frames that were read and refused.
    refused: u64,
    is_detached: bool,
}

impl FileLane {
    /// Opens what `paths` name, as [`ringside_store::open`].
    ///
    /// # Errors
    /// Nothing was named, or something cannot be opened or is no capture.
    pub fn open(paths: &[PathBuf]) -> Result<FileLane, StoreError> {
        let stored = ringside_store::open(paths)?;
        let interfaces = stored.interfaces().to_vec();
        Ok(FileLane { stored, interfaces, refused: 0, is_detached: false })
    }
}

impl Source for FileLane {
    fn start(&mut self) -> Result<(), SourceError> {
        self.stored.start()
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        if self.is_finished() {
            return Ok(None);
        }
        let known = self.interfaces.len();
        let batch = self.stored.next_batch(timeout)?;
        match &batch {
            Some(batch) if batch.interfaces().len() > known => {
                self.is_detached = true;
                self.refused = batch.frame_count() as u64;
                Err(SourceError::Damaged(format!(
                    "interface {known} is named in the middle of the capture, and a run must know \
                     them all at its start: copy it first, as ringside read -r IN -w OUT.pcapng"
                )))
            }
            _ => Ok(batch),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_detached || self.stored.is_finished()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        let mut counters = self.stored.counters();
        *counters.dropped.entry(Cause::Damaged).or_default() += self.refused;
        counters
    }

    fn low_water(&self) -> Timestamp {
        if self.is_finished() { Timestamp::MAX } else { self.stored.low_water() }
    }

    fn can_wait(&self) -> bool {
        true
    }

    /// The rest is not read: it was not received in this run.
    fn detach(&mut self) -> Result<(), SourceError> {
        self.is_detached = true;
        Ok(())
    }
}
