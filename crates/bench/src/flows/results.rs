//! The figures of `bench flows`: medians over rounds.

use super::super::measure::Sample;
use super::super::median;
use super::super::output::Figures;
use super::super::plot::{Line, Words, chart};
use super::super::search::ZeroLoss;
use super::super::table::{self, Entry, Field};
use super::Meter;
use serde_json::{Map, Value};
use std::path::Path;

/// All rounds of a tool with a number of flows.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) meter: Meter,
    pub(super) flows: u32,
    /// At full load, tool and receive path on one CPU.
    pub(super) shared: Vec<Sample>,
    /// There too.
    pub(super) zero_loss: Vec<ZeroLoss>,
    /// Million frames a second, and the part of that CPU that was busy.
    pub(super) busy: Vec<(f64, f64)>,
    /// At full load, the tool on a CPU of its own.
    pub(super) own: Vec<Sample>,
}

impl Row {
    pub(super) fn new(meter: Meter, flows: u32) -> Row {
        let (shared, busy, own, zero_loss) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Row { meter, flows, shared, busy, own, zero_loss }
    }

    fn shared(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.shared.iter().map(value).collect())
    }

    fn zero_loss_mps(&self) -> f64 {
        median(self.zero_loss.iter().map(|found| found.rate_per_sec / 1e6).collect())
    }

    fn at_limit(&self) -> bool {
        self.zero_loss.iter().filter(|found| found.at_limit).count() * 2 > self.zero_loss.len()
    }

    fn busy_percent(&self) -> f64 {
        median(self.busy.iter().map(|(_, busy)| busy * 100.0).collect())
    }

    fn busy_mps(&self) -> f64 {
        median(self.busy.iter().map(|(mps, _)| *mps).collect())
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

/// Columns of the CSV file, keys of the JSON lines: rates in million frames a second. `shared_…` is
/// at full load with tool and receive path on one CPU, of which the rest is refused to the sender;
/// `zero_loss_mps` and `busy_percent`, the time of that CPU at the rate `busy_mps`, are there too;
/// `own_…` is with the receive path on the sender's CPU.
const COLUMNS: [&str; 10] = [
    "flows",
    "tool",
    "rounds",
    "shared_received_mps",
    "shared_lost_percent",
    "zero_loss_mps",
    "at_generator_limit",
    "busy_mps",
    "busy_percent",
    "own_received_mps",
];

fn fields<'a>() -> Vec<Field<&'a Row>> {
    vec![
        Field::new("flows", "flows", |row| Entry::of(row.flows)),
        Field::new("tool", "tool", |row| Entry::of(row.meter.name())),
        Field::kept("rounds", |row| Entry::of(row.shared.len())),
        Field::new("one CPU: received M/s", "shared_received_mps", |row| {
            Entry::number(row.shared(Sample::received_mps), [3, 4])
        }),
        Field::new("lost %", "shared_lost_percent", |row| {
            Entry::number(row.shared(Sample::lost_percent), [2, 3])
        }),
        Field::new("without loss", "zero_loss_mps", |row| {
            let sign = if row.at_limit() { "≥ " } else { "" };
            let mps = row.zero_loss_mps();
            Entry::apart(format!("{sign}{mps:.3}"), (mps * 1e4).round() / 1e4)
        }),
        Field::kept("at_generator_limit", |row| Entry::of(row.at_limit())),
        Field::new("at M/s", "busy_mps", |row| Entry::number(row.busy_mps(), [2, 4])),
        Field::new("CPU %", "busy_percent", |row| Entry::number(row.busy_percent(), [0, 1])),
        Field::new("two CPUs: received M/s", "own_received_mps", |row| {
            Entry::number(median(row.own.iter().map(Sample::received_mps).collect()), [3, 4])
        }),
    ]
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let table = table::text(&fields(), &self.rows);
        format!(
            "Medians. One CPU: tool and receive path share it; CPU: its time at that rate. Two \
             CPUs: the receive path\nis on the sender's. ≥: all that the generator gives.\n\
             {table}{}",
            table::failures(&self.failures)
        )
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows.iter().map(|row| table::record(&fields(), &row)).collect()
    }
}

impl Results {
    /// Rates and CPU time by the number of flows; `dir` exists.
    ///
    /// # Errors
    /// `dir` cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        let x = "flows, as a power of ten";
        let title = "Packets added up on one CPU, with the receive path";
        let words = Words { title, x, y: "million frames a second without loss" };
        chart(&dir.join("flows-rate.svg"), words, &self.lines(Row::zero_loss_mps))?;
        let rate = self.rows.first().map_or(0.0, Row::busy_mps);
        let title = format!("CPU time at {rate:.2} million frames a second, receive path included");
        let words = Words { title: &title, x, y: "per cent of a CPU" };
        chart(&dir.join("flows-cpu.svg"), words, &self.lines(Row::busy_percent))
    }

    /// A line for each tool.
    fn lines(&self, value: impl Fn(&Row) -> f64) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let point = (f64::from(row.flows).log10(), value(row));
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
