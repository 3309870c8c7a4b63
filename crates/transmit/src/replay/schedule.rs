//! When each frame is due, in nanoseconds from the start of the replay.

use crate::rate::{Pace, wire_bytes};
use ringside_core::Timestamp;
use ringside_core::time::NANOS_PER_SEC;
use std::str::FromStr;
use std::time::Duration;

/// A stamp that is this much earlier than one before it comes from a clock that was set back: time
/// goes on from there. What is less comes from merging and from several queues.
const CLOCK_STEP_NS: u64 = NANOS_PER_SEC;

const MILLIONTHS: u64 = 1_000_000;

/// Fastest and slowest speed, in millionths; what is beyond is a slip.
const SPEED_MAX: u64 = 1_000_000 * MILLIONTHS;

/// When frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// As far apart as their stamps say.
    Recorded {
        /// This number of times as fast.
        speed: Speed,
        /// Longest wait between two frames, as sent; longer ones are shortened to it.
        gap_max: Option<Duration>,
    },
    /// At an even rate, whatever the stamps say.
    Paced(Pace),
    /// One after the other.
    Fast,
}

/// How many times as fast as recorded, in millionths. Read from text: `1`, `0.5`, `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(u64);

impl Speed {
    /// As recorded.
    pub const RECORDED: Speed = Speed(MILLIONTHS);

    fn shrink(self, ns: u64) -> u64 {
        let ns = u128::from(ns) * u128::from(MILLIONTHS) / u128::from(self.0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        let millionths = text.parse::<f64>().ok().map(|number| number * MILLIONTHS as f64);
        match millionths.map(f64::round) {
            Some(value) if (1.0..=SPEED_MAX as f64).contains(&value) => Ok(Speed(value as u64)),
            _ => Err(format!(
                "{text:?} is no speed: write how many times as fast, as 0.5 or 10, from 0.000001 \
                 to 1000000"
            )),
        }
    }
}

/// When one frame is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub ns: u64,
    pub odd: Option<Odd>,
}

/// Why a frame is due at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Its stamp is earlier than one before it.
    Backwards,
    /// The file gives no time for it.
    NoTime,
}

/// Follows the stamps of frames; what it says never goes back.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    timing: Timing,
    /// A stamp, and when that is due: all times are reckoned from there.
    anchor: Option<(u64, u64)>,
    latest_stamp_ns: u64,
    last_due_ns: u64,
    frames: u64,
    wire_bytes: u64,
}

impl Schedule {
    pub fn new(timing: Timing) -> Schedule {
        Schedule {
            timing,
            anchor: None,
            latest_stamp_ns: 0,
            last_due_ns: 0,
            frames: 0,
            wire_bytes: 0,
        }
    }

    /// The capture begins anew: its first frame follows the last one at once.
    pub fn begin_round(&mut self) {
        self.anchor = None;
    }

    /// When the next frame is due, which was stamped so and is `bytes` long as sent.
    pub fn due(&mut self, stamp: Timestamp, bytes: usize) -> Due {
        let due = match self.timing {
            Timing::Recorded { speed, gap_max } => self.recorded(stamp, speed, gap_max),
            Timing::Paced(pace) => Due { ns: pace.due_ns(self.frames, self.wire_bytes), odd: None },
            Timing::Fast => Due { ns: 0, odd: None },
        };
        self.frames += 1;
        self.wire_bytes = self.wire_bytes.saturating_add(wire_bytes(bytes));
        self.last_due_ns = due.ns;
        due
    }

    fn recorded(&mut self, stamp: Timestamp, speed: Speed, gap_max: Option<Duration>) -> Due {
        let at_once = |odd| Due { ns: self.last_due_ns, odd: Some(odd) };
        if stamp == Timestamp::default() {
            return at_once(Odd::NoTime);
        }
        let Some((anchor_stamp, anchor_due)) = self.anchor else {
            self.anchor = Some((stamp.0, self.last_due_ns));
            self.latest_stamp_ns = stamp.0;
            return Due { ns: self.last_due_ns, odd: None };
        };
        if stamp.0 < self.latest_stamp_ns {
            let due = at_once(Odd::Backwards);
            if self.latest_stamp_ns - stamp.0 >= CLOCK_STEP_NS {
                self.anchor = Some((stamp.0, self.last_due_ns));
                self.latest_stamp_ns = stamp.0;
            }
            return due;
        }
        self.latest_stamp_ns = stamp.0;
        let ns = anchor_due.saturating_add(speed.shrink(stamp.0 - anchor_stamp));
        let gap_max = gap_max.map_or(u64::MAX, |gap| gap.as_nanos() as u64);
        let latest = self.last_due_ns.saturating_add(gap_max);
        if ns > latest {
            self.anchor = Some((stamp.0, latest));
        }
        Due { ns: ns.min(latest), odd: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(speed: &str, gap_max: Option<Duration>) -> Schedule {
        Schedule::new(Timing::Recorded { speed: speed.parse().unwrap(), gap_max })
    }

    fn times(schedule: &mut Schedule, stamps: &[u64]) -> Vec<u64> {
        stamps.iter().map(|&stamp| schedule.due(Timestamp(stamp), 60).ns).collect()
    }

    #[test]
    fn gaps_are_kept_stretched_and_shortened() {
        let stamps = [1_000, 1_003, 1_003, 5_003];
        assert_eq!(times(&mut recorded("1", None), &stamps), [0, 3, 3, 4_003]);
        assert_eq!(times(&mut recorded("0.5", None), &stamps), [0, 6, 6, 8_006]);
        assert_eq!(times(&mut recorded("10", None), &stamps), [0, 0, 0, 400]);
        let gap = Some(Duration::from_nanos(100));
        assert_eq!(times(&mut recorded("1", gap), &[1_000, 1_003, 5_003, 5_050]), [0, 3, 103, 150]);
        assert_eq!(times(&mut recorded("40", gap), &[1_000, 5_000, 9_000]), [0, 100, 200]);
    }

    #[test]
    fn time_that_goes_back_is_sent_at_once_and_a_clock_that_was_set_back_goes_on() {
        let mut schedule = recorded("1", None);
        assert_eq!(times(&mut schedule, &[1_000, 1_500]), [0, 500]);
        let back = Due { ns: 500, odd: Some(Odd::Backwards) };
        assert_eq!(schedule.due(Timestamp(1_200), 60), back);
        assert_eq!(times(&mut schedule, &[1_300, 1_600]), [500, 600]);
        let none = Due { ns: 600, odd: Some(Odd::NoTime) };
        assert_eq!(schedule.due(Timestamp(0), 60), none);
        let mut schedule = recorded("1", None);
        assert_eq!(
            times(&mut schedule, &[9_000_000_000, 7_000_000_000, 7_000_000_010]),
            [0, 0, 10]
        );
    }

    #[test]
    fn a_round_follows_at_once() {
        let mut schedule = recorded("1", None);
        assert_eq!(times(&mut schedule, &[50, 70]), [0, 20]);
        schedule.begin_round();
        assert_eq!(times(&mut schedule, &[50, 70]), [20, 40]);
    }

    #[test]
    fn a_rate_leaves_stamps_alone() {
        let mut schedule = Schedule::new(Timing::Paced(Pace::Frames(1_000)));
        assert_eq!(times(&mut schedule, &[9, 0, 5]), [0, 1_000_000, 2_000_000]);
        let mut schedule = Schedule::new(Timing::Paced(Pace::Bits(84 * 8)));
        assert_eq!(times(&mut schedule, &[9, 0, 5]), [0, 1_000_000_000, 2_000_000_000]);
        assert_eq!(times(&mut Schedule::new(Timing::Fast), &[9, 99]), [0, 0]);
    }

    #[test]
    fn speeds() {
        for wrong in ["0", "-1", "fast", "", "nan", "inf", "0.0000001", "1e7"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        assert_eq!("1".parse(), Ok(Speed::RECORDED));
    }

    proptest! {
        #[test]
        fn what_is_due_never_goes_back(
            stamps in proptest::collection::vec(any::<u64>(), 1..50), speed in 1u64..SPEED_MAX,
            gap in proptest::option::of(0u64..1 << 50),
        ) {
            let gap_max = gap.map(Duration::from_nanos);
            let timing = Timing::Recorded { speed: Speed(speed), gap_max };
            let due = times(&mut Schedule::new(timing), &stamps);
            prop_assert!(due.is_sorted(), "{:?}", due);
        }
    }
}
