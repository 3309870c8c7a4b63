//! The highest rate at which nothing is lost, by bisection.

/// Loads of one search. Each halves the interval, so that this is never reached with a resolution
/// above 0.1 % of the top.
const LOADS_MAX: u32 = 64;
/// Loads without loss, one after the other, that make a rate good.
const CONFIRMATIONS: u32 = 2;
/// Below this share of the top the answer is "none".
const SHARE_MIN: f64 = 0.005;

/// What a load at a rate gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Probe {
    /// Frames a second that were really sent.
    pub(super) achieved_per_sec: f64,
    /// Frames that the tool did not get.
    pub(super) lost: u64,
}

/// What the search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ZeroLoss {
    /// Highest rate found without loss; 0 if every rate that was tried lost frames.
    pub(super) rate_per_sec: f64,
    /// True if that is all that the generator gives: the tool's own limit is higher.
    pub(super) at_limit: bool,
    /// Loads that it took.
    pub(super) loads: u32,
}

/// Searches between 0 and `top_per_sec`, which is tried first unless it is known to be bad, then
/// `guess_per_sec`, then the middle of what is left, until that is narrower than `resolution` (a
/// share of its upper end). A rate is good if two loads in a row lose nothing; loss is not strictly
/// monotonous in the rate, so the answer is a good rate whose neighbour above was bad, not a proof
/// for all below.
///
/// # Errors
/// Those of `probe`.
pub(super) fn zero_loss<E>(
    top_per_sec: f64,
    top_is_bad: bool,
    guess_per_sec: f64,
    resolution: f64,
    mut probe: impl FnMut(f64) -> Result<Probe, E>,
) -> Result<ZeroLoss, E> {
    let mut loads = 0;
    let mut is_good = |rate: f64, loads: &mut u32| -> Result<Option<f64>, E> {
        let mut slowest = f64::INFINITY;
        for _ in 0..CONFIRMATIONS {
            *loads += 1;
            let probe = probe(rate)?;
            if probe.lost > 0 {
                return Ok(None);
            }
            slowest = slowest.min(probe.achieved_per_sec);
        }
        Ok(Some(slowest))
    };
    if !top_is_bad && let Some(rate_per_sec) = is_good(top_per_sec, &mut loads)? {
        return Ok(ZeroLoss { rate_per_sec, at_limit: true, loads });
    }
    let (mut low, mut high, mut best) = (0.0, top_per_sec, 0.0);
    let mut next = guess_per_sec;
    while high - low > resolution * high && high > SHARE_MIN * top_per_sec && loads < LOADS_MAX {
        // A guess outside the interval says nothing.
        let rate = if next > low && next < high { next } else { (low + high) / 2.0 };
        match is_good(rate, &mut loads)? {
            Some(achieved) => (low, best) = (rate, achieved),
            None => high = rate,
        }
        next = 0.0;
    }
    Ok(ZeroLoss { rate_per_sec: best, at_limit: false, loads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A tool that loses everything above `limit`.
    fn search(top: f64, guess: f64, limit: f64) -> ZeroLoss {
        let probe = |rate: f64| -> Result<Probe, Infallible> {
            Ok(Probe { achieved_per_sec: rate, lost: (rate - limit).max(0.0).ceil() as u64 })
        };
        zero_loss(top, false, guess, 0.03, probe).unwrap()
    }

    #[test]
    fn the_limit_is_found_from_below() {
        for (top, guess) in [(1e6, 5e5), (1e6, 0.0), (1e6, 2e6), (1.37e6, 1e5)] {
            for limit in [4e4, 123_456.0, 333_333.0, 5e5, 987_654.0] {
                let found = search(top, guess, limit);
                assert!(found.rate_per_sec <= limit, "{found:?} above {limit}");
                assert!(found.rate_per_sec >= limit * 0.96, "{found:?} far below {limit}");
                assert!(!found.at_limit && found.loads <= 30, "{found:?}");
            }
        }
    }

    #[test]
    fn what_keeps_up_takes_two_loads() {
        let found = search(1e6, 5e5, 1e6);
        assert_eq!(found, ZeroLoss { rate_per_sec: 1e6, at_limit: true, loads: 2 });
    }

    #[test]
    fn a_top_that_is_known_to_be_bad_is_not_tried() {
        let mut tried = Vec::new();
        let probe = |rate: f64| -> Result<Probe, Infallible> {
            tried.push(rate);
            Ok(Probe { achieved_per_sec: rate, lost: 0 })
        };
        let found = zero_loss(1000.0, true, 0.0, 0.03, probe).unwrap();
        assert!(!found.at_limit && found.rate_per_sec > 960.0, "{found:?}");
        assert!(tried.iter().all(|&rate| rate < 1000.0), "{tried:?}");
    }

    #[test]
    fn what_always_loses_ends_with_none() {
        let found = search(1e6, 5e5, -1.0);
        assert_eq!((found.rate_per_sec, found.at_limit), (0.0, false));
        assert!(found.loads <= 12, "{found:?}");
    }

    #[test]
    fn one_good_load_is_not_enough() {
        // Every second load at a rate above 1000 loses a frame.
        let mut count = 0;
        let probe = |rate: f64| -> Result<Probe, Infallible> {
            count += 1;
            Ok(Probe { achieved_per_sec: rate, lost: u64::from(rate > 1000.0 && count % 2 == 0) })
        };
        let found = zero_loss(10_000.0, false, 0.0, 0.03, probe).unwrap();
        assert!(found.rate_per_sec <= 1000.0, "{found:?}");
    }

    #[test]
    fn the_rate_that_was_sent_counts() {
        let probe = |rate: f64| -> Result<Probe, Infallible> {
            Ok(Probe { achieved_per_sec: rate.min(700.0), lost: u64::from(rate > 900.0) })
        };
        let found = zero_loss(1000.0, false, 0.0, 0.03, probe).unwrap();
        assert_eq!(found.rate_per_sec, 700.0);
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(zero_loss(1e6, false, 0.0, 0.03, |_| Err("gone")), Err("gone"));
    }

    #[test]
    fn a_resolution_of_nothing_ends_all_the_same() {
        let probe = |rate: f64| -> Result<Probe, Infallible> {
            Ok(Probe { achieved_per_sec: rate, lost: u64::from(rate > 333.0) })
        };
        let found = zero_loss(1000.0, false, 0.0, 0.0, probe).unwrap();
        assert!(found.loads <= LOADS_MAX + CONFIRMATIONS, "{found:?}");
    }
}
