//! A progress line for long work.

use crate::BottomLine;
use crate::say;
use crate::signals::Wanted;
use indicatif::ProgressBar;
use ringside_core::Shown;
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often such a line changes.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// A line of text that is drawn anew; nothing where standard error is no terminal.
pub fn line_bar() -> ProgressBar {
    BottomLine::new().bar().clone()
}

/// Says a line above `bar` if SIGUSR1 asked for it.
pub fn tell_wanted(statistics: &Wanted, bar: &ProgressBar, line: impl FnOnce() -> String) {
    if statistics.take() {
        say_above(bar, line());
    }
}

/// Says a line above `bar`, without waiting for a terminal that stands still.
pub fn say_above(bar: &ProgressBar, line: String) {
    if bar.is_hidden() {
        say::message(line);
    } else {
        bar.println(line);
    }
}

/// What takes less shows no progress of files.
const SILENT: Duration = Duration::from_secs(2);
/// Between two lines where they stay.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Between two changes of the line of a terminal.
const BETWEEN_CHANGES: Duration = Duration::from_millis(200);

/// How far files were looked at: a line on a terminal, else one each ten seconds.
pub struct FileProgress {
    bar: ProgressBar,
    next: Cell<Instant>,
}

impl Default for FileProgress {
    fn default() -> FileProgress {
        FileProgress::new()
    }
}

impl FileProgress {
    /// Begins; what takes less than two seconds shows nothing.
    pub fn new() -> FileProgress {
        FileProgress { bar: line_bar(), next: Cell::new(Instant::now() + SILENT) }
    }

    /// The look at a file of `bytes` is at its byte `at`.
    pub fn report(&self, path: &Path, at: u64, bytes: u64) {
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
                if self.bar.is_finished() {
                    self.bar.reset();
                }
                self.bar.set_message(text);
                self.bar.tick();
                BETWEEN_CHANGES
            }
        };
        self.next.set(now + interval);
    }

    /// Takes the line away, until the next report.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
