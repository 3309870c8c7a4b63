//! The account of a replay.

use hdrhistogram::Histogram;
use ringside_core::{LinkType, Refusal};
use serde::Serialize;
use std::collections::BTreeMap;

/// A frame that left this much after its time is overdue, in nanoseconds: what other programs on
/// the same CPU cost is below, what a stalled disk or a full interface costs is above.
pub const OVERDUE_NS: u64 = 1_000_000;

/// Longest error that is distinguished from longer ones, in nanoseconds: an hour.
const ERROR_NS_MAX: u64 = 3_600_000_000_000;

/// What happened to frames before they were offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadCounts {
    /// Frames read.
    pub read: u64,
    /// Outside the range of time.
    pub outside_range: u64,
    /// Not matched by the filter.
    pub filtered: u64,
    /// Left out, because they cannot be sent.
    pub skipped: Unsendable,
    /// Of the others, those that were cut when they were captured and are sent as they are.
    pub cut: u64,
    /// Of the others, those that were cut and are filled up with zeros.
    pub padded: u64,
    /// Of the others, those with a stamp earlier than one before: due at once.
    pub backwards: u64,
    /// Of the others, those without a stamp: due at once.
    pub without_time: u64,
    /// Of the others, those with an address that was exchanged.
    pub mapped: u64,
}

/// Frames that cannot be sent, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unsendable {
    /// Of link types other than Ethernet, by the number of the type.
    pub link_types: BTreeMap<u16, u64>,
    /// Cut when they were captured.
    pub cut: u64,
    /// Shorter than an Ethernet header.
    pub too_short: u64,
    /// Longer than the interface takes.
    pub too_long: u64,
    /// The longest of all, in bytes, without a VLAN tag that the interface takes beyond its MTU.
    pub longest_bytes: u64,
}

/// Why one frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    LinkType(LinkType),
    Cut,
    TooShort,
    TooLong(usize),
}

impl Unsendable {
    pub(crate) fn count(&mut self, cause: Cause) {
        match cause {
            Cause::LinkType(link) => *self.link_types.entry(link.0).or_default() += 1,
            Cause::Cut => self.cut += 1,
            Cause::TooShort => self.too_short += 1,
            Cause::TooLong(bytes) => {
                self.too_long += 1;
                self.longest_bytes = self.longest_bytes.max(bytes as u64);
            }
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.link_types.values().sum::<u64>() + self.cut + self.too_short + self.too_long
    }

    fn add(&mut self, other: &Unsendable) {
        for (&link, count) in &other.link_types {
            *self.link_types.entry(link).or_default() += count;
        }
        self.cut += other.cut;
        self.too_short += other.too_short;
        self.too_long += other.too_long;
        self.longest_bytes = self.longest_bytes.max(other.longest_bytes);
    }
}

impl ReadCounts {
    pub(crate) fn add(&mut self, other: &ReadCounts) {
        self.read += other.read;
        self.outside_range += other.outside_range;
        self.filtered += other.filtered;
        self.skipped.add(&other.skipped);
        self.cut += other.cut;
        self.padded += other.padded;
        self.backwards += other.backwards;
        self.without_time += other.without_time;
        self.mapped += other.mapped;
    }
}

/// Frames that were offered and not accepted, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The driver had no room (ENOBUFS), or the link is down.
    pub no_room: u64,
    /// Longer than the interface takes (EMSGSIZE).
    pub too_long: u64,
    /// The interface was set down (ENETDOWN) or removed (ENXIO, ENODEV).
    pub interface_down: u64,
    /// Anything else, as what the sink could not hand over before its end.
    pub other: u64,
}

impl Refused {
    /// Adds frames that were refused for `cause`.
    pub(crate) fn add(&mut self, cause: Refusal, frames: u64) {
        *match cause {
            Refusal::NoRoom => &mut self.no_room,
            Refusal::TooLong => &mut self.too_long,
            Refusal::InterfaceGone => &mut self.interface_down,
            Refusal::NotSent | Refusal::Other => &mut self.other,
        } += frames;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.no_room + self.too_long + self.interface_down + self.other
    }
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// At the end of the capture, or of its last round, or after the count that was asked for.
    #[default]
    Done,
    /// After the time that was asked for.
    Time,
    /// Because of a stop from outside.
    Stopped,
    /// By an error.
    Failed,
}

/// How far from their times frames were handed over, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub struct TimingErrors {
    /// Frames that had a time.
    pub frames: u64,
    /// Half were nearer.
    pub p50_ns: u64,
    /// 99 of 100 were nearer.
    pub p99_ns: u64,
    /// The farthest.
    pub max_ns: u64,
    /// Frames that left more than [`OVERDUE_NS`] after their time.
    pub overdue: u64,
    /// Of these, those that had not been read when they were due.
    pub overdue_for_input: u64,
    /// How often nothing was read when the sender wanted more, the start apart.
    pub input_stalls: u64,
}

/// Counts of errors, in memory of a fixed size.
pub(crate) struct ErrorCounts {
    histogram: Histogram<u64>,
    pub overdue: u64,
    pub overdue_for_input: u64,
    pub input_stalls: u64,
}

impl ErrorCounts {
    pub fn new() -> ErrorCounts {
        // Three digits; at most 30 doublings of a thousand counters.
        let histogram = Histogram::new_with_bounds(1, ERROR_NS_MAX, 3);
        let histogram = histogram.expect("the bounds are in order and three digits are allowed");
        ErrorCounts { histogram, overdue: 0, overdue_for_input: 0, input_stalls: 0 }
    }

    pub fn note(&mut self, error_ns: u64) {
        self.histogram.saturating_record(error_ns);
        self.overdue += u64::from(error_ns > OVERDUE_NS);
    }

    pub fn report(&self) -> TimingErrors {
        TimingErrors {
            frames: self.histogram.len(),
            p50_ns: self.histogram.value_at_quantile(0.5),
            p99_ns: self.histogram.value_at_quantile(0.99),
            max_ns: self.histogram.max(),
            overdue: self.overdue,
            overdue_for_input: self.overdue_for_input,
            input_stalls: self.input_stalls,
        }
    }
}

/// What the interface itself counted meanwhile, whichever process sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InterfaceCounts {
    /// Frames sent (`tx_packets`).
    pub tx_packets: u64,
    /// Frames that were not (`tx_dropped`).
    pub tx_dropped: u64,
}

/// The account of a replay:
/// `read = outside_range + filtered + skipped + offered + not_sent` and
/// `offered = accepted + refused`.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Before frames were offered.
    #[serde(flatten)]
    pub counts: ReadCounts,
    /// Read and ready when the replay ended early.
    pub not_sent: u64,
    /// Frames that were to be sent, each counted once.
    pub offered: u64,
    /// Frames that the interface took.
    pub accepted: u64,
    /// Their bytes. Of a sink that tells late what was refused (af-xdp), and not of which frame,
    /// these frames are reckoned with the mean length.
    pub accepted_bytes: u64,
    /// Frames that it did not.
    pub refused: Refused,
    /// Times that a frame was refused for want of room and offered again.
    pub offered_again: u64,
    /// What the interface counted; none if it is gone.
    pub interface: Option<InterfaceCounts>,
    /// How well times were kept; none where frames had none.
    pub timing: Option<TimingErrors>,
    /// From the first frame to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// How it ended.
    pub ended: Ended,
    /// The error that ended it.
    pub failure: Option<String>,
    /// What is to be said of the inputs.
    pub notices: Vec<String>,
}

impl ReplayReport {
    /// Frames that the interface says it dropped without an error to the sender. Others' frames may
    /// be among them. Before Linux 6.16 a veth pair drops so what its far end has no room for.
    pub fn dropped_untold(&self) -> u64 {
        let dropped = self.interface.map_or(0, |interface| interface.tx_dropped);
        dropped.saturating_sub(self.refused.no_room + self.offered_again)
    }

    /// True if every frame that was to be sent was taken, and nothing says otherwise.
    pub fn is_whole(&self) -> bool {
        self.refused.total() == 0 && self.dropped_untold() == 0 && self.failure.is_none()
    }
}
