//! One line a second while a run receives: rate, bits, stored, every cause of loss.

use indicatif::ProgressBar;
use ringside_core::profile::LaneProfile;
use ringside_report::run::{line, worked};
use ringside_session::Moment;
use ringside_terminal::BottomLine;
use ringside_terminal::progress::say_above;

/// The live line; nothing where standard error is no terminal.
pub struct Live {
    bar: ProgressBar,
}

impl Live {
    /// Begins the line.
    pub fn start(bottom: &BottomLine) -> Live {
        Live { bar: bottom.bar().clone() }
    }

    /// Shows the last second.
    pub fn update(&self, moment: &Moment<'_>, profiles: &[LaneProfile]) {
        self.bar.set_message(line(moment) + &worked(profiles));
    }

    /// Says once what the line says, also where there is none.
    pub fn tell(&self, moment: &Moment<'_>) {
        say_above(&self.bar, line(moment));
    }

    /// Ends the line.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
