//! The figures of `bench calls`: medians over rounds.

use super::super::median;
use super::super::network::Placement;
use super::super::output::Figures;
use super::super::plot::{Line, Words, chart};
use super::super::search::ZeroLoss;
use super::super::table::{self, Entry, Field};
use super::{Meter, Sample};
use serde_json::{Map, Value};
use std::path::Path;

/// All rounds of a tool with a number of calls.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) meter: Meter,
    pub(super) calls: u32,
    /// At the rate of the calls.
    pub(super) own: Vec<Sample>,
    /// At the rate that all have.
    pub(super) common: Vec<Sample>,
    pub(super) zero_loss: Vec<ZeroLoss>,
}

impl Row {
    pub(super) fn new(meter: Meter, calls: u32) -> Row {
        Row { meter, calls, own: Vec::new(), common: Vec::new(), zero_loss: Vec::new() }
    }

    fn zero_loss_mps(&self) -> f64 {
        median(self.zero_loss.iter().map(|found| found.rate_per_sec / 1e6).collect())
    }

    fn at_limit(&self) -> bool {
        self.zero_loss.iter().filter(|found| found.at_limit).count() * 2 > self.zero_loss.len()
    }

    fn idle_percent(&self) -> f64 {
        100.0 - 100.0 * of(&self.own, |sample| sample.busy)
    }
}

fn of(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(value).collect())
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub(super) struct Results {
    placement: Placement,
    pub(super) rows: Vec<Row>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

/// Columns of the CSV file, keys of the JSON lines: rates in million packets a second. The tool's
/// CPU, on which the receive path may run too, has the idle time `own_idle_percent`; lost is what
/// the account of the tool does not have of what was sent. `own_…` is at the rate of the calls.
const COLUMNS: [&str; 10] = [
    "calls",
    "tool",
    "rounds",
    "own_sent_mps",
    "own_lost_percent",
    "own_idle_percent",
    "common_sent_mps",
    "common_lost_percent",
    "zero_loss_mps",
    "at_generator_limit",
];

fn fields<'a>() -> Vec<Field<&'a Row>> {
    vec![
        Field::new("calls", "calls", |row| Entry::of(row.calls)),
        Field::new("tool", "tool", |row| Entry::of(row.meter.name())),
        Field::kept("rounds", |row| Entry::of(row.own.len())),
        Field::new("calls' M/s", "own_sent_mps", |row| {
            Entry::number(of(&row.own, |sample| sample.sent_mps), [3, 4])
        }),
        Field::new("lost %", "own_lost_percent", |row| {
            Entry::number(of(&row.own, |sample| sample.lost_percent), [2, 3])
        }),
        Field::new("CPU idle %", "own_idle_percent", |row| {
            Entry::number(row.idle_percent(), [0, 1])
        }),
        Field::new("at M/s", "common_sent_mps", |row| {
            Entry::number(of(&row.common, |sample| sample.sent_mps), [3, 4])
        }),
        Field::new("lost %", "common_lost_percent", |row| {
            Entry::number(of(&row.common, |sample| sample.lost_percent), [2, 3])
        }),
        Field::new("without loss M/s", "zero_loss_mps", |row| {
            let sign = if row.at_limit() { "≥ " } else { "" };
            let mps = row.zero_loss_mps();
            match mps.is_finite() {
                true => Entry::apart(format!("{sign}{mps:.3}"), (mps * 1e4).round() / 1e4),
                false => Entry::none(),
            }
        }),
        Field::kept("at_generator_limit", |row| Entry::of(row.at_limit())),
    ]
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let table = table::text(&fields(), &self.rows);
        let placed = match self.placement {
            Placement::Shared => "Tool and receive path share a CPU, the\ngenerator has the other.",
            Placement::Own => "The tool has a CPU, the receive path\nthe generator's.",
        };
        format!(
            "Medians, in million packets of G.711 a second; a call has 100. {placed} \
             ≥: all that the generator gives.\n{table}{}",
            table::failures(&self.failures)
        )
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows.iter().map(|row| table::record(&fields(), &row)).collect()
    }
}

impl Results {
    pub(super) fn new(placement: Placement) -> Results {
        Results { placement, rows: Vec::new(), failures: Vec::new() }
    }

    /// Idle time and rates by the number of calls; `dir` exists.
    ///
    /// # Errors
    /// `dir` cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        let x = "calls, as a power of ten";
        let title = "CPU that is left where each call has 100 packets a second";
        let words = Words { title, x, y: "per cent idle" };
        chart(&dir.join("calls-idle.svg"), words, &self.lines(Row::idle_percent))?;
        let title = "Media of calls counted on one CPU, with the receive path";
        let words = Words { title, x, y: "million packets a second without loss" };
        chart(&dir.join("calls-rate.svg"), words, &self.lines(Row::zero_loss_mps))
    }

    /// A line for each tool.
    fn lines(&self, value: impl Fn(&Row) -> f64) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in self.rows.iter().filter(|row| value(row).is_finite()) {
            let point = (f64::from(row.calls).log10(), value(row));
            match lines.iter_mut().find(|line| line.name == row.meter.name()) {
                Some(line) => line.points.push(point),
                None => {
                    let name = row.meter.name().to_owned();
                    lines.push(Line { name, points: vec![point], mixes: Vec::new() });
                }
            }
        }
        lines
    }
}
