//! Time as a fact: nanoseconds of UTC, with where they came from.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Nanoseconds since 1970-01-01T00:00:00 UTC. Zero stands for "the input gave no time".
///
/// Unsigned 64 bits reach the year 2554; a stamp before 1970 or after that cannot be represented: a
/// reader of a file that holds one gives the frame without a time, and reports it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Timestamp {
    /// The largest time: a low-water mark that holds nothing back.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// From whole seconds and nanoseconds; saturates instead of wrapping.
    pub fn from_parts(seconds: u64, nanos: u32) -> Timestamp {
        Timestamp(seconds.saturating_mul(NANOS_PER_SEC).saturating_add(u64::from(nanos)))
    }

    /// Whole seconds since the epoch.
    pub fn seconds(self) -> u64 {
        self.0 / NANOS_PER_SEC
    }

    /// Nanoseconds within the second, below 1,000,000,000.
    pub fn subsec_nanos(self) -> u32 {
        (self.0 % NANOS_PER_SEC) as u32
    }

    /// This time less `duration`, not before 1970.
    pub fn saturating_sub(self, duration: Duration) -> Timestamp {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_sub(nanos))
    }

    /// This time plus `nanos`, saturating.
    pub fn saturating_add(self, nanos: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos))
    }
}

impl fmt::Display for Timestamp {
    /// Seconds and nine digits, as pcap tools print an epoch time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds(), self.subsec_nanos())
    }
}

/// A span of time, its beginning in it and its end not. Without either it is all of time; a frame
/// without a time (zero) lies before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Frames before it are left out.
    pub from: Option<Timestamp>,
    /// Frames at it and after it are left out.
    pub to: Option<Timestamp>,
}

impl TimeRange {
    /// True if a frame may lie in it that is among those of which `stamps` are.
    pub fn meets(self, stamps: Stamps) -> bool {
        let is_behind = self.from.is_some_and(|from| stamps.latest < from);
        let is_before = self.to.is_some_and(|to| stamps.earliest >= to);
        stamps.earliest <= stamps.latest && !is_behind && !is_before
    }

    /// True if `stamp` lies in it.
    pub fn holds(self, stamp: Timestamp) -> bool {
        self.from.is_none_or(|from| stamp >= from) && self.to.is_none_or(|to| stamp < to)
    }
}

/// The earliest and the latest stamp of some frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The earliest; above the latest if there is no frame.
    pub earliest: Timestamp,
    /// The latest stamp.
    pub latest: Timestamp,
}

impl Stamps {
    /// Of no frame.
    pub const NONE: Stamps = Stamps { earliest: Timestamp::MAX, latest: Timestamp(0) };

    /// Of one frame.
    pub fn of(stamp: Timestamp) -> Stamps {
        Stamps { earliest: stamp, latest: stamp }
    }

    /// Of these frames and others.
    #[must_use]
    pub fn with(self, other: Stamps) -> Stamps {
        Stamps {
            earliest: self.earliest.min(other.earliest),
            latest: self.latest.max(other.latest),
        }
    }
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps::NONE
    }
}

/// Which clock stamped a frame. Earlier in the list is closer to the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampKind {
    /// The network interface's own clock.
    Hardware,
    /// The kernel, when it received the frame.
    #[default]
    Kernel,
    /// User space, when it polled the frame: later than its receipt by as long as the frame waited
    /// to be asked for.
    Poll,
    /// A capture file; what stamped it first is unknown here.
    File,
}

impl TimestampKind {
    /// What a capture file says of it, in the description of the interface; nothing of stamps that
    /// are what readers take them for.
    pub fn remark(self) -> &'static str {
        match self {
            TimestampKind::Poll => "ringside: stamped when user space polled, not on receipt",
            TimestampKind::Hardware | TimestampKind::Kernel | TimestampKind::File => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_beginning_and_not_its_end() {
        let range = |from: Option<u64>, to: Option<u64>| TimeRange {
            from: from.map(Timestamp),
            to: to.map(Timestamp),
        };
        for (range, held) in [
            (range(None, None), [true, true, true, true]),
            (range(Some(5), None), [false, false, true, true]),
            (range(None, Some(5)), [true, true, false, false]),
            (range(Some(4), Some(6)), [false, true, true, false]),
            (range(Some(5), Some(5)), [false; 4]),
            (range(Some(6), Some(4)), [false; 4]),
        ] {
            assert_eq!([0, 4, 5, 6].map(|stamp| range.holds(Timestamp(stamp))), held, "{range:?}");
            let one = |stamp| range.meets(Stamps::of(Timestamp(stamp)));
            assert_eq!([0, 4, 5, 6].map(one), held, "{range:?}");
            assert!(!range.meets(Stamps::NONE));
            let all = Stamps::of(Timestamp(0)).with(Stamps::of(Timestamp(6)));
            let is_empty = range.from.zip(range.to).is_some_and(|(from, to)| from > to);
            assert!(range.meets(all) || is_empty, "between them may lie something");
        }
    }
}
