//! The figures of `bench receive`: medians over rounds, as a table for people, as CSV and as JSON.

use super::super::load::FrameSizes;
use super::super::measure::Sample;
use super::super::median;
use super::super::network::Placement;
use super::super::output::Figures;
use super::super::results::extremes;
use super::super::search::ZeroLoss;
use super::super::table::{self, Entry, Field};
use super::contender::Contender;
use serde_json::{Map, Value};

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

    /// The least and the most that was received at full load.
    fn extremes_mps(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(Sample::received_mps))
    }

    /// True if it is no tool, but what the kernel can do at most.
    fn is_limit(&self) -> bool {
        self.cell.contender.kind.is_limit()
    }

    /// The median of what a tool alone has.
    fn of_tool(&self, value: fn(&Sample) -> f64) -> f64 {
        if self.is_limit() { f64::NAN } else { self.median(value) }
    }

    fn processes(&self) -> u16 {
        self.cell.contender.processes(self.cell.queues)
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
        let mut out = String::new();
        for placement in [Placement::Own, Placement::Shared] {
            let rows = self.rows.iter().filter(|row| row.cell.placement == placement);
            let rows: Vec<&Row> = rows.filter(|row| !row.samples.is_empty()).collect();
            if !rows.is_empty() {
                let sentence = placement.sentence();
                out.push_str(&format!("Full load, medians; {}: {sentence}\n", placement.name()));
                out.push_str(&table::text(&load_fields(), rows));
                out.push('\n');
            }
        }
        if self.searched().next().is_some() {
            out.push_str("Highest rate without a lost frame, medians; own\n");
            out.push_str(&table::text(&zero_loss_fields(), self.searched()));
            out.push_str("≥: all that the generator gives; the tool's own limit is higher\n\n");
        }
        out.push_str(table::failures(&self.failures).trim_start());
        out
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let loads = self.rows.iter().filter(|row| !row.samples.is_empty());
        let loads = loads.map(|row| table::record(&load_fields(), &row));
        loads.chain(self.searched().map(|row| table::record(&zero_loss_fields(), &row))).collect()
    }
}

impl Results {
    /// Those with a rate without loss.
    fn searched(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.zero_loss.is_empty())
    }
}

/// What was measured.
fn cell_fields<'a>() -> Vec<Field<&'a Row>> {
    vec![
        Field::kept("placement", |row| Entry::of(row.cell.placement.name())),
        Field::new("frames", "frames", |row| Entry::of(row.cell.sizes.to_string())),
        Field::new("queues", "queues", |row| Entry::of(row.cell.queues)),
        Field::new("tool", "tool", |row| {
            let contender = &row.cell.contender;
            Entry::apart(contender.to_string(), contender.kind.name())
        }),
        Field::kept("wait", |row| Entry::of(row.cell.contender.wait_name())),
        Field::kept("stamps", |row| Entry::of(row.cell.contender.stamps_name())),
        Field::kept("threads", |row| Entry::apart("", row.cell.contender.threads())),
        Field::kept("filter", |row| Entry::of(row.cell.contender.filter())),
        Field::kept("ring_snaplen", |row| Entry::apart("", row.cell.contender.ring_snaplen())),
        Field::kept("frame_bytes_mean", |row| Entry::number(row.cell.sizes.mean_bytes(), [1, 1])),
    ]
}

/// Of a row at full load.
fn load_fields<'a>() -> Vec<Field<&'a Row>> {
    let mut fields = cell_fields();
    fields.extend([
        Field::new("processes", "processes", |row: &&Row| {
            let shown = if row.is_limit() { String::new() } else { row.processes().to_string() };
            Entry::apart(shown, row.processes())
        }),
        Field::kept("kind", |_| Entry::of("load")),
        Field::kept("rounds", |row| Entry::of(row.samples.len())),
        Field::new("offered M/s", "offered_mps", |row| {
            Entry::number(row.median(Sample::offered_mps), [3, 4])
        }),
        Field::kept("handed_mps", |row| Entry::number(row.median(Sample::handed_mps), [4, 4])),
        Field::new("received M/s", "received_mps", |row| {
            Entry::number(row.median(Sample::received_mps), [3, 4])
        }),
        Field::kept("received_mps_min", |row| Entry::number(row.extremes_mps().0, [4, 4])),
        Field::kept("received_mps_max", |row| Entry::number(row.extremes_mps().1, [4, 4])),
        Field::new("Gbit/s", "received_gbit_per_s", |row| {
            Entry::number(row.received_gbit_per_s(), [2, 3])
        }),
        Field::new("lost %", "lost_percent", |row| {
            Entry::number(row.median(Sample::lost_percent), [2, 3])
        }),
        Field::kept("named_lost_percent", |row| {
            Entry::number(row.of_tool(Sample::named_lost_percent), [3, 3])
        }),
        Field::shown("CPU ns/frame", |row| Entry::number(row.of_tool(Sample::cpu_ns), [0, 1])),
        Field::kept("cpu_user_ns", |row| Entry::number(row.of_tool(Sample::cpu_user_ns), [1, 1])),
        Field::kept("cpu_system_ns", |row| {
            Entry::number(row.of_tool(Sample::cpu_system_ns), [1, 1])
        }),
    ]);
    fields
}

/// Of a row of the search for the rate without loss.
fn zero_loss_fields<'a>() -> Vec<Field<&'a Row>> {
    let mut fields = cell_fields();
    fields.extend([
        Field::kept("processes", |row: &&Row| Entry::of(row.processes())),
        Field::kept("kind", |_| Entry::of("zero_loss")),
        Field::kept("rounds", |row| Entry::of(row.zero_loss.len())),
        Field::kept("received_mps", |row| Entry::number(row.zero_loss_mps(), [4, 4])),
        Field::shown("M/s", |row| {
            let sign = if row.at_limit() { "≥ " } else { "" };
            Entry::of(format!("{sign}{:.3}", row.zero_loss_mps()))
        }),
        Field::new("Gbit/s", "received_gbit_per_s", |row| {
            Entry::number(row.zero_loss_gbit_per_s(), [2, 3])
        }),
        Field::kept("lost_percent", |_| Entry::of(0)),
        Field::kept("at_generator_limit", |row| Entry::of(row.at_limit())),
    ]);
    fields
}

#[cfg(test)]
mod tests;
