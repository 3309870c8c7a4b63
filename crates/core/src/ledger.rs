//! The ledger: every frame of a run, in two stages.
//!
//! Stage 1, per lane: `received = taken + passed + filtered + Σ dropped`.
//! Stage 2, per consumer: `taken = delivered + Σ missed`.
//! While a run goes on, some frames are in flight: they are counted where they lie, and belong to
//! no term. At its end nothing may be, so that what is lost without a cause shows.
//!
//! Which kernel counter feeds which term is in `docs/LEDGER.md`. What a kernel interface cannot
//! count is `None` (JSON null), never 0.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

mod words;

pub use words::{LEDGER_SPARE_AT, LEDGER_WORDS, Words};

/// Why frames were lost. Serialised in snake case; the names are part of the output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The packet socket's (or libpcap's) ring was full: the worker was too slow.
    KernelRingFull,
    /// The interface or its driver dropped it before the socket (libpcap's ps_ifdrop).
    InterfaceDrop,
    /// The capture ring was full, because the recorder (a lossless reader) was behind.
    RecorderBehind,
    /// A frame larger than a block of the capture ring can hold.
    FrameTooLarge,
    /// A copying reader was overtaken by the writer.
    Overtaken,
    /// The disk was full.
    DiskFull,
    /// Writing failed for another reason than space.
    WriteFailed,
    /// The other end of the pipe was closed.
    PipeClosed,
    /// The other end of the pipe did not read until the end of the run.
    PipeStalled,
    /// The run reached its own limit (`-c`) with frames already taken.
    LimitReached,
    /// A record of a file that could not be read.
    Damaged,
    /// Not kept on purpose: no hit of the trigger (`--on`) was near.
    OutsideTrigger,
    /// The worker process died: the kernel or the process had the frame, and nothing shared did.
    WorkerDied,
    /// The kernel had no free memory of ours to receive into (AF_XDP): the worker was too slow.
    FillRingEmpty,
    /// Not kept on purpose: a rule said `drop`.
    ByRule,
    /// Not kept on purpose: its source sent more than it may.
    SourceLimit,
}

impl Cause {
    /// All causes, each at its [`index`](Cause::index).
    pub const ALL: [Cause; 16] = [
        Cause::KernelRingFull,
        Cause::InterfaceDrop,
        Cause::RecorderBehind,
        Cause::FrameTooLarge,
        Cause::Overtaken,
        Cause::DiskFull,
        Cause::WriteFailed,
        Cause::PipeClosed,
        Cause::PipeStalled,
        Cause::LimitReached,
        Cause::Damaged,
        Cause::OutsideTrigger,
        Cause::WorkerDied,
        Cause::FillRingEmpty,
        Cause::ByRule,
        Cause::SourceLimit,
    ];

    /// The place of this cause in tables.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// False for what was left out because the user wanted it so.
    pub fn is_loss(self) -> bool {
        !matches!(self, Cause::OutsideTrigger | Cause::ByRule | Cause::SourceLimit)
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Cause::KernelRingFull => "kernel_ring_full",
            Cause::InterfaceDrop => "interface_drop",
            Cause::RecorderBehind => "recorder_behind",
            Cause::FrameTooLarge => "frame_too_large",
            Cause::Overtaken => "overtaken",
            Cause::DiskFull => "disk_full",
            Cause::WriteFailed => "write_failed",
            Cause::PipeClosed => "pipe_closed",
            Cause::PipeStalled => "pipe_stalled",
            Cause::LimitReached => "limit_reached",
            Cause::Damaged => "damaged",
            Cause::OutsideTrigger => "outside_trigger",
            Cause::WorkerDied => "worker_died",
            Cause::FillRingEmpty => "fill_ring_empty",
            Cause::ByRule => "by_rule",
            Cause::SourceLimit => "source_limit",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Frames by cause; causes with a count of 0 may be present or absent.
pub type ByCause = BTreeMap<Cause, u64>;

/// Sum over the causes.
pub fn total(by_cause: &ByCause) -> u64 {
    sum(by_cause.values().copied())
}

/// Sum over the causes that are losses.
pub fn lost(by_cause: &ByCause) -> u64 {
    sum(by_cause.iter().filter(|(cause, _)| cause.is_loss()).map(|(_, &frames)| frames))
}

/// Counts frames under a cause.
pub fn add_frames(by_cause: &mut ByCause, cause: Cause, frames: u64) {
    if frames > 0 {
        let count = by_cause.entry(cause).or_default();
        *count = count.saturating_add(frames);
    }
}

/// The sum of counts of which some may come from another process: none ends this one, and one that
/// is too large balances nothing.
pub fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Stage 1 of one lane, and what else is counted there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneCounters {
    /// Interface of the lane.
    pub interface: String,
    /// Queue or fanout member.
    pub queue: u16,
    /// Frames that the interface accepted.
    pub received: Option<u64>,
    /// Frames that reached a consumer's memory.
    pub taken: u64,
    /// Captured bytes of the frames taken.
    pub taken_bytes: u64,
    /// Of the frames taken, those of which not all bytes of the wire were kept; counted where a
    /// snapshot length, a rule or a cap may cut.
    #[serde(default)]
    pub cut_frames: u64,
    /// Bytes of these that were not kept.
    #[serde(default)]
    pub cut_bytes: u64,
    /// Frames left to the host.
    pub passed: u64,
    /// Frames that the filter turned away, or that rules did not take.
    pub filtered: Option<u64>,
    /// Frames lost before they were taken.
    pub dropped: ByCause,
    /// Frames accepted by the kernel and not yet taken, as counted where they lie. Some once the
    /// source is finished were left there, and are missing in the other terms.
    pub in_flight: Option<u64>,
    /// Frames stamped earlier than the one before them in the lane.
    pub inversions: u64,
    /// Of the frames taken, how many each thread took, where several drain the lane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_by_thread: Vec<u64>,
    /// Of a lane that has ended and does not balance: received less what is accounted for, in
    /// frames. So the files say it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance: Option<i64>,
}

impl LaneCounters {
    /// Notes whether the lane, which has ended, balances.
    pub fn note_imbalance(&mut self) {
        let off = self.balance().err().map(|off| i128::from(off.left) - i128::from(off.right));
        self.imbalance = off.map(|frames| match i64::try_from(frames) {
            Ok(frames) => frames,
            Err(_) if frames < 0 => i64::MIN,
            Err(_) => i64::MAX,
        });
    }

    /// Stage 1 of a lane that has ended, exactly; one whose `received` or `filtered` is unknown
    /// cannot be checked and passes.
    fn balance(&self) -> Result<(), Imbalance> {
        let (Some(received), Some(filtered)) = (self.received, self.filtered) else {
            return Ok(());
        };
        let sum = sum([self.taken, self.passed, filtered, total(&self.dropped)]);
        let who = || format!("lane {} queue {}", self.interface, self.queue);
        check(who, received, sum, self.in_flight)
    }

    /// The sum of lanes of one interface; `received`, `filtered` and `in_flight` are unknown as
    /// soon as one lane's are.
    pub fn sum<'l>(lanes: impl Iterator<Item = &'l LaneCounters>) -> LaneCounters {
        let none = Some(0);
        let start =
            LaneCounters { received: none, filtered: none, in_flight: none, ..Default::default() };
        lanes.fold(start, |mut sum, lane| {
            sum.interface.clone_from(&lane.interface);
            sum.received = add(sum.received, lane.received);
            sum.filtered = add(sum.filtered, lane.filtered);
            sum.in_flight = add(sum.in_flight, lane.in_flight);
            for (count, more) in [
                (&mut sum.taken, lane.taken),
                (&mut sum.taken_bytes, lane.taken_bytes),
                (&mut sum.cut_frames, lane.cut_frames),
                (&mut sum.cut_bytes, lane.cut_bytes),
                (&mut sum.passed, lane.passed),
                (&mut sum.inversions, lane.inversions),
            ] {
                *count = count.saturating_add(more);
            }
            if let Some(frames) = lane.imbalance {
                sum.imbalance = Some(sum.imbalance.unwrap_or(0).saturating_add(frames));
            }
            for (&cause, &count) in &lane.dropped {
                add_frames(&mut sum.dropped, cause, count);
            }
            sum
        })
    }
}

/// Stage 2 of one consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Who: `recorder`, `meter`, `stream`, …
    pub name: String,
    /// Frames that it got.
    pub delivered: u64,
    /// Of these, frames that a live merge delivered after a younger one.
    #[serde(default)]
    pub late: u64,
    /// Frames that it did not get.
    pub missed: ByCause,
}

/// The ledger of a run: the sum of its lanes, and its consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Frames that the interfaces accepted; `None` as soon as one lane cannot count.
    pub received: Option<u64>,
    /// Frames taken.
    pub taken: u64,
    /// Frames left to the host.
    pub passed: u64,
    /// Frames filtered; `None` as soon as one lane cannot count.
    pub filtered: Option<u64>,
    /// Frames lost, by cause.
    pub dropped: ByCause,
    /// Frames accepted and not yet taken; `None` as soon as one lane cannot count.
    pub in_flight: Option<u64>,
    /// Stage 2.
    pub consumers: Vec<Consumer>,
    /// Stage 1, lane by lane.
    pub lanes: Vec<LaneCounters>,
}

/// A ledger that does not balance: a bug of Ringside or of the kernel, never to be hidden.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the ledger does not balance: {who}: {left} accounted as {right}{}", left_over(*.in_flight)
)]
pub struct Imbalance {
    /// Lane or consumer.
    pub who: String,
    /// received, or taken.
    pub left: u64,
    /// The sum of the terms.
    pub right: u64,
    /// Frames that were left where they lay.
    pub in_flight: u64,
}

fn left_over(in_flight: u64) -> String {
    match in_flight {
        0 => String::new(),
        frames => format!("; {frames} frames still lay in the kernel's memory at the end"),
    }
}

impl Ledger {
    /// Adds up lanes; the caller adds the consumers.
    pub fn from_lanes(lanes: Vec<LaneCounters>) -> Ledger {
        let sum = LaneCounters::sum(lanes.iter());
        Ledger {
            received: sum.received,
            taken: sum.taken,
            passed: sum.passed,
            filtered: sum.filtered,
            dropped: sum.dropped,
            in_flight: sum.in_flight,
            consumers: Vec::new(),
            lanes,
        }
    }

    /// Checks both stages of a run that has ended, exactly. A lane whose `received` or `filtered`
    /// is unknown cannot be checked and passes.
    ///
    /// # Errors
    /// The first lane or consumer that does not balance.
    pub fn balance(&self) -> Result<(), Imbalance> {
        self.lanes.iter().try_for_each(LaneCounters::balance)?;
        for consumer in &self.consumers {
            let sum = sum([consumer.delivered, total(&consumer.missed)]);
            check(|| format!("consumer {}", consumer.name), self.taken, sum, None)?;
        }
        Ok(())
    }

    /// Frames lost in either stage. What a trigger or a rule leaves out was not to be kept.
    pub fn lost(&self) -> u64 {
        let missed = self.consumers.iter().map(|consumer| lost(&consumer.missed));
        sum(missed.chain([lost(&self.dropped)]))
    }
}

fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

fn check(
    who: impl Fn() -> String,
    left: u64,
    right: u64,
    in_flight: Option<u64>,
) -> Result<(), Imbalance> {
    if left == right {
        return Ok(());
    }
    Err(Imbalance { who: who(), left, right, in_flight: in_flight.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> LaneCounters {
        LaneCounters {
            received: Some(10),
            taken: 6,
            filtered: Some(3),
            dropped: ByCause::from([(Cause::KernelRingFull, 1)]),
            ..LaneCounters::default()
        }
    }

    #[test]
    fn a_balanced_lane_passes_and_one_frame_off_fails() {
        assert_eq!(Ledger::from_lanes(vec![lane()]).balance(), Ok(()));
        let off = LaneCounters { taken: 5, ..lane() };
        assert_eq!(Ledger::from_lanes(vec![off.clone()]).balance().unwrap_err().right, 9);
        let noted = |mut lane: LaneCounters| {
            lane.note_imbalance();
            lane.imbalance
        };
        assert_eq!((noted(lane()), noted(off)), (None, Some(1)));
        assert_eq!(noted(LaneCounters { taken: u64::MAX, ..lane() }), Some(i64::MIN));
    }

    /// Each count of a lane, one frame more or less than it was.
    fn falsified(lane: &LaneCounters) -> Vec<LaneCounters> {
        let mut found = Vec::new();
        let mut add = |falsify: &dyn Fn(&mut LaneCounters, u64)| {
            for by in [1, u64::MAX] {
                let mut lane = lane.clone();
                falsify(&mut lane, by);
                found.push(lane);
            }
        };
        let off = |count: &mut u64, by: u64| *count = count.wrapping_add(by);
        add(&|lane, by| off(lane.received.as_mut().unwrap(), by));
        add(&|lane, by| off(&mut lane.taken, by));
        add(&|lane, by| off(&mut lane.passed, by));
        add(&|lane, by| off(lane.filtered.as_mut().unwrap(), by));
        for cause in lane.dropped.keys() {
            add(&|lane, by| off(lane.dropped.get_mut(cause).unwrap(), by));
        }
        found
    }

    #[test]
    fn one_frame_more_or_less_in_any_count_of_a_lane_is_an_imbalance() {
        let dropped = Cause::ALL.into_iter().map(|cause| (cause, 5)).collect();
        let received = Some(10 + 7 + 3 + 5 * Cause::ALL.len() as u64);
        let whole =
            LaneCounters { received, taken: 10, passed: 7, filtered: Some(3), dropped, ..lane() };
        assert_eq!(Ledger::from_lanes(vec![whole.clone()]).balance(), Ok(()));
        for in_flight in [None, Some(0), Some(1), Some(u64::MAX)] {
            for off in falsified(&whole) {
                let ledger = Ledger::from_lanes(vec![LaneCounters { in_flight, ..off }]);
                assert!(ledger.balance().is_err(), "{ledger:#?}");
            }
        }
    }

    #[test]
    fn what_lies_somewhere_at_the_end_is_no_excuse_and_is_reported() {
        let lane = LaneCounters { received: Some(14), in_flight: Some(4), ..lane() };
        let text = Ledger::from_lanes(vec![lane]).balance().unwrap_err().to_string();
        assert!(text.contains("14 accounted as 10; 4 frames still lay"), "{text}");
    }

    #[test]
    fn sums_that_do_not_fit_balance_nothing_and_panic_nowhere() {
        let huge = LaneCounters {
            taken: u64::MAX,
            taken_bytes: u64::MAX,
            dropped: ByCause::from([(Cause::Damaged, u64::MAX)]),
            in_flight: Some(u64::MAX),
            ..lane()
        };
        let mut ledger = Ledger::from_lanes(vec![huge.clone(), huge]);
        assert!(ledger.balance().is_err());
        let missed = ByCause::from([(Cause::DiskFull, u64::MAX), (Cause::Overtaken, 7)]);
        ledger.consumers.push(Consumer { delivered: 3, missed, ..Consumer::default() });
        assert_eq!(ledger.lost(), u64::MAX);
        assert!(ledger.balance().is_err());
    }

    #[test]
    fn a_consumer_must_account_for_everything_taken() {
        let mut ledger = Ledger::from_lanes(vec![lane(), lane()]);
        let missed = ByCause::from([(Cause::DiskFull, 2)]);
        let name = "recorder".into();
        ledger.consumers.push(Consumer { name, delivered: 10, late: 1, missed });
        assert_eq!(ledger.balance(), Ok(()));
        ledger.consumers[0].delivered = 9;
        assert!(ledger.balance().is_err());
        assert_eq!(ledger.lost(), 4);
    }

    #[test]
    fn what_one_lane_cannot_count_is_unknown_for_the_run() {
        let unknown = LaneCounters { filtered: None, ..lane() };
        let ledger = Ledger::from_lanes(vec![lane(), unknown]);
        assert_eq!((ledger.received, ledger.filtered), (Some(20), None));
        let json = serde_json::to_value(&ledger).unwrap();
        assert!(json["filtered"].is_null());
        assert_eq!(json["dropped"]["kernel_ring_full"], 2);
    }

    #[test]
    fn cause_names_are_the_serialised_names() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
            assert_eq!(cause.index(), index);
        }
    }
}
