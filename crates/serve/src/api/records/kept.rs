//! The records of an answer: as many and as long as it may have.

use crate::problem::Problem;
use ringside_core::Timestamp;
use ringside_flow::{Record, RecordSink, SinkCounts};
use ringside_logs::LogOutput;
use ringside_record::{LineFormat, LineWriter, Names, Row};
use serde::Serialize;
use serde_json::value::RawValue;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use utoipa::ToSchema;

/// Why an answer lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// There are more records than were asked for.
    Limit,
    /// The records are longer than an answer may be.
    Size,
    /// More addresses than are kept apart.
    Addresses,
    /// As many packets were read as may be.
    Packets,
    /// Reading took as long as it may.
    Time,
    /// The client has gone, or waited for too long: it gets no answer.
    Gone,
    /// The recorder lost packets of this time.
    Lost,
    /// The recordings lack something.
    Recording,
}

/// Records, of which those with the highest ranks are kept; of equal ones the first.
#[derive(Debug)]
pub struct Kept {
    /// The lowest of them on top.
    lines: BinaryHeap<Reverse<Line>>,
    bytes: usize,
    found: u64,
    missing: BTreeSet<Cause>,
    count_max: usize,
    bytes_max: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    rank: u64,
    number: Reverse<u64>,
    text: Vec<u8>,
}

impl Kept {
    /// At most `count_max` records, of `bytes_max` bytes together.
    pub fn new(count_max: usize, bytes_max: usize) -> Kept {
        let (lines, missing) = (BinaryHeap::new(), BTreeSet::new());
        Kept { lines, bytes: 0, found: 0, missing, count_max, bytes_max }
    }

    /// Takes a record, as a line of JSON; `write` makes it, if one of this rank is kept.
    pub fn put(&mut self, rank: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.found += 1;
        let is_many = self.lines.len() >= self.count_max;
        let lowest = self.lines.peek().map(|Reverse(line)| line.rank);
        // What is shorter than one that was left out does not take its place.
        let is_closed = is_many || self.missing.contains(&Cause::Size);
        if is_closed && lowest.is_some_and(|lowest| rank <= lowest) {
            self.missing.insert(if is_many { Cause::Limit } else { Cause::Size });
            return;
        }
        let mut text = Vec::new();
        write(&mut text);
        text.truncate(text.trim_ascii_end().len());
        text.shrink_to_fit();
        self.bytes += text.len();
        self.lines.push(Reverse(Line { rank, number: Reverse(self.found), text }));
        while self.lines.len() > self.count_max || self.bytes > self.bytes_max {
            let is_many = self.lines.len() > self.count_max;
            let Some(Reverse(line)) = self.lines.pop() else { break };
            self.bytes -= line.text.len();
            self.missing.insert(if is_many { Cause::Limit } else { Cause::Size });
        }
    }

    /// Notes that something is missing.
    pub fn miss(&mut self, cause: Cause) {
        self.missing.insert(cause);
    }

    /// What is missing.
    pub fn missing(&self) -> impl Iterator<Item = Cause> + '_ {
        self.missing.iter().copied()
    }

    /// The records, the one with the highest rank first.
    ///
    /// # Errors
    /// One of them is no JSON, which is a mistake of ours.
    pub fn into_records(self) -> Result<Vec<Box<RawValue>>, Problem> {
        let lines = self.lines.into_sorted_vec().into_iter();
        let raw = lines.map(|Reverse(line)| {
            RawValue::from_string(String::from_utf8_lossy(&line.text).into_owned())
        });
        raw.collect::<Result<_, _>>().map_err(|error| Problem::failed(&error.into()))
    }
}

/// What a panic of another thread has left is whole.
pub fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the lines of a log, the first of them.
pub struct KeptLog<'k>(pub &'k Mutex<Kept>);

impl LogOutput for KeptLog<'_> {
    fn ready(&mut self, _now: Timestamp) -> io::Result<bool> {
        // Nothing stands above lines of JSON.
        Ok(false)
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        lock(self.0).put(0, |text| text.extend_from_slice(line));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the records of the flows that have most bytes.
pub struct KeptFlows<'k> {
    kept: &'k Mutex<Kept>,
    writer: LineWriter,
    counts: SinkCounts,
}

impl<'k> KeptFlows<'k> {
    /// In `kept`.
    pub fn new(kept: &'k Mutex<Kept>) -> KeptFlows<'k> {
        let writer = LineWriter::new(LineFormat::Json, Names::default());
        KeptFlows { kept, writer, counts: SinkCounts::default() }
    }
}

impl RecordSink for KeptFlows<'_> {
    fn put(&mut self, record: &Record, interface: &str, _now: Timestamp) {
        let writer = &mut self.writer;
        lock(self.kept).put(record.octets(), |text| {
            let written = writer.write(&Row { record, interface }, text);
            written.expect("memory takes every line");
        });
        self.counts.delivered.add(record);
    }

    fn finish(&mut self, _now: Timestamp) {}

    fn counts(&self) -> SinkCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kept: &mut Kept, rank: u64, text: &str) {
        kept.put(rank, |line| line.extend(format!("\"{text}\"\n").bytes()));
    }

    fn texts(kept: Kept) -> Vec<String> {
        let records = kept.into_records().unwrap();
        records.iter().map(|record| record.get().trim_matches('"').to_owned()).collect()
    }

    #[test]
    fn the_highest_are_kept_and_of_equal_ones_the_first() {
        let mut kept = Kept::new(3, 1000);
        for (rank, text) in [(5, "a"), (1, "b"), (9, "c")] {
            put(&mut kept, rank, text);
        }
        assert_eq!(kept.missing().count(), 0);
        for (rank, text) in [(5, "d"), (1, "e"), (7, "f"), (5, "g")] {
            put(&mut kept, rank, text);
        }
        assert_eq!(kept.missing().collect::<Vec<_>>(), [Cause::Limit]);
        assert_eq!(texts(kept), ["c", "f", "a"]);
    }

    #[test]
    fn without_ranks_the_first_are_kept_in_their_order() {
        let mut kept = Kept::new(2, 1000);
        ["a", "b", "c", "d"].iter().for_each(|text| put(&mut kept, 0, text));
        assert_eq!(texts(kept), ["a", "b"]);
    }

    #[test]
    fn no_more_bytes_are_kept_than_an_answer_may_have() {
        let mut kept = Kept::new(10, 8);
        put(&mut kept, 1, "aa");
        put(&mut kept, 2, "bb");
        assert_eq!(kept.missing().count(), 0);
        put(&mut kept, 3, "c");
        assert_eq!(kept.missing().collect::<Vec<_>>(), [Cause::Size]);
        put(&mut kept, 1, "");
        assert_eq!(texts(kept), ["c", "bb"]);
    }
}
