//! Pacing: a token bucket on the monotonic clock.

/// Depth of the bucket, in nanoseconds of the rate. A sender that was held up (a busy CPU, a sleep
/// that took longer) catches up with at most this much; what it missed beyond is not made up, and
/// the rate achieved shows it. So within any interval T at most
/// `rate · (T + PACE_DEPTH_NS) + 1` frames are sent.
pub const PACE_DEPTH_NS: u64 = 10_000_000;

/// Frames are granted in bursts of this much of the rate (at least one frame): a call of the kernel
/// for each frame would not reach a million a second.
const BURST_NS: u64 = 500_000;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Grants frames at a rate. Time is an argument, so that tests need no sleep.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate_per_sec: u64,
    /// Tokens in units of 1/NANOS_PER_SEC frames.
    tokens: u128,
    last_ns: u64,
}

impl Pacer {
    /// `rate_per_sec` frames a second, at least 1, from the time `now_ns` on.
    pub fn new(rate_per_sec: u64, now_ns: u64) -> Pacer {
        Pacer { rate_per_sec: rate_per_sec.max(1), tokens: 0, last_ns: now_ns }
    }

    /// How many frames may be sent at `now_ns`; `Err` says for how many nanoseconds to wait for
    /// the next burst.
    pub fn grant(&mut self, now_ns: u64) -> Result<u64, u64> {
        let one = u128::from(NANOS_PER_SEC);
        let rate = u128::from(self.rate_per_sec);
        let passed = u128::from(now_ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(now_ns);
        let depth = (rate * u128::from(PACE_DEPTH_NS)).max(one);
        self.tokens = (self.tokens + passed * rate).min(depth);
        let burst = (rate * u128::from(BURST_NS)).max(one);
        if self.tokens >= burst {
            let frames = self.tokens / one;
            self.tokens -= frames * one;
            return Ok(frames as u64);
        }
        Err((burst - self.tokens).div_ceil(rate) as u64)
    }

    /// Gives back what was granted and not sent.
    pub fn give_back(&mut self, frames: u64) {
        self.tokens += u128::from(frames) * u128::from(NANOS_PER_SEC);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a pacer for `until_ns`, each wait taking `late_ns` longer than asked.
    fn sent(rate: u64, until_ns: u64, late_ns: u64) -> u64 {
        let (mut pacer, mut now, mut total) = (Pacer::new(rate, 0), 0, 0);
        while now < until_ns {
            match pacer.grant(now) {
                Ok(frames) => total += frames,
                Err(wait) => now += wait + late_ns,
            }
        }
        total
    }

    #[test]
    fn the_rate_is_kept_whatever_the_waits_add() {
        for rate in [1, 7, 1000, 333_333, 1_000_000, 12_000_000] {
            for late_ns in [0, 50_000, 2_000_000] {
                let frames = sent(rate, 10 * NANOS_PER_SEC, late_ns);
                let error = frames.abs_diff(10 * rate);
                let allowed = rate * PACE_DEPTH_NS / NANOS_PER_SEC + 1;
                assert!(error <= allowed, "{rate}/s, {late_ns} ns late: {frames} in 10 s");
            }
        }
    }

    #[test]
    fn a_long_hold_up_is_not_made_up() {
        let mut pacer = Pacer::new(1000, 0);
        assert_eq!(pacer.grant(60 * NANOS_PER_SEC), Ok(10));
        assert!(pacer.grant(60 * NANOS_PER_SEC).is_err());
        pacer.give_back(3);
        assert_eq!(pacer.grant(60 * NANOS_PER_SEC), Ok(3));
    }

    #[test]
    fn a_clock_that_stands_still_grants_nothing() {
        let mut pacer = Pacer::new(1, 5);
        assert_eq!(pacer.grant(5), Err(NANOS_PER_SEC));
        assert_eq!(pacer.grant(4), Err(NANOS_PER_SEC));
    }
}
