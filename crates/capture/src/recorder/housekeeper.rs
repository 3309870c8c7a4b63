//! What takes time and must not hold the ring up: a thread for each directory that sends what is
//! written to the medium, reserves room ahead and finishes old files.

use super::Shared;
use super::file::{Kept, OpenFile};
use super::folder::{Folder, lock};
use ringside_core::Shown;
use ringside_store::StoreError;
use ringside_store::dir::Dir;
use ringside_store::recording::Storage;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// How often what was written is sent to the medium: with the time that this takes, about what a
/// power cut may cost.
const SYNC_INTERVAL: Duration = Duration::from_millis(800);
/// A file that grows by less between two syncs gets no room reserved: a quiet link is not to hold
/// the disk's space.
const FAST_BYTES: u64 = 16 << 20;
/// Room is reserved in steps of this, ahead of what is written: few extents, few calls.
const AHEAD_BYTES: u64 = 256 << 20;
/// Most room that is reserved ahead, for the fastest disks.
const AHEAD_BYTES_MAX: u64 = 8 << 30;
/// Free space that no reservation touches. Others need some, and a disk that is nearly full has
/// better uses for it than room that may never be written.
const MARGIN_BYTES: u64 = 1 << 30;

/// The housekeeper of a directory.
pub(super) struct Housekeeper {
    pub(super) folder: Arc<Folder>,
    pub(super) shared: Arc<Shared>,
}

impl Housekeeper {
    /// Runs until the folder is closed and all its files are finished.
    pub(super) fn run(self) {
        self.folder.keep_house();
        let mut sync_at = Instant::now() + SYNC_INTERVAL;
        loop {
            let closing = self.folder.is_closing();
            let is_due = Instant::now() >= sync_at;
            let files = self.folder.files();
            for file in &files {
                if file.has_ended() {
                    let finished = self.folder.finish(file);
                    if finished.is_err() {
                        self.folder.leave_unfinished();
                    }
                    self.report(finished);
                    self.folder.forget(file);
                    continue;
                }
                if is_due {
                    self.look_for(file);
                    self.report(tend(&self.folder.dir, file));
                }
            }
            if closing && self.folder.files().is_empty() {
                return;
            }
            if is_due {
                self.folder.sweep_mapped();
                self.folder.note_move();
                sync_at = Instant::now() + SYNC_INTERVAL;
            }
            park_timeout(sync_at.saturating_duration_since(Instant::now()));
        }
    }

    /// If another program deleted the file, this is reported, and its writer goes on in another
    /// one: no reader would ever see what is written to it.
    fn look_for(&self, file: &OpenFile) {
        if file.note_deletion() {
            let (path, blocks) = (file.series.path().shown(), file.complete());
            let text = format!(
                "{path} was deleted by another program while it was being written; {blocks} ring \
                 blocks are lost with it, and the recording goes on in another file"
            );
            tracing::warn!("{text}");
            self.shared.control.complain(text);
            self.shared.bells.ring();
        }
    }

    fn report(&self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            let text = format!("what is written may not reach the medium: {error}");
            self.shared.control.fail(text);
        }
    }
}

/// Sends what is new to the medium, then counts its complete blocks in the header: so that the
/// count is never ahead of the medium.
pub(super) fn tend<F: Storage>(dir: &Dir, file: &OpenFile<F>) -> Result<(), StoreError> {
    let kept = &mut *lock(&file.kept);
    let (end, complete) = (file.end(), file.complete());
    if end == kept.synced || kept.is_finished {
        return Ok(());
    }
    reserve(dir, file, end.saturating_sub(kept.synced), kept);
    let was_lost = kept.is_lost;
    match kept.sync(|| file.series.sync_data()) {
        // That was reported.
        Err(_) if was_lost => return Ok(()),
        other => other?,
    }
    if kept.synced == 0 {
        // Best effort: most file systems sync the name with the file.
        let _ = dir.sync();
    }
    kept.synced = end;
    file.series.set_blocks(file.first_block(), complete)
}

/// Reserves room ahead of a file that grows fast: twice what it grew by.
pub(super) fn reserve<F: Storage>(dir: &Dir, file: &OpenFile<F>, grown: u64, kept: &mut Kept) {
    if file.take_cut() {
        kept.reserved = 0;
    }
    let end = file.end();
    let ahead = (2 * grown).next_multiple_of(AHEAD_BYTES).min(AHEAD_BYTES_MAX);
    let limit = file.bytes_max.unwrap_or(u64::MAX);
    let (from, to) = (kept.reserved.max(end), (end + ahead).min(limit));
    if grown < FAST_BYTES
        || kept.reserves_no_more
        || to < from + AHEAD_BYTES.min(limit.saturating_sub(end))
    {
        return;
    }
    let free = dir.free_bytes().unwrap_or(0).saturating_sub(MARGIN_BYTES);
    if free < to - from || file.series.file().reserve(from, to - from).is_err() {
        kept.reserves_no_more = true;
        return;
    }
    kept.reserved = to;
}

impl Kept {
    /// Syncs.
    ///
    /// # Errors
    /// The system refused, now or before.
    fn sync(&mut self, sync: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
        // Also in vain: what came since can still reach the medium.
        let synced = sync();
        if self.is_lost {
            return Err(StoreError::FailedBefore);
        }
        self.is_lost = synced.is_err();
        synced
    }
}

impl<F: Storage> OpenFile<F> {
    /// Ends the file: cut to its end, on the medium, its blocks counted.
    ///
    /// # Errors
    /// The system refused, now or at an earlier sync.
    pub(super) fn finish(&self, kept: &mut Kept) -> Result<(), StoreError> {
        self.settle()?;
        kept.sync(|| self.series.sync_data())?;
        self.series.set_blocks(self.first_block(), self.complete())?;
        self.series.sync_all()
    }
}

impl Drop for Housekeeper {
    /// A panic fails the run at once, not only at its end.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.leave_unfinished();
            let path = self.folder.dir.path().shown();
            self.shared.control.fail(format!("the housekeeper of {path} died"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_sync_no_later_one_is_believed() {
        let mut kept = Kept::default();
        kept.sync(|| Ok(())).unwrap();
        assert!(kept.sync(|| Err(StoreError::FailedBefore)).is_err());
        assert!(kept.sync(|| Ok(())).is_err(), "the kernel tells of a loss once");
    }
}
