//! Proof of completeness: which numbered frames came, how often, and in which order.

use crate::Stamp;
use serde::Serialize;

/// Streams that are distinguished: one for each sending thread.
const STREAMS_MAX: usize = crate::SENDERS_MAX;

/// Lanes that are distinguished, as many as a run has.
const LANES_MAX: usize = ringside_core::limits::LANES_MAX;

/// Ranges of missing numbers that a report names; the count is exact anyway.
const GAPS_NAMED_MAX: usize = 16;

/// Takes frames as they were received and keeps one bit for each number.
///
/// Memory: one bit for each frame of each stream (`stream_frames_max / 8` bytes, allocated at the
/// first frame of a stream), and 8 bytes for each flow seen per stream. Nothing else grows,
/// whatever the frames say: numbers beyond the limit are counted, not stored.
pub struct SequenceCheck {
    stream_frames_max: u64,
    streams: Vec<Stream>,
    report: SequenceReport,
}

#[derive(Default)]
struct Stream {
    seen: Vec<u64>,
    /// Highest number by lane and by flow, plus 1; 0 stands for none.
    lane_next: Vec<u64>,
    flow_next: Vec<u64>,
}

/// What a [`SequenceCheck`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceReport {
    /// Numbered frames, duplicates included.
    pub numbered: u64,
    /// Different numbers among them.
    pub distinct: u64,
    /// Frames without a number: not generated here, or too short for one.
    pub unnumbered: u64,
    /// Frames whose number had come before.
    pub duplicates: u64,
    /// Frames whose number, stream or lane is beyond the limits.
    pub beyond: u64,
    /// Frames that came after a later one of their stream in the same lane.
    pub lane_reordered: u64,
    /// Frames that came after a later one of their stream and flow.
    pub flow_reordered: u64,
    /// Numbers that did not come.
    pub missing: u64,
    /// The first of them: stream, first and last number of each gap.
    pub gaps: Vec<(u16, u64, u64)>,
}

impl SequenceReport {
    /// True if every expected number came once and each lane was in order.
    pub fn is_complete(&self) -> bool {
        self.missing == 0 && self.duplicates == 0 && self.beyond == 0 && self.lane_reordered == 0
    }
}

impl SequenceCheck {
    /// For streams of up to `stream_frames_max` frames.
    pub fn new(stream_frames_max: u64) -> SequenceCheck {
        SequenceCheck { stream_frames_max, streams: Vec::new(), report: SequenceReport::default() }
    }

    /// Notes one received frame of `lane`.
    pub fn note(&mut self, lane: u16, frame: &[u8]) {
        let Some(stamp) = Stamp::read(frame) else {
            self.report.unnumbered += 1;
            return;
        };
        self.report.numbered += 1;
        let (stream, lane) = (usize::from(stamp.stream), usize::from(lane));
        if stamp.sequence >= self.stream_frames_max || stream >= STREAMS_MAX || lane >= LANES_MAX {
            self.report.beyond += 1;
            return;
        }
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, Stream::default);
        }
        let stream = &mut self.streams[stream];
        if stream.seen.is_empty() {
            stream.seen = vec![0; self.stream_frames_max.div_ceil(64) as usize];
        }
        let (word, bit) = ((stamp.sequence / 64) as usize, 1u64 << (stamp.sequence % 64));
        if stream.seen[word] & bit != 0 {
            self.report.duplicates += 1;
            return;
        }
        stream.seen[word] |= bit;
        self.report.distinct += 1;
        let late = is_late(&mut stream.lane_next, lane, stamp.sequence);
        self.report.lane_reordered += u64::from(late);
        if let Some(flow) = stamp.flow.filter(|&flow| flow < crate::FLOWS_MAX) {
            let late = is_late(&mut stream.flow_next, flow as usize, stamp.sequence);
            self.report.flow_reordered += u64::from(late);
        }
    }

    /// Compares with what was sent: `sent[s]` is the number of frames of stream `s`, numbered from
    /// 0, all of them long enough to bear a number.
    pub fn report(&self, sent: &[u64]) -> SequenceReport {
        self.report_where(sent, |_, _| true)
    }

    /// As [`SequenceCheck::report`], where `numbered(stream, sequence)` tells which of the frames
    /// sent are long enough to bear their number.
    pub fn report_where(
        &self,
        sent: &[u64],
        numbered: impl Fn(u16, u64) -> bool,
    ) -> SequenceReport {
        let mut report = self.report.clone();
        for (stream, &count) in (0u16..).zip(sent) {
            let seen = self.streams.get(usize::from(stream)).map_or(&[][..], |s| &s.seen);
            let mut gap: Option<(u64, u64)> = None;
            for sequence in 0..count {
                let word = seen.get((sequence / 64) as usize).copied().unwrap_or(0);
                if word >> (sequence % 64) & 1 == 1 || !numbered(stream, sequence) {
                    continue;
                }
                report.missing += 1;
                match &mut gap {
                    Some((_, last)) if *last + 1 == sequence => *last = sequence,
                    _ => {
                        report.name_gap(stream, gap.replace((sequence, sequence)));
                    }
                }
            }
            report.name_gap(stream, gap);
        }
        report
    }
}

impl SequenceReport {
    fn name_gap(&mut self, stream: u16, gap: Option<(u64, u64)>) {
        if let (Some((first, last)), true) = (gap, self.gaps.len() < GAPS_NAMED_MAX) {
            self.gaps.push((stream, first, last));
        }
    }
}

/// Notes `sequence` at `index` and tells whether a later one was there before it.
fn is_late(next: &mut Vec<u64>, index: usize, sequence: u64) -> bool {
    if index >= next.len() {
        next.resize(index + 1, 0);
    }
    let late = sequence < next[index];
    next[index] = next[index].max(sequence + 1);
    late
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Sizes};

    fn check(order: &[(u16, u64)], sent: u64) -> SequenceReport {
        let shape = Shape::new(Sizes::fixed(64).unwrap(), 2).unwrap();
        let mut check = SequenceCheck::new(1000);
        for &(lane, sequence) in order {
            check.note(lane, &shape.frame(0, sequence));
        }
        check.report(&[sent])
    }

    #[test]
    fn all_in_order_is_complete() {
        let report = check(&[(0, 0), (1, 1), (0, 2), (1, 3)], 4);
        assert!(report.is_complete());
        assert_eq!((report.numbered, report.distinct), (4, 4));
    }

    #[test]
    fn every_fault_is_found_and_named() {
        let missing = check(&[(0, 2), (0, 5)], 8);
        assert_eq!(missing.missing, 6);
        assert_eq!(missing.gaps, [(0, 0, 1), (0, 3, 4), (0, 6, 7)]);
        assert_eq!(check(&[(0, 0), (0, 0)], 1).duplicates, 1);
        // Frames 0 and 2 are one flow, 1 the other.
        let reordered = check(&[(0, 2), (0, 1), (0, 0)], 3);
        assert_eq!((reordered.lane_reordered, reordered.flow_reordered), (2, 1));
        let lanes_differ = check(&[(0, 2), (1, 0), (2, 1)], 3);
        assert_eq!((lanes_differ.lane_reordered, lanes_differ.flow_reordered), (0, 1));
        assert_eq!(check(&[(0, 1000), (256, 1)], 0).beyond, 2);
        assert!(!missing.is_complete() && !reordered.is_complete());
    }

    #[test]
    fn nothing_received_is_all_missing_and_gaps_are_bounded() {
        assert_eq!(check(&[], 1000).missing, 1000);
        let odd: Vec<(u16, u64)> = (0..500).map(|n| (0, 2 * n + 1)).collect();
        let report = check(&odd, 1000);
        assert_eq!((report.missing, report.gaps.len()), (500, GAPS_NAMED_MAX));
    }

    #[test]
    fn frames_too_short_for_a_number_are_not_missed() {
        let shape = Shape::new(Sizes::list(&[14, 64]).unwrap(), 1).unwrap();
        let mut check = SequenceCheck::new(100);
        for sequence in 0..100 {
            check.note(0, &shape.frame(0, sequence));
        }
        let numbered = |_, sequence| usize::from(shape.sizes.of(sequence)) >= 58;
        let report = check.report_where(&[100], numbered);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(report.unnumbered + report.numbered, 100);
        assert!(check.report(&[100]).missing > 0);
    }

    #[test]
    fn hostile_stamps_cost_no_memory() {
        let mut check = SequenceCheck::new(64);
        let mut frame = Shape::new(Sizes::fixed(64).unwrap(), 1).unwrap().frame(0, 0);
        for byte in [0xff, 0x7f, 0x01] {
            frame[50..62].fill(byte);
            check.note(u16::MAX, &frame);
        }
        assert_eq!(check.report(&[]).beyond, 3);
        assert!(check.streams.is_empty());
    }
}
