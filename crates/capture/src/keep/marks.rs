//! When frames came that rules pin: the files that hold them are to be kept.
//!
//! A thread of a lane notes times, a batch at a time; another thread, behind the run, takes them
//! and looks for the files. Times that lie close together are one span: a file holds more than a
//! second.

use ringside_core::{LaneId, Stamps, Timestamp};
use ringside_rules::language::RuleId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Spans of a lane and a rule that come this close are one.
const CLOSE_NS: u64 = 1_000_000_000;
/// Spans that wait to be taken, of all lanes and rules. Beyond it the last one of its lane and rule
/// is made longer, so that too much is kept rather than too little.
const SPANS_MAX: usize = 1024;

/// A span of time in which a lane took frames that a rule pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinMark {
    /// The lane.
    pub lane: LaneId,
    /// The rule, of several the first.
    pub rule: RuleId,
    /// From the earliest to the latest of these frames.
    pub stamps: Stamps,
}

/// What was marked, until it is taken. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct PinMarks(Arc<Mutex<Spans>>);

#[derive(Debug, Default)]
struct Spans {
    by_rule: BTreeMap<(u16, RuleId), Vec<Stamps>>,
    count: usize,
}

impl PinMarks {
    /// Takes all marks, in the order of lanes, rules and time.
    pub fn take(&self) -> Vec<PinMark> {
        let spans = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let marks = spans.by_rule.into_iter().flat_map(|((lane, rule), spans)| {
            let mark = move |stamps| PinMark { lane: LaneId(lane), rule, stamps };
            spans.into_iter().map(mark)
        });
        marks.collect()
    }

    fn add(&self, lane: LaneId, marked: &mut BTreeMap<RuleId, Stamps>) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((rule, stamps)) = marked.pop_first() {
            spans.add((lane.0, rule), stamps);
        }
    }
}

impl Spans {
    fn add(&mut self, of: (u16, RuleId), stamps: Stamps) {
        let is_full = self.count >= SPANS_MAX;
        let spans = self.by_rule.entry(of).or_default();
        match spans.last_mut() {
            Some(last) if is_full || is_close(*last, stamps) => *last = last.with(stamps),
            _ => {
                spans.push(stamps);
                self.count += 1;
            }
        }
    }
}

fn is_close(one: Stamps, next: Stamps) -> bool {
    let far = |stamps: Stamps| Timestamp(stamps.latest.0.saturating_add(CLOSE_NS));
    next.earliest <= far(one) && one.earliest <= far(next)
}

/// Marks the frames of one thread of a lane.
pub(super) struct Marker {
    lane: LaneId,
    marks: PinMarks,
    /// Of this batch.
    marked: BTreeMap<RuleId, Stamps>,
}

impl Marker {
    pub(super) fn new(lane: LaneId, marks: PinMarks) -> Marker {
        Marker { lane, marks, marked: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, rule: RuleId, stamp: Timestamp) {
        let stamps = self.marked.entry(rule).or_insert(Stamps::NONE);
        *stamps = stamps.with(Stamps::of(stamp));
    }

    pub(super) fn end_batch(&mut self) {
        if !self.marked.is_empty() {
            self.marks.add(self.lane, &mut self.marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(earliest: u64, latest: u64) -> Stamps {
        Stamps { earliest: Timestamp(earliest), latest: Timestamp(latest) }
    }

    #[test]
    fn times_that_are_close_are_one_span_of_their_lane_and_rule() {
        let marks = PinMarks::default();
        let mut marker = Marker::new(LaneId(1), marks.clone());
        let second = 1_000_000_000;
        for (rule, at) in [(7, 5), (7, 3), (9, 4), (7, second), (7, 3 * second), (9, 4)] {
            marker.add(RuleId(rule), Timestamp(at));
            marker.end_batch();
        }
        Marker::new(LaneId(0), marks.clone()).end_batch();
        let mark = |rule, stamps| PinMark { lane: LaneId(1), rule: RuleId(rule), stamps };
        let expected = [
            mark(7, stamps(3, second)),
            mark(7, stamps(3 * second, 3 * second)),
            mark(9, stamps(4, 4)),
        ];
        assert_eq!(marks.take(), expected);
        assert_eq!(marks.take(), []);
    }

    #[test]
    fn too_many_spans_become_longer_and_none_is_lost() {
        let marks = PinMarks::default();
        let mut marker = Marker::new(LaneId(0), marks.clone());
        let far = 10 * CLOSE_NS;
        for at in 0..2 * SPANS_MAX as u64 {
            marker.add(RuleId(1), Timestamp(at * far));
            marker.end_batch();
        }
        let taken = marks.take();
        assert_eq!(taken.len(), SPANS_MAX);
        let last = taken.last().unwrap().stamps;
        assert_eq!(last.latest, Timestamp((2 * SPANS_MAX as u64 - 1) * far));
        let holds = |at| {
            taken.iter().any(|mark| {
                (mark.stamps.earliest..=mark.stamps.latest).contains(&Timestamp(at * far))
            })
        };
        assert!((0..2 * SPANS_MAX as u64).all(holds));
    }
}
