//! A progress line for long work.

use crate::BottomLine;
use crate::say;
use crate::signals::Wanted;
use indicatif::ProgressBar;
use std::time::Duration;

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
