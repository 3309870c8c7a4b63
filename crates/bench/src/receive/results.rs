//! The figures of `bench receive`: medians over rounds, as a table for people, as CSV and as JSON.

use super::super::load::FrameSizes;
use super::super::measure::Sample;
use super::super::median;
use super::super::network::Placement;
use super::super::output::Figures;
use super::super::results::{number, rounded};
use super::super::search::ZeroLoss;
use super::contender::Contender;
use ringside_terminal::columns;
use serde_json::{Map, Value, json};

/// Columns of the CSV file, keys of the JSON lines. `kind` is `load` or `zero_loss`; rates are in
/// million frames a second; empty fields do not apply. `offered` counts what the interface's ring
/// refused, `handed` does not; the loss is of what was handed. Minimum and maximum are of the
/// received rate.
pub(super) const COLUMNS: [&str; 24] = [
    "kind",
    "placement",
    "tool",
    "wait",
    "stamps",
    "threads",
    "filter",
    "ring_snaplen",
    "queues",
    "processes",
    "frames",
    "frame_bytes_mean",
    "rounds",
    "offered_mps",
    "handed_mps",
    "received_mps",
    "received_mps_min",
    "received_mps_max",
    "received_gbit_per_s",
    "lost_percent",
    "named_lost_percent",
    "cpu_user_ns",
    "cpu_system_ns",
    "at_generator_limit",
];

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) placement: Placement,
    pub(super) contender: Contender,
    /// Interfaces of one queue each.
    pub(super) queues: u16,
    pub(super) sizes: FrameSizes,
}

/// All rounds of one cell.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cell: Cell,
    /// At full load.
    pub(super) samples: Vec<Sample>,
    /// Searches for the highest rate without loss.
    pub(super) zero_loss: Vec<ZeroLoss>,
}

impl Row {
    pub(super) fn new(cell: Cell) -> Row {
        Row { cell, samples: Vec::new(), zero_loss: Vec::new() }
    }

    /// The median of `value` over the rounds.
    pub(super) fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    /// Gbit/s of frames that were received at full load.
    pub(super) fn received_gbit_per_s(&self) -> f64 {
        self.gbit_per_s(self.median(Sample::received_mps))
    }

    /// Million frames a second without loss, the median over the rounds.
    pub(super) fn zero_loss_mps(&self) -> f64 {
        median(self.zero_loss.iter().map(|found| found.rate_per_sec / 1e6).collect())
    }

    /// The same in Gbit/s of frames.
    pub(super) fn zero_loss_gbit_per_s(&self) -> f64 {
        self.gbit_per_s(self.zero_loss_mps())
    }

    fn gbit_per_s(&self, mps: f64) -> f64 {
        mps * self.cell.sizes.mean_bytes() * 8.0 / 1e3
    }

    /// True if most rounds found that the generator gives no more.
    fn at_limit(&self) -> bool {
        self.zero_loss.iter().filter(|found| found.at_limit).count() * 2 > self.zero_loss.len()
    }

    /// True if no round lost a frame.
    pub(super) fn lost_nothing(&self) -> bool {
        self.samples.iter().all(|sample| sample.lost() == 0)
    }

    /// What stands in the first columns.
    fn common(&self, kind: &str, rounds: usize) -> Map<String, Value> {
        let Cell { placement, contender, queues, sizes } = &self.cell;
        let values = [
            json!(kind),
            json!(placement.name()),
            json!(contender.kind.name()),
            json!(contender.wait_name()),
            json!(contender.stamps_name()),
            json!(contender.threads()),
            json!(contender.filter()),
            json!(contender.ring_snaplen()),
            json!(queues),
            json!(contender.processes(*queues)),
            json!(sizes.to_string()),
            rounded(sizes.mean_bytes(), 1),
            json!(rounds),
        ];
        COLUMNS.iter().map(|name| (*name).to_owned()).zip(values).collect()
    }

    /// The row at full load.
    fn load(&self) -> Map<String, Value> {
        let mut fields = self.common("load", self.samples.len());
        let rates = self.samples.iter().map(Sample::received_mps);
        let (low, high) =
            rates.fold((f64::INFINITY, 0.0), |(low, high), rate| (rate.min(low), rate.max(high)));
        let is_limit = self.cell.contender.kind.is_limit();
        let of_tool = |value: f64| if is_limit { f64::NAN } else { value };
        let values = [
            ("offered_mps", self.median(Sample::offered_mps), 4),
            ("handed_mps", self.median(Sample::handed_mps), 4),
            ("received_mps", self.median(Sample::received_mps), 4),
            ("received_mps_min", low, 4),
            ("received_mps_max", high, 4),
            ("received_gbit_per_s", self.received_gbit_per_s(), 3),
            ("lost_percent", self.median(Sample::lost_percent), 3),
            ("named_lost_percent", of_tool(self.median(Sample::named_lost_percent)), 3),
            ("cpu_user_ns", of_tool(self.median(Sample::cpu_user_ns)), 1),
            ("cpu_system_ns", of_tool(self.median(Sample::cpu_system_ns)), 1),
        ];
        for (name, value, decimals) in values {
            fields.insert(name.into(), rounded(value, decimals));
        }
        fields
    }

    /// The row of the search for the rate without loss.
    fn without_loss(&self) -> Map<String, Value> {
        let mut fields = self.common("zero_loss", self.zero_loss.len());
        fields.insert("received_mps".into(), rounded(self.zero_loss_mps(), 4));
        fields.insert("received_gbit_per_s".into(), rounded(self.zero_loss_gbit_per_s(), 3));
        fields.insert("lost_percent".into(), json!(0));
        fields.insert("at_generator_limit".into(), json!(self.at_limit()));
        fields
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
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
    /// Tables for people.
    fn table(&self) -> String {
        let mut out = String::new();
        for placement in [Placement::Own, Placement::Shared] {
            let rows = self.rows.iter().filter(|row| row.cell.placement == placement);
            let lines: Vec<Vec<String>> =
                rows.filter(|row| !row.samples.is_empty()).map(load_line).collect();
            if !lines.is_empty() {
                let sentence = placement.sentence();
                out.push_str(&format!("Full load, medians; {}: {sentence}\n", placement.name()));
                let head = [
                    "frames",
                    "queues",
                    "tool",
                    "processes",
                    "offered M/s",
                    "received M/s",
                    "Gbit/s",
                    "lost %",
                    "CPU ns/frame",
                ];
                out.push_str(&columns::text(&head, &lines));
                out.push('\n');
            }
        }
        let searched = self.rows.iter().filter(|row| !row.zero_loss.is_empty());
        let lines: Vec<Vec<String>> = searched.map(zero_loss_line).collect();
        if !lines.is_empty() {
            out.push_str("Highest rate without a lost frame, medians; own\n");
            out.push_str(&columns::text(&["frames", "queues", "tool", "M/s", "Gbit/s"], &lines));
            out.push_str("≥: all that the generator gives; the tool's own limit is higher\n\n");
        }
        if !self.failures.is_empty() {
            out.push_str(&format!("Without a figure:\n{}\n", self.failures.join("\n")));
        }
        out
    }

    fn all(&self) -> impl Iterator<Item = Map<String, Value>> {
        let loads = self.rows.iter().filter(|row| !row.samples.is_empty()).map(Row::load);
        let searched = self.rows.iter().filter(|row| !row.zero_loss.is_empty());
        loads.chain(searched.map(Row::without_loss))
    }
}

fn load_line(row: &Row) -> Vec<String> {
    let Cell { contender, queues, sizes, .. } = &row.cell;
    let is_limit = contender.kind.is_limit();
    let cpu_ns = if is_limit { f64::NAN } else { row.median(Sample::cpu_ns) };
    vec![
        sizes.to_string(),
        queues.to_string(),
        contender.to_string(),
        if is_limit { String::new() } else { contender.processes(*queues).to_string() },
        number(row.median(Sample::offered_mps), 3),
        number(row.median(Sample::received_mps), 3),
        number(row.received_gbit_per_s(), 2),
        number(row.median(Sample::lost_percent), 2),
        number(cpu_ns, 0),
    ]
}

fn zero_loss_line(row: &Row) -> Vec<String> {
    let sign = if row.at_limit() { "≥ " } else { "" };
    vec![
        row.cell.sizes.to_string(),
        row.cell.queues.to_string(),
        row.cell.contender.to_string(),
        format!("{sign}{:.3}", row.zero_loss_mps()),
        number(row.zero_loss_gbit_per_s(), 2),
    ]
}

#[cfg(test)]
mod tests;
