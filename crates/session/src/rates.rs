//! How fast a run takes frames, second by second.

use ringside_control::Rates;
use ringside_core::Ledger;
use std::time::{Duration, Instant};

/// How often rates are reckoned anew.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reckons rates from ledgers.
#[derive(Default)]
pub(crate) struct Meter {
    last: Option<(Instant, u64, u64)>,
    /// Of the last whole second.
    pub rates: Option<Rates>,
}

impl Meter {
    /// Takes the ledger of `now`. True if a second has passed and the rates are new.
    pub(crate) fn update(&mut self, now: Instant, ledger: &Ledger) -> bool {
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
        self.rates = Some(Rates { frames_per_second, bits_per_second });
        self.last = Some((now, ledger.taken, bytes));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_whole_seconds() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        let ledger = |taken| Ledger { taken, ..Ledger::default() };
        assert!(!meter.update(start, &ledger(10)));
        assert!(!meter.update(start + Duration::from_millis(999), &ledger(500)));
        assert_eq!(meter.rates, None);
        assert!(meter.update(start + Duration::from_secs(2), &ledger(1010)));
        assert_eq!(meter.rates, Some(Rates { frames_per_second: 500, bits_per_second: 0 }));
        assert!(!meter.update(start + Duration::from_millis(2500), &ledger(9000)));
    }
}
