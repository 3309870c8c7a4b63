//! What went in and out of each stage of the captures, by their ledgers.

use crate::watch::{Capture, Captures};
use ringside_core::ledger::{ByCause, sum, total};
use ringside_core::{Consumer, LaneCounters, Ledger};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Whether anything is lost, and where.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// True if captures run, all could be asked, and none has lost a frame.
    pub ok: bool,
    /// What is not as it should be, for people.
    pub problems: Vec<String>,
    /// By process id.
    pub captures: Vec<CaptureHealth>,
}

/// The stages of a capture.
#[derive(Debug, Serialize, ToSchema)]
pub struct CaptureHealth {
    /// Process id.
    pub id: u32,
    /// Interfaces, backends and lanes in words.
    pub source: String,
    /// Interfaces first, then what reads the ring.
    pub stages: Vec<Stage>,
}

/// What went into a stage, and what became of it. Once a run has ended,
/// `input = output + set_aside + lost`, exactly.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Stage {
    /// `interface` or `reader`.
    pub kind: String,
    /// Name of the interface or of the reader.
    pub name: String,
    /// Frames that came in; null if that cannot be counted.
    pub input: Option<u64>,
    /// Frames that went out.
    pub output: u64,
    /// Frames that were not to go out, by what said so; null if that cannot be counted.
    pub set_aside: BTreeMap<String, Option<u64>>,
    /// Frames lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Frames under way. Of interfaces those that were counted where they lie, null if that cannot
    /// be; of a reader those that it has not come to.
    pub under_way: Option<u64>,
    /// What is left over. Counters are read one after the other, so that this may be some frames
    /// while they come in, also fewer than none, and is 0 when they do not.
    pub difference: Option<i64>,
}

impl Health {
    /// Of the captures as last asked.
    pub fn of(captures: &Captures) -> Health {
        let mut problems: Vec<String> = captures.unreachable.clone();
        if captures.captures.is_empty() && problems.is_empty() {
            problems.push("no capture runs".into());
        }
        for capture in captures.captures.iter().filter(|capture| capture.lost > 0) {
            let causes: Vec<_> =
                capture.lost_by_cause.iter().map(|(cause, n)| format!("{n} {cause}")).collect();
            let (id, source) = (capture.id, &capture.status.source);
            problems.push(format!("{source} (process {id}) lost frames: {}", causes.join(", ")));
        }
        let of = |capture: &Capture| CaptureHealth {
            id: capture.id,
            source: capture.status.source.clone(),
            stages: stages(&capture.status.ledger),
        };
        let captures = captures.captures.iter().map(of).collect();
        Health { ok: problems.is_empty(), problems, captures }
    }
}

/// The stages of a ledger.
fn stages(ledger: &Ledger) -> Vec<Stage> {
    let mut interfaces: BTreeMap<&str, Vec<&LaneCounters>> = BTreeMap::new();
    for lane in &ledger.lanes {
        interfaces.entry(&lane.interface).or_default().push(lane);
    }
    let sums = interfaces.into_values().map(|lanes| LaneCounters::sum(lanes.into_iter()));
    let interfaces = sums.map(|lanes| interface(&lanes));
    interfaces.chain(ledger.consumers.iter().map(|one| reader(one, ledger.taken))).collect()
}

fn interface(lanes: &LaneCounters) -> Stage {
    let (lost, mut set_aside) = divided(&lanes.dropped);
    set_aside.insert("passed".into(), Some(lanes.passed));
    set_aside.insert("filtered".into(), lanes.filtered);
    let terms = [Some(lanes.taken), Some(lanes.passed), lanes.filtered, lanes.in_flight];
    let known: Option<Vec<u64>> = terms.into_iter().collect();
    let sum_of = |known: Vec<u64>| sum(known.into_iter().chain([total(&lanes.dropped)]));
    let accounted = known.map(sum_of);
    let difference = lanes.received.zip(accounted).map(|(received, accounted)| {
        let off = i128::from(received) - i128::from(accounted);
        i64::try_from(off).unwrap_or(if off < 0 { i64::MIN } else { i64::MAX })
    });
    Stage {
        kind: "interface".into(),
        name: lanes.interface.clone(),
        input: lanes.received,
        output: lanes.taken,
        set_aside,
        lost,
        under_way: lanes.in_flight,
        difference,
    }
}

fn reader(consumer: &Consumer, taken: u64) -> Stage {
    let (lost, set_aside) = divided(&consumer.missed);
    let accounted = consumer.delivered.saturating_add(total(&consumer.missed));
    // The reader may have been asked after the lanes, and be ahead of what they had taken then.
    let ahead = accounted.saturating_sub(taken);
    Stage {
        kind: "reader".into(),
        name: consumer.name.clone(),
        input: Some(taken),
        output: consumer.delivered,
        set_aside,
        lost,
        under_way: Some(taken.saturating_sub(accounted)),
        difference: i64::try_from(ahead).ok().map(|frames| -frames),
    }
}

/// What was lost, and what was not to be kept.
fn divided(by_cause: &ByCause) -> (BTreeMap<String, u64>, BTreeMap<String, Option<u64>>) {
    let named = |is_loss: bool| {
        let those = by_cause.iter().filter(move |(cause, _)| cause.is_loss() == is_loss);
        those.map(|(cause, &frames)| (cause.name().to_owned(), frames))
    };
    (named(true).collect(), named(false).map(|(name, n)| (name, Some(n))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::Cause;

    fn lane(interface: &str) -> LaneCounters {
        LaneCounters {
            interface: interface.into(),
            received: Some(20),
            taken: 10,
            passed: 1,
            filtered: Some(2),
            in_flight: Some(3),
            dropped: ByCause::from([(Cause::KernelRingFull, 3), (Cause::ByRule, 1)]),
            ..LaneCounters::default()
        }
    }

    #[test]
    fn what_goes_into_a_stage_comes_out_or_is_named() {
        let mut ledger = Ledger::from_lanes(vec![lane("rx0"), lane("rx0"), lane("rx1")]);
        let missed = ByCause::from([(Cause::DiskFull, 4), (Cause::OutsideTrigger, 1)]);
        let name = "recorder".into();
        ledger.consumers.push(Consumer { name, delivered: 20, late: 0, missed });
        let stages = stages(&ledger);
        let names: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["rx0", "rx1", "recorder"]);
        assert_eq!(
            (stages[0].input, stages[0].output, stages[0].under_way),
            (Some(40), 20, Some(6))
        );
        for stage in &stages {
            let aside: u64 = stage.set_aside.values().map(|n| n.unwrap()).sum();
            let lost: u64 = stage.lost.values().sum();
            let out = stage.output + aside + lost + stage.under_way.unwrap();
            assert_eq!(stage.input, Some(out), "{stage:?}");
        }
        assert!(stages.iter().all(|stage| stage.difference == Some(0)));
        assert_eq!(stages[2].lost, BTreeMap::from([("disk_full".to_owned(), 4)]));
    }

    #[test]
    fn what_cannot_be_counted_is_null_and_sums_of_a_hostile_capture_panic_nowhere() {
        let huge = LaneCounters { taken: u64::MAX, passed: u64::MAX, ..lane("rx0") };
        let unknown = LaneCounters { filtered: None, ..lane("rx1") };
        let mut ledger = Ledger::from_lanes(vec![huge, unknown]);
        let missed = ByCause::from([(Cause::DiskFull, u64::MAX)]);
        ledger.consumers.push(Consumer { delivered: u64::MAX, missed, ..Consumer::default() });
        let stages = stages(&ledger);
        assert_eq!(stages[0].difference, Some(i64::MIN));
        assert_eq!((stages[1].difference, stages[1].set_aside["filtered"]), (None, None));
    }
}
