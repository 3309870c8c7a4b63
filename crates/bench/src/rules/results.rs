//! The figures of `bench rules`: medians over rounds, as tables for people, as CSV and as JSON.

use super::super::measure::Sample;
use super::super::median;
use super::super::output::Figures;
use super::super::results::{number, record, rounded};
use ringside_terminal::columns;
use serde_json::{Map, Value, json};

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
        self.table()
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.all().collect()
    }
}

impl Results {
    /// What discarding everything makes; NaN if it was not measured.
    fn limit_mps(&self) -> f64 {
        self.drops.iter().find(|row| row.is_limit).map_or(f64::NAN, DropRow::mps)
    }

    /// Tables for people.
    fn table(&self) -> String {
        let mut out = String::new();
        let limit = self.limit_mps();
        let drops: Vec<Vec<String>> = self
            .drops
            .iter()
            .filter(|row| !row.samples.is_empty())
            .map(|row| {
                vec![
                    row.name.clone(),
                    row.holds.clone(),
                    number(row.mps(), 3),
                    number(1e3 / row.mps(), 0),
                    number(100.0 * row.mps() / limit, 0),
                    number(row.median(|sample| sample.host_per_sec) / 1e6, 3),
                    number(row.median(|sample| sample.ready_seconds), 2),
                ]
            })
            .collect();
        if !drops.is_empty() {
            out.push_str(
                "Dropping 64-byte frames, medians; the receive path on the generator's CPU, which \
                 makes the frames in\nthe same time\n",
            );
            let head =
                ["tool", "holds", "M/s", "ns/frame", "% of limit", "at the host M/s", "ready s"];
            out.push_str(&columns::text(&head, &drops));
        }
        let filters: Vec<Vec<String>> = self
            .filters
            .iter()
            .map(|row| {
                vec![
                    row.name.clone(),
                    row.terms.to_string(),
                    number(row.median(Sample::received_mps), 3),
                    number(row.median(Sample::lost_percent), 2),
                    number(row.median(Sample::cpu_ns), 0),
                    number(row.ready_seconds(), 2),
                    row.said().to_owned(),
                ]
            })
            .collect();
        if !filters.is_empty() {
            out.push_str(
                "\nReceiving 64-byte frames that the last of several addresses lets through, \
                 medians; the tool on a CPU of\nits own\n",
            );
            let head =
                ["tool", "addresses", "M/s", "lost %", "CPU ns/frame", "ready s", "what it said"];
            out.push_str(&columns::text(&head, &filters));
        }
        if !self.failures.is_empty() {
            out.push_str(&format!("\nWithout a figure:\n{}\n", self.failures.join("\n")));
        }
        out
    }

    fn all(&self) -> impl Iterator<Item = Map<String, Value>> {
        let limit = self.limit_mps();
        let measured = self.drops.iter().filter(|row| !row.samples.is_empty());
        measured
            .map(move |row| drop_record(row, limit))
            .chain(self.filters.iter().map(filter_record))
    }
}

fn drop_record(row: &DropRow, limit_mps: f64) -> Map<String, Value> {
    let (low, high) = extremes(row.samples.iter().map(|sample| sample.taken_per_sec / 1e6));
    record([
        ("kind", json!("drop")),
        ("tool", json!(row.name)),
        ("holds", json!(row.holds)),
        ("rounds", json!(row.samples.len())),
        ("mps", rounded(row.mps(), 4)),
        ("mps_min", rounded(low, 4)),
        ("mps_max", rounded(high, 4)),
        ("limit_percent", rounded(100.0 * row.mps() / limit_mps, 1)),
        ("host_mps", rounded(row.median(|sample| sample.host_per_sec) / 1e6, 4)),
        ("ready_seconds", rounded(row.median(|sample| sample.ready_seconds), 3)),
    ])
}

fn filter_record(row: &FilterRow) -> Map<String, Value> {
    let (low, high) = extremes(row.samples.iter().map(|(_, sample)| sample.received_mps()));
    record([
        ("kind", json!("filter")),
        ("tool", json!(row.name)),
        ("holds", json!(format!("{} addresses", row.terms))),
        ("rounds", json!(row.samples.len())),
        ("mps", rounded(row.median(Sample::received_mps), 4)),
        ("mps_min", rounded(low, 4)),
        ("mps_max", rounded(high, 4)),
        ("lost_percent", rounded(row.median(Sample::lost_percent), 3)),
        ("cpu_ns", rounded(row.median(Sample::cpu_ns), 1)),
        ("ready_seconds", rounded(row.ready_seconds(), 3)),
        ("said", json!(row.said())),
    ])
}

/// The least and the most; not numbers of nothing.
fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::NAN, f64::NAN), |(low, high), value| (value.min(low), value.max(high)))
}

#[cfg(test)]
mod tests;
