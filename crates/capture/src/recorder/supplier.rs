//! What makes files and deletes them: a thread for each directory. A file system may take long to
//! free what a deleted file held; what is written is synced meanwhile by the housekeeper.

use super::Shared;
use super::file::{Next, OpenFile};
use super::folder::{Folder, lock};
use ringside_core::Shown;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// How often files that are past their age are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The supplier of a directory.
pub(super) struct Supplier {
    pub(super) folder: Arc<Folder>,
    pub(super) shared: Arc<Shared>,
}

impl Supplier {
    /// Runs until the folder is closed.
    pub(super) fn run(self) {
        self.folder.supply();
        let mut sweep_at = Instant::now() + SWEEP_INTERVAL;
        while !self.folder.is_closing() {
            for file in self.folder.files() {
                self.prepare_next(&file);
            }
            if Instant::now() >= sweep_at {
                sweep_at = Instant::now() + SWEEP_INTERVAL;
                self.sweep();
            }
            park_timeout(sweep_at.saturating_duration_since(Instant::now()));
        }
    }

    /// Makes the file ready that follows, once this one is in use and will end. Its writer, if it
    /// needs the file meanwhile, waits for it.
    fn prepare_next(&self, file: &OpenFile) {
        let mut next = lock(&file.next);
        let wanted = matches!(*next, Next::None) && self.shared.recording.rotates();
        if !wanted || file.complete() == 0 {
            return;
        }
        match self.folder.create_spare(&self.shared.lanes[file.lane]) {
            Ok(spare) => *next = Next::Ready(Box::new(spare)),
            // The writer tries again when it needs the file, and then says so.
            Err(error) => tracing::debug!("no file was made ready: {error}"),
        }
    }

    /// Deletes what is past its age. What prevents it is reported when room is needed.
    fn sweep(&self) {
        if !self.shared.recording.retention.is_unlimited()
            && let Err(error) = self.folder.sweep()
        {
            tracing::warn!("{error}");
        }
    }
}

impl Drop for Supplier {
    /// A panic fails the run at once, not only at its end.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = self.folder.dir.path().shown();
            self.shared.control.fail(format!("the supplier of {path} died"));
        }
    }
}
