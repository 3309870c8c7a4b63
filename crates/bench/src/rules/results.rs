//! The figures of `bench rules`: medians over rounds, as tables for people, as CSV and as JSON.

use super::super::measure::Sample;
use super::super::median;
use super::super::output::Figures;
use super::super::results::extremes;
use super::super::table::{self, Entry, Field};
use serde_json::{Map, Value};

/// Columns of the CSV file, keys of the JSON lines. `kind` is `drop` or `filter`; `mps` are million
/// frames a second that were taken off the wire and dropped, or received; `host_mps` came through;
/// `said` is why a tool did not start. Empty fields do not apply.
pub(super) const COLUMNS: [&str; 13] = [
    "kind",
    "tool",
    "holds",
    "rounds",
    "mps",
    "mps_min",
    "mps_max",
    "limit_percent",
    "host_mps",
    "lost_percent",
    "cpu_ns",
    "ready_seconds",
    "said",
];

/// One load on a defence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    /// Frames a second that the interface took.
    pub(super) taken_per_sec: f64,
    /// Frames a second that came as far as the host's port.
    pub(super) host_per_sec: f64,
    /// From its start until it was in place.
    pub(super) ready_seconds: f64,
}

/// All rounds of one defence.
#[derive(Clone, Debug)]
pub(super) struct DropRow {
    pub(super) name: String,
    pub(super) holds: String,
    /// True for the limit that the others are compared with.
    pub(super) is_limit: bool,
    pub(super) samples: Vec<Dropped>,
}

impl DropRow {
    fn median(&self, value: fn(&Dropped) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    fn mps(&self) -> f64 {
        self.median(|sample| sample.taken_per_sec) / 1e6
    }

    /// The least and the most.
    fn extremes_mps(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(|sample| sample.taken_per_sec / 1e6))
    }
}

/// All rounds of one filter.
#[derive(Clone, Debug)]
pub(super) struct FilterRow {
    pub(super) name: String,
    pub(super) terms: u32,
    /// Each with the seconds until it received.
    pub(super) samples: Vec<(f64, Sample)>,
    /// Seconds until it gave up, and what it said.
    pub(super) refusal: Option<(f64, String)>,
}

impl FilterRow {
    fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(|(_, sample)| value(sample)).collect())
    }

    /// The least and the most.
    fn extremes_mps(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(|(_, sample)| sample.received_mps()))
    }

    fn ready_seconds(&self) -> f64 {
        let refused = self.refusal.as_ref().map(|(seconds, _)| *seconds);
        refused.unwrap_or_else(|| median(self.samples.iter().map(|(ready, _)| *ready).collect()))
    }

    fn said(&self) -> &str {
        self.refusal.as_ref().map_or("", |(_, said)| said)
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) drops: Vec<DropRow>,
    pub(super) filters: Vec<FilterRow>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let mut out = String::new();
        if self.measured().next().is_some() {
            out.push_str(
                "Dropping 64-byte frames, medians; the receive path on the generator's CPU, which \
                 makes the frames in\nthe same time\n",
            );
            out.push_str(&table::text(&drop_fields(), self.measured()));
        }
        if !self.filters.is_empty() {
            out.push_str(
                "\nReceiving 64-byte frames that the last of several addresses lets through, \
                 medians; the tool on a CPU of\nits own\n",
            );
            out.push_str(&table::text(&filter_fields(), &self.filters));
        }
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let drops = self.measured().map(|row| table::record(&drop_fields(), &row));
        drops.chain(self.filters.iter().map(|row| table::record(&filter_fields(), &row))).collect()
    }
}

impl Results {
    /// What discarding everything makes; NaN if it was not measured.
    fn limit_mps(&self) -> f64 {
        self.drops.iter().find(|row| row.is_limit).map_or(f64::NAN, DropRow::mps)
    }

    /// Those that were measured, each with the limit that it is compared with.
    fn measured(&self) -> impl Iterator<Item = Compared<'_>> {
        let limit_mps = self.limit_mps();
        let drops = self.drops.iter().filter(|row| !row.samples.is_empty());
        drops.map(move |row| (row, limit_mps))
    }
}

/// A row, and what discarding everything makes.
type Compared<'a> = (&'a DropRow, f64);

fn drop_fields<'a>() -> [Field<Compared<'a>>; 11] {
    [
        Field::kept("kind", |_| Entry::of("drop")),
        Field::new("tool", "tool", |(row, _)| Entry::of(row.name.clone())),
        Field::new("holds", "holds", |(row, _)| Entry::of(row.holds.clone())),
        Field::kept("rounds", |(row, _)| Entry::of(row.samples.len())),
        Field::new("M/s", "mps", |(row, _)| Entry::number(row.mps(), [3, 4])),
        Field::shown("ns/frame", |(row, _)| Entry::number(1e3 / row.mps(), [0, 0])),
        Field::kept("mps_min", |(row, _)| Entry::number(row.extremes_mps().0, [4, 4])),
        Field::kept("mps_max", |(row, _)| Entry::number(row.extremes_mps().1, [4, 4])),
        Field::new("% of limit", "limit_percent", |(row, limit_mps)| {
            Entry::number(100.0 * row.mps() / limit_mps, [0, 1])
        }),
        Field::new("at the host M/s", "host_mps", |(row, _)| {
            Entry::number(row.median(|sample| sample.host_per_sec) / 1e6, [3, 4])
        }),
        Field::new("ready s", "ready_seconds", |(row, _)| {
            Entry::number(row.median(|sample| sample.ready_seconds), [2, 3])
        }),
    ]
}

fn filter_fields<'a>() -> [Field<&'a FilterRow>; 11] {
    [
        Field::kept("kind", |_| Entry::of("filter")),
        Field::new("tool", "tool", |row| Entry::of(row.name.clone())),
        Field::new("addresses", "holds", |row| {
            Entry::apart(row.terms.to_string(), format!("{} addresses", row.terms))
        }),
        Field::kept("rounds", |row| Entry::of(row.samples.len())),
        Field::new("M/s", "mps", |row| Entry::number(row.median(Sample::received_mps), [3, 4])),
        Field::kept("mps_min", |row| Entry::number(row.extremes_mps().0, [4, 4])),
        Field::kept("mps_max", |row| Entry::number(row.extremes_mps().1, [4, 4])),
        Field::new("lost %", "lost_percent", |row| {
            Entry::number(row.median(Sample::lost_percent), [2, 3])
        }),
        Field::new("CPU ns/frame", "cpu_ns", |row| {
            Entry::number(row.median(Sample::cpu_ns), [0, 1])
        }),
        Field::new("ready s", "ready_seconds", |row| Entry::number(row.ready_seconds(), [2, 3])),
        Field::new("what it said", "said", |row| Entry::of(row.said())),
    ]
}

#[cfg(test)]
mod tests;
