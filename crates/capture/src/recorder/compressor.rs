//! What compresses files that ended some time ago: a thread for each directory, if that is asked
//! for. It yields to everything else on its CPU, and holds no lock while it works.

use super::Shared;
use super::folder::Folder;
use ringside_core::Shown;
use ringside_store::StoreError;
use ringside_store::retention::{Packed, PackedState, PackingJob, PackingOrder};
use ringside_sys::thread::yield_to_all;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;

/// How often files that are due are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The compressor of a directory.
pub(super) struct Compressor {
    folder: Arc<Folder>,
    shared: Arc<Shared>,
    order: PackingOrder,
}

impl Compressor {
    /// None if nothing is to be compressed.
    pub(super) fn new(folder: Arc<Folder>, shared: Arc<Shared>) -> Option<Compressor> {
        let after = shared.recording.retention.compress_after?;
        let order = PackingOrder { after, ..PackingOrder::default() };
        Some(Compressor { folder, shared, order })
    }

    /// Runs until the folder is closed. Of a file that is not done by then there is what was.
    pub(super) fn run(mut self) {
        self.folder.compress();
        let interval = LOOK_INTERVAL.min(self.order.after.max(Duration::from_secs(1)));
        while !self.folder.is_closing() {
            while self.compress_next() {}
            park_timeout(interval);
        }
    }

    /// Compresses one file; false if there is none, or no room for it now.
    fn compress_next(&mut self) -> bool {
        let job = match self.folder.begin_packing(&self.order) {
            Ok(Some(job)) => job,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!("nothing is compressed now: {error}");
                return false;
            }
        };
        let name = job.name().to_owned();
        let packed = self.work(&job).and_then(|packed| self.folder.end_packing(job, packed));
        match packed {
            Ok(Packed { state: PackedState::Packed, bytes, packed_bytes, .. }) => {
                tracing::info!(bytes, packed_bytes, "{name}: compressed");
            }
            Ok(Packed { state: PackedState::Stopped, .. }) => return false,
            Ok(Packed { state: PackedState::Gone | PackedState::NotSmaller, .. }) => {
                self.order.passed.insert(name);
            }
            Err(error) => {
                tracing::warn!("{error}; it stays as it is");
                self.order.passed.insert(name);
            }
        }
        true
    }

    /// On a thread of its own: who yields to all cannot take it back, and must hold no lock.
    fn work(&self, job: &PackingJob) -> Result<Packed, StoreError> {
        let work = || {
            // Where that is refused the work takes time from others, but not much: it is bounded by
            // what one CPU does.
            let _ = yield_to_all();
            job.run(&|| !self.folder.is_closing())
        };
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(packed) => packed,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Drop for Compressor {
    /// A panic fails the run at once, not only at its end.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = self.folder.dir.path().shown();
            self.shared.control.fail(format!("the compressor of {path} died"));
        }
    }
}
