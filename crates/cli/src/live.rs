//! One line a second while a run receives: rate, bits, stored, every cause of loss.

use indicatif::ProgressBar;
use ringside_control::Rates;
use ringside_core::Ledger;
use ringside_core::ledger::total;
use ringside_core::profile::LaneProfile;
use ringside_terminal::BottomLine;
use ringside_terminal::progress::{INTERVAL, say_above};
use ringside_terminal::units::{grouped, scaled};
use std::time::Instant;

/// The live line; nothing where standard error is no terminal.
pub struct Live {
    bar: ProgressBar,
    last: Option<(Instant, u64, u64)>,
    rates: Option<Rates>,
}

impl Live {
    /// Begins the line.
    pub fn start(bottom: &BottomLine) -> Live {
        Live { bar: bottom.bar().clone(), last: None, rates: None }
    }

    /// Shows the ledger if a second has passed. True if it did.
    pub fn update(&mut self, ledger: &Ledger, profiles: impl Fn() -> Vec<LaneProfile>) -> bool {
        let now = Instant::now();
        let bytes = ledger.lanes.iter().map(|lane| lane.taken_bytes).sum();
        let Some((then, frames_then, bytes_then)) = self.last else {
            self.last = Some((now, ledger.taken, bytes));
            return false;
        };
        let elapsed = now - then;
        if elapsed < INTERVAL {
            return false;
        }
        let per_second = |now: u64, then: u64| (now - then) as f64 / elapsed.as_secs_f64();
        let frames_per_second = per_second(ledger.taken, frames_then).round() as u64;
        let bits_per_second = (per_second(bytes, bytes_then) * 8.0).round() as u64;
        let rates = Rates { frames_per_second, bits_per_second };
        let worked = worked(&profiles());
        self.bar.set_message(line(ledger, rates, bytes) + &worked);
        self.rates = Some(rates);
        self.last = Some((now, ledger.taken, bytes));
        true
    }

    /// Says once what the line says, also where there is none.
    pub fn tell(&self, ledger: &Ledger) {
        let bytes = ledger.lanes.iter().map(|lane| lane.taken_bytes).sum();
        let rates = self.rates.unwrap_or(Rates { frames_per_second: 0, bits_per_second: 0 });
        say_above(&self.bar, line(ledger, rates, bytes));
    }

    /// The rates of the last whole second.
    pub fn rates(&self) -> Option<Rates> {
        self.rates
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

fn line(ledger: &Ledger, rates: Rates, bytes: u64) -> String {
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
