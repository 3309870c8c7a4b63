//! What the threads of a run share: the order to stop, the frame budget, the rotation, errors, and
//! what consumers are called and count.

use ringside_core::ledger::ByCause;
use ringside_core::{Cause, Consumer};
use ringside_store::StoreError;
use std::io::ErrorKind::TimedOut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Errors kept of a run. Every thread reports at most a few; the rest would say the same.
const ERRORS_MAX: usize = 64;

/// Name of a printer in the ledger.
pub(crate) const PRINTER: &str = "printer";
/// Name of a merging writer in the ledger.
pub(crate) const WRITER: &str = "writer";

/// Shared by all threads of a run.
pub(crate) struct Control {
    stop: AtomicBool,
    frames_left: AtomicU64,
    rotation: AtomicU64,
    errors: Mutex<Vec<String>>,
}

impl Control {
    pub(crate) fn new(frames_max: Option<u64>) -> Control {
        Control {
            stop: AtomicBool::new(false),
            frames_left: AtomicU64::new(frames_max.unwrap_or(u64::MAX)),
            rotation: AtomicU64::new(0),
            errors: Mutex::new(Vec::new()),
        }
    }

    /// Orders every lane to detach and drain.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// True if the run has a budget of frames.
    pub(crate) fn is_limited(&self) -> bool {
        self.frames_left.load(Ordering::Relaxed) != u64::MAX
    }

    /// Claims up to `wanted` frames of the budget; the run stops when it is used up.
    pub(crate) fn claim(&self, wanted: u64) -> u64 {
        // Without a limit the budget is so large that it never ends and need not be counted.
        if !self.is_limited() {
            return wanted;
        }
        let take = |left: u64| Some(left.saturating_sub(wanted));
        let before = self
            .frames_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .unwrap_or_default();
        if before <= wanted {
            self.stop();
        }
        before.min(wanted)
    }

    /// The number of the present period of a timed rotation.
    pub(crate) fn rotation(&self) -> u64 {
        self.rotation.load(Ordering::Acquire)
    }

    /// Begins the next period.
    pub(crate) fn rotate(&self) {
        self.rotation.fetch_add(1, Ordering::AcqRel);
    }

    /// Keeps an error for the report and stops the run.
    pub(crate) fn fail(&self, error: String) {
        self.complain(error);
        self.stop();
    }

    /// Keeps an error for the report; the run goes on.
    pub(crate) fn complain(&self, error: String) {
        let mut errors = self.errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if errors.len() < ERRORS_MAX {
            errors.push(error);
        }
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Under which name what was not written is counted.
pub(crate) fn cause_of(error: &StoreError) -> Cause {
    if error.is_disk_full() {
        Cause::DiskFull
    } else if error.is_pipe_closed() {
        Cause::PipeClosed
    } else if matches!(error, StoreError::Io { source, .. } if source.kind() == TimedOut) {
        Cause::PipeStalled
    } else {
        Cause::WriteFailed
    }
}

/// Stage 2 of one consumer, as it is counted by its thread and read by others.
#[derive(Default)]
pub(crate) struct ConsumerCounts {
    delivered: AtomicU64,
    late: AtomicU64,
    missed: Mutex<ByCause>,
}

impl ConsumerCounts {
    pub(crate) fn deliver(&self, frames: u64) {
        self.delivered.fetch_add(frames, Ordering::AcqRel);
    }

    /// Frames, among those that are delivered, that come after a younger one.
    pub(crate) fn deliver_late(&self, frames: u64) {
        self.late.fetch_add(frames, Ordering::AcqRel);
    }

    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Acquire)
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Acquire)
    }

    pub(crate) fn miss(&self, cause: Cause, frames: u64) {
        if frames > 0 {
            let mut missed = self.missed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *missed.entry(cause).or_default() += frames;
        }
    }

    pub(crate) fn missed(&self) -> ByCause {
        self.missed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// As a line of the ledger.
    pub(crate) fn consumer(&self, name: &str) -> Consumer {
        Consumer {
            name: name.to_owned(),
            delivered: self.delivered(),
            late: self.late(),
            missed: self.missed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_given_out_once_and_then_stops_the_run() {
        let control = Control::new(Some(10));
        assert_eq!(control.claim(6), 6);
        assert!(!control.is_stopping());
        assert_eq!(control.claim(6), 4);
        assert!(control.is_stopping());
        assert_eq!(control.claim(1), 0);
    }

    #[test]
    fn without_a_budget_nothing_stops() {
        let control = Control::new(None);
        assert_eq!(control.claim(u64::MAX / 2), u64::MAX / 2);
        assert_eq!(control.claim(u64::MAX / 2), u64::MAX / 2);
        assert!(!control.is_stopping());
    }

    #[test]
    fn an_error_stops_the_run_and_is_kept() {
        let control = Control::new(None);
        control.complain("a file is gone".into());
        assert!(!control.is_stopping());
        control.fail("the disk is gone".into());
        assert!(control.is_stopping());
        assert_eq!(control.errors(), ["a file is gone", "the disk is gone"]);
    }
}
