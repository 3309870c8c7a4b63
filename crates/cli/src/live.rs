//! One line a second while a run receives: rate, bits, stored, every cause of loss.

use crate::units::{grouped, scaled};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ringside_core::Ledger;
use ringside_core::ledger::total;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the line changes.
const INTERVAL: Duration = Duration::from_secs(1);

/// The live line; nothing where standard error is no terminal.
pub struct Live {
    bar: ProgressBar,
    last: Option<(Instant, u64, u64)>,
}

impl Live {
    /// Begins the line.
    pub fn start() -> Live {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
        Live { bar, last: None }
    }

    /// Shows the ledger if a second has passed. True if it did.
    pub fn update(&mut self, ledger: &Ledger) -> bool {
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
        let frame_rate = per_second(ledger.taken, frames_then);
        let bit_rate = per_second(bytes, bytes_then) * 8.0;
        self.bar.set_message(line(ledger, frame_rate, bit_rate, bytes));
        self.last = Some((now, ledger.taken, bytes));
        true
    }

    /// Ends the line.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn line(ledger: &Ledger, frame_rate: f64, bit_rate: f64, bytes: u64) -> String {
    let mut line = format!(
        "{}frames/s  {}bit/s  taken {} ({}B)",
        scaled(frame_rate),
        scaled(bit_rate),
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
