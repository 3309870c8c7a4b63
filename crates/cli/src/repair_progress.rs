//! How far a repair is, for people: a line on a terminal, else one each ten seconds.

use crate::{live, say};
use indicatif::ProgressBar;
use ringside_core::Shown;
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// What takes less is told afterwards only.
const SILENT: Duration = Duration::from_secs(2);
/// Between two lines where they stay.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Between two changes of the line of a terminal.
const BETWEEN_CHANGES: Duration = Duration::from_millis(200);

/// A repair under way.
pub struct RepairProgress {
    bar: ProgressBar,
    next: Cell<Instant>,
}

impl RepairProgress {
    /// One that begins now.
    pub fn new() -> RepairProgress {
        RepairProgress { bar: live::line_bar(), next: Cell::new(Instant::now() + SILENT) }
    }

    /// The look at a file of `bytes` is at its byte `at`.
    pub fn tell(&self, path: &Path, at: u64, bytes: u64) {
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

    /// It is over.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
