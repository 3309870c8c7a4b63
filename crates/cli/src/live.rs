//! One line a second while a run receives: rate, bits, stored, every cause of loss.

use indicatif::ProgressBar;
use ringside_core::ledger::total;
use ringside_core::profile::LaneProfile;
use ringside_session::{Moment, Rates};
use ringside_terminal::BottomLine;
use ringside_terminal::progress::say_above;
use ringside_terminal::units::{grouped, scaled};

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

/// How the lanes are worked on, if their backends count that: frames to a batch, most that waited,
/// and how often the kernel had no memory to receive into.
fn worked(profiles: &[LaneProfile]) -> String {
    let most = |of: fn(&LaneProfile) -> u64| profiles.iter().map(of).max().unwrap_or(0);
    if profiles.is_empty() {
        return String::new();
    }
    format!(
        "  batch {}  waiting at most {}  starved {}",
        most(|lane| lane.profile.returned_per_batch()),
        grouped(most(|lane| lane.profile.ring_high_water.into())),
        grouped(most(|lane| lane.profile.fill_starved)),
    )
}

fn line(moment: &Moment<'_>) -> String {
    let ledger = &moment.ledger;
    let rates = moment.rates.unwrap_or(Rates { frames_per_second: 0, bits_per_second: 0 });
    let bytes: u64 = ledger.lanes.iter().map(|lane| lane.taken_bytes).sum();
    let mut line = format!(
        "{}frames/s  {}bit/s  taken {} ({}B)",
        scaled(rates.frames_per_second as f64),
        scaled(rates.bits_per_second as f64),
        grouped(ledger.taken),
        scaled(bytes as f64),
    );
    if total(&ledger.dropped) == 0 {
        line.push_str("  dropped 0");
    }
    for (cause, &count) in ledger.dropped.iter().filter(|(_, count)| **count > 0) {
        line.push_str(&format!("  dropped {cause} {}", grouped(count)));
    }
    for consumer in &ledger.consumers {
        for (cause, &count) in consumer.missed.iter().filter(|(_, count)| **count > 0) {
            line.push_str(&format!("  {} missed {cause} {}", consumer.name, grouped(count)));
        }
    }
    line
}
