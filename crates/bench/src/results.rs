//! The figures of `bench record`: medians over rounds, as a table for people and as CSV.

use super::load::FrameSizes;
use super::measure::{Sample, Setup};
use super::median;
use super::search::ZeroLoss;
use ringside_terminal::columns;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// First line of the CSV file. `kind` is `load` or `zero_loss`; rates are in million frames and
/// million bytes a second; empty fields do not apply. Minimum and maximum are of the received rate.
pub(super) const CSV_HEADER: &str = "kind,tool,place,snaplen_bytes,frames,frame_bytes_mean,rounds,\
    offered_mps,received_mps,received_mps_min,received_mps_max,lost_percent,named_lost_percent,\
    cpu_user_ns,cpu_system_ns,stored_mb_per_s,raw_disk_percent,at_generator_limit";

/// All rounds of one setup at full load.
#[derive(Clone, Debug)]
pub(super) struct LoadRow {
    pub(super) setup: Setup,
    pub(super) sizes: FrameSizes,
    pub(super) samples: Vec<Sample>,
}

impl LoadRow {
    /// The median of `value` over the rounds.
    pub(super) fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    /// True if no round lost a frame.
    pub(super) fn lost_nothing(&self) -> bool {
        self.samples.iter().all(|sample| sample.lost() == 0)
    }

    fn extremes_mps(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(Sample::received_mps))
    }
}

/// All searches of one setup for the rate without loss.
#[derive(Clone, Debug)]
pub(super) struct ZeroLossRow {
    pub(super) setup: Setup,
    pub(super) sizes: FrameSizes,
    pub(super) found: Vec<ZeroLoss>,
}

impl ZeroLossRow {
    /// Million frames a second, the median over the rounds.
    pub(super) fn rate_mps(&self) -> f64 {
        median(self.found.iter().map(|found| found.rate_per_sec / 1e6).collect())
    }

    /// True if most rounds found that the generator gives no more.
    pub(super) fn at_limit(&self) -> bool {
        self.found.iter().filter(|found| found.at_limit).count() * 2 > self.found.len()
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) loads: Vec<LoadRow>,
    pub(super) zero_loss: Vec<ZeroLossRow>,
    /// Raw rate of the disk in each round, in million bytes a second; empty if it was not measured.
    pub(super) raw_mb_per_s: Vec<f64>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

impl Results {
    /// Adds a sample to its row.
    pub(super) fn add(&mut self, setup: Setup, sizes: &FrameSizes, sample: Sample) {
        if let Some(row) = self.loads.iter_mut().find(|row| row.is(setup, sizes)) {
            row.samples.push(sample);
        } else {
            self.loads.push(LoadRow { setup, sizes: sizes.clone(), samples: vec![sample] });
        }
    }

    /// Adds the outcome of a search to its row.
    pub(super) fn add_zero_loss(&mut self, setup: Setup, sizes: &FrameSizes, found: ZeroLoss) {
        let is_its = |row: &&mut ZeroLossRow| row.setup == setup && row.sizes == *sizes;
        if let Some(row) = self.zero_loss.iter_mut().find(is_its) {
            row.found.push(found);
        } else {
            self.zero_loss.push(ZeroLossRow { setup, sizes: sizes.clone(), found: vec![found] });
        }
    }

    /// The row of a setup.
    pub(super) fn load(&self, setup: Setup, sizes: &FrameSizes) -> Option<&LoadRow> {
        self.loads.iter().find(|row| row.is(setup, sizes))
    }

    /// Median raw rate of the disk; NaN if it was not measured.
    fn raw_median(&self) -> f64 {
        median(self.raw_mb_per_s.clone())
    }

    /// Stored bytes as a share of the raw rate; NaN elsewhere than on the disk.
    fn raw_percent(&self, row: &LoadRow) -> f64 {
        if row.setup.destination != super::measure::Destination::Disk {
            return f64::NAN;
        }
        100.0 * row.median(Sample::stored_mb_per_s) / self.raw_median()
    }

    /// Tables for people.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        if !self.loads.is_empty() {
            out.push_str("Full load, medians (M/s: million frames a second)\n");
            let head = [
                "to",
                "frames",
                "tool",
                "snaplen",
                "offered M/s",
                "received M/s",
                "lost %",
                "CPU ns/frame",
                "stored MB/s",
                "% of raw disk",
            ];
            out.push_str(&columns::text(&head, &self.load_lines()));
        }
        if !self.raw_mb_per_s.is_empty() {
            let _ = writeln!(out, "\nRaw speed of the disk: {:.0} MB/s", self.raw_median());
        }
        if !self.zero_loss.is_empty() {
            out.push_str("\nHighest rate without a lost frame, medians\n");
            let head = ["to", "frames", "tool", "M/s", "MB/s of frames"];
            let lines: Vec<Vec<String>> = self.zero_loss.iter().map(zero_loss_line).collect();
            out.push_str(&columns::text(&head, &lines));
            out.push_str("≥: all that the generator gives; the tool's own limit is higher\n");
        }
        if !self.failures.is_empty() {
            let _ = writeln!(out, "\nWithout a figure:\n{}", self.failures.join("\n"));
        }
        out
    }

    fn load_lines(&self) -> Vec<Vec<String>> {
        let line = |row: &LoadRow| {
            let setup = row.setup;
            vec![
                setup.destination.name().to_owned(),
                row.sizes.to_string(),
                setup.tool.name().to_owned(),
                setup.snaplen.map_or_else(|| "whole".into(), |bytes| bytes.to_string()),
                number(row.median(Sample::handed_mps), 3),
                number(row.median(Sample::received_mps), 3),
                number(row.median(Sample::lost_percent), 2),
                number(row.median(Sample::cpu_ns), 0),
                number(row.median(Sample::stored_mb_per_s), 0),
                number(self.raw_percent(row), 0),
            ]
        };
        self.loads.iter().map(line).collect()
    }

    /// One line a row, below [`CSV_HEADER`].
    pub(super) fn csv(&self) -> String {
        let mut out = format!("{CSV_HEADER}\n");
        for row in &self.loads {
            let (low, high) = row.extremes_mps();
            let fields = [
                "load".into(),
                common(row.setup, &row.sizes),
                row.samples.len().to_string(),
                number(row.median(Sample::handed_mps), 4),
                number(row.median(Sample::received_mps), 4),
                number(low, 4),
                number(high, 4),
                number(row.median(Sample::lost_percent), 3),
                number(row.median(Sample::named_lost_percent), 3),
                number(row.median(Sample::cpu_user_ns), 1),
                number(row.median(Sample::cpu_system_ns), 1),
                number(row.median(Sample::stored_mb_per_s), 1),
                number(self.raw_percent(row), 1),
                String::new(),
            ];
            let _ = writeln!(out, "{}", fields.join(","));
        }
        for row in &self.zero_loss {
            let rate = number(row.rate_mps(), 4);
            let start = format!("zero_loss,{}", common(row.setup, &row.sizes));
            let (rounds, at_limit) = (row.found.len(), row.at_limit());
            let _ = writeln!(out, "{start},{rounds},,{rate},,,0,,,,,,{at_limit}");
        }
        if !self.raw_mb_per_s.is_empty() {
            let rounds = self.raw_mb_per_s.len();
            let raw = number(self.raw_median(), 1);
            let _ = writeln!(out, "raw,,disk,,,,{rounds},,,,,,,,,{raw},100,");
        }
        out
    }
}

impl LoadRow {
    fn is(&self, setup: Setup, sizes: &FrameSizes) -> bool {
        self.setup == setup && self.sizes == *sizes
    }
}

fn zero_loss_line(row: &ZeroLossRow) -> Vec<String> {
    let sign = if row.at_limit() { "≥ " } else { "" };
    let bytes = row.rate_mps() * row.sizes.mean_bytes();
    vec![
        row.setup.destination.name().to_owned(),
        row.sizes.to_string(),
        row.setup.tool.name().to_owned(),
        format!("{sign}{:.3}", row.rate_mps()),
        number(bytes, 0),
    ]
}

/// The fields tool to frame_bytes_mean.
fn common(setup: Setup, sizes: &FrameSizes) -> String {
    let snaplen = setup.snaplen.map(|bytes| bytes.to_string()).unwrap_or_default();
    let (tool, destination) = (setup.tool.name(), setup.destination.name());
    format!("{tool},{destination},{snaplen},{sizes},{:.1}", sizes.mean_bytes())
}

/// The least and the most; not numbers of nothing.
pub(super) fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::NAN, f64::NAN), |(low, high), value| (value.min(low), value.max(high)))
}

/// With `decimals` digits; empty for what is not a number.
pub(super) fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { String::new() }
}

/// With `decimals` digits; nothing for what is not a number.
pub(super) fn rounded(value: f64, decimals: usize) -> Value {
    number(value, decimals).parse::<f64>().map_or(Value::Null, |value| json!(value))
}

/// The fields of one figure.
pub(super) fn record<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A line of `columns`, and one for each record; what a record lacks is empty.
pub(super) fn csv(columns: &[&str], records: impl Iterator<Item = Map<String, Value>>) -> String {
    let mut out = columns.join(",") + "\n";
    for fields in records {
        let text = |name: &&str| match fields.get(*name) {
            None | Some(Value::Null) => String::new(),
            // What tools say may hold what divides fields.
            Some(Value::String(text)) => text.replace([',', '\n', '"'], ";"),
            Some(other) => other.to_string(),
        };
        out.push_str(&columns.iter().map(text).collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
