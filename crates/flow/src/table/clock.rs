//! The table's time: that of the packets, but never backward.

use ringside_core::Timestamp;

/// How far behind the latest stamp a packet may be that is late and no step of the clock, in
/// nanoseconds: captures of several queues and merges put packets some milliseconds out of order,
/// and it is less than the idle time-out.
const LATE_NS: u64 = 10_000_000_000;

/// Time that goes on with the stamps of packets. A step back is taken for what it is: time stands
/// for that one packet and goes on from its stamp. A leap forward counts for no more than ends all
/// flows, so that stamps that leap to and fro do not use up the time there is.
#[derive(Debug)]
pub(super) struct Clock {
    /// Time as it goes on.
    now_ns: u64,
    /// The stamp that it belongs to.
    stamp_ns: u64,
    leap_max_ns: u64,
    pub steps: u64,
}

impl Clock {
    pub fn new(leap_max_ns: u64) -> Clock {
        Clock { now_ns: 0, stamp_ns: 0, leap_max_ns, steps: 0 }
    }

    /// A leap forward counts for no more than this.
    pub fn set_leap_max(&mut self, leap_max_ns: u64) {
        self.leap_max_ns = leap_max_ns;
    }

    /// True before the first stamp.
    pub fn is_new(&self) -> bool {
        self.now_ns == 0
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The time of a packet, and its stamp: one that has none came when the last one did.
    #[inline]
    pub fn at(&mut self, stamp: Timestamp) -> (u64, u64) {
        let stamp = stamp.0;
        if stamp >= self.stamp_ns {
            let ahead = stamp - self.stamp_ns;
            let is_new = self.is_new();
            let ahead = if is_new { ahead } else { ahead.min(self.leap_max_ns) };
            // The end of time is 2554; there it stands, and full tables give up their oldest.
            self.now_ns = self.now_ns.saturating_add(ahead).min(u64::MAX / 2);
            self.stamp_ns = stamp;
            return (self.now_ns, stamp);
        }
        if stamp == 0 {
            return (self.now_ns, self.stamp_ns);
        }
        let behind = self.stamp_ns - stamp;
        if behind <= LATE_NS {
            return (self.now_ns.saturating_sub(behind), stamp);
        }
        self.steps += 1;
        self.stamp_ns = stamp;
        (self.now_ns, stamp)
    }

    /// The time when no packet is older than this any more.
    pub fn advance(&mut self, low_water: Timestamp) -> u64 {
        if low_water.0 > self.stamp_ns && !self.is_new() {
            self.at(low_water);
        }
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_does_not_leap() {
        const S: u64 = 1_000_000_000;
        let mut clock = Clock::new(75 * S);
        let mut at = |seconds: u64| clock.at(Timestamp(seconds * S));
        assert_eq!(at(1000), (1000 * S, 1000 * S));
        assert_eq!(at(1001), (1001 * S, 1001 * S));
        assert_eq!(at(995), (995 * S, 995 * S), "late");
        assert_eq!(at(0), (1001 * S, 1001 * S), "no stamp");
        assert_eq!(at(1002), (1002 * S, 1002 * S));
        assert_eq!(at(500), (1002 * S, 500 * S), "a step back");
        assert_eq!(at(501), (1003 * S, 501 * S));
        assert_eq!(at(90_000), (1078 * S, 90_000 * S), "a leap");
        assert_eq!(clock.steps, 1);
        clock.advance(Timestamp(4 * S));
        assert_eq!(clock.now_ns(), 1078 * S, "an old promise");
        clock.at(Timestamp(u64::MAX));
        for _ in 0..3 {
            clock.at(Timestamp(1));
            clock.at(Timestamp(u64::MAX));
        }
        assert_eq!(clock.steps, 4);
    }
}
