//! Repair with its progress shown: a line on a terminal, else one each ten seconds.

use indicatif::ProgressBar;
use ringside_core::Shown;
use ringside_store::StoreError;
use ringside_store::repair::{Options, Report, Watch, repair_watched};
use ringside_terminal::{progress, say};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What takes less shows no progress.
const SILENT: Duration = Duration::from_secs(2);
/// Between two lines where they stay.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Between two changes of the line of a terminal.
const BETWEEN_CHANGES: Duration = Duration::from_millis(200);

/// Repairs, as [`repair_watched`].
///
/// # Errors
/// As there.
pub fn repair(
    paths: &[PathBuf],
    options: &Options,
    deadline: Option<Instant>,
) -> Result<Report, StoreError> {
    let progress = Progress::new();
    let report = |path: &Path, at, bytes| progress.report(path, at, bytes);
    let repaired = repair_watched(paths, options, &Watch { deadline, report: &report });
    progress.bar.finish_and_clear();
    repaired
}

struct Progress {
    bar: ProgressBar,
    next: Cell<Instant>,
}

impl Progress {
    fn new() -> Progress {
        Progress { bar: progress::line_bar(), next: Cell::new(Instant::now() + SILENT) }
    }

    /// The look at a file of `bytes` is at its byte `at`.
    fn report(&self, path: &Path, at: u64, bytes: u64) {
        let now = Instant::now();
        if now < self.next.get() {
            return;
        }
        let percent = at.saturating_mul(100) / bytes.max(1);
        let gigabytes = bytes as f64 / 1e9;
        let text = format!("looking at {}: {percent} % of {gigabytes:.1} GB", path.shown());
        let interval = match self.bar.is_hidden() {
            true => {
                say::message(format_args!("ringside: {text}"));
                BETWEEN_LINES
            }
            false => {
                self.bar.set_message(text);
                self.bar.tick();
                BETWEEN_CHANGES
            }
        };
        self.next.set(now + interval);
    }
}
