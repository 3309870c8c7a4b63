//! The figures of `bench ddos`: medians over rounds, as a table for people, as CSV, as JSON, and
//! as the figure that they repeat.

use super::super::median;
use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::results::{extremes, number, record, rounded};
use super::super::table::{self, Entry, Field};
use super::contender::Kind;
use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. Rates of frames are in millions a second;
/// `flood` is what was asked for, in per cent of what XDP_DROP takes or `full`, `offered_percent`
/// what the generator made of it in addition to the client's frames; `offered` counts what the
/// interface's ring refused, `handed` does not, `host` is what came as far as the host's port.
/// `kept_percent` is of the same contender's transactions without a flood.
pub(super) const COLUMNS: [&str; 11] = [
    "contender",
    "flood",
    "rounds",
    "offered_percent",
    "offered_mps",
    "handed_mps",
    "host_mps",
    "transactions_per_sec",
    "transactions_per_sec_min",
    "transactions_per_sec_max",
    "kept_percent",
];

/// How strong the flood is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Level {
    /// Per cent of what XDP_DROP takes.
    Percent(f64),
    /// As fast as the generator goes.
    Full,
}

impl Level {
    /// Frames a second, where XDP_DROP takes `limit_per_sec`; `None` for as fast as it goes.
    pub(super) fn rate_per_sec(self, limit_per_sec: f64) -> Option<u64> {
        match self {
            Level::Percent(percent) => Some((percent / 100.0 * limit_per_sec).round() as u64),
            Level::Full => None,
        }
    }

    /// True if there is no flood.
    pub(super) fn is_none(self) -> bool {
        self == Level::Percent(0.0)
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Level::Percent(percent) => write!(f, "{percent}"),
            Level::Full => f.write_str("full"),
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        if text == "full" {
            return Ok(Level::Full);
        }
        let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=1000.0).contains(percent));
        percent.map(Level::Percent).ok_or_else(|| "a flood is 0 to 1000 per cent, or full".into())
    }
}

/// One flood against one contender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Frames a second that were sent, refused ones with them.
    pub(super) offered_per_sec: f64,
    /// Frames a second that the interface was handed.
    pub(super) handed_per_sec: f64,
    /// Frames a second that came as far as the host's port.
    pub(super) host_per_sec: f64,
    pub(super) transactions_per_sec: f64,
}

/// All rounds of one flood against one contender.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) level: Level,
    pub(super) samples: Vec<Sample>,
}

impl Row {
    fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    fn transactions_per_sec(&self) -> f64 {
        self.median(|sample| sample.transactions_per_sec)
    }

    /// The least and the most.
    fn extremes_per_sec(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(|sample| sample.transactions_per_sec))
    }

    fn offered_mps(&self) -> f64 {
        self.median(|sample| sample.offered_per_sec) / 1e6
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// What XDP_DROP takes in this placement, in each of its loads.
    pub(super) limits_per_sec: Vec<f64>,
    pub(super) rows: Vec<Row>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let mut out = format!(
            "Transactions over TCP under a flood of UDP, medians; one queue: its NAPI, the server \
             and the tools on\none CPU, the generator and the client on the other. XDP_DROP takes \
             {} million frames a second there.\n",
            number(self.limit_per_sec() / 1e6, 2)
        );
        let rows = self.ordered().map(|row| (self, row));
        out.push_str(&table::text(&fields(), rows));
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        // What XDP_DROP takes, and the rows.
        let limit = record([
            ("contender", json!("xdp-drop")),
            ("flood", json!("full")),
            ("rounds", json!(self.limits_per_sec.len())),
            ("handed_mps", rounded(self.limit_per_sec() / 1e6, 4)),
        ]);
        let rows = self.ordered().map(|row| table::record(&fields(), &(self, row)));
        [limit].into_iter().chain(rows).collect()
    }
}

impl Results {
    /// Adds a sample to its row.
    pub(super) fn add(&mut self, kind: Kind, level: Level, sample: Sample) {
        let is_its = |row: &&mut Row| row.kind == kind && row.level == level;
        match self.rows.iter_mut().find(is_its) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { kind, level, samples: vec![sample] }),
        }
    }

    /// The most that XDP_DROP took: a load that something held up makes every flood look strong.
    pub(super) fn limit_per_sec(&self) -> f64 {
        self.limits_per_sec.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The flood that was really sent, as a share of what XDP_DROP takes.
    fn offered_percent(&self, row: &Row) -> f64 {
        1e8 * row.offered_mps() / self.limit_per_sec()
    }

    /// Transactions as a share of the same contender's without a flood; NaN if that is unknown.
    fn kept_percent(&self, row: &Row) -> f64 {
        let unloaded = self.rows.iter().find(|r| r.kind == row.kind && r.level.is_none());
        unloaded.map_or(f64::NAN, |unloaded| {
            100.0 * row.transactions_per_sec() / unloaded.transactions_per_sec()
        })
    }

    /// Rows of a contender together, contenders in the order of the command line.
    fn ordered(&self) -> impl Iterator<Item = &Row> {
        let mut kinds: Vec<Kind> = Vec::new();
        for row in &self.rows {
            if !kinds.contains(&row.kind) {
                kinds.push(row.kind);
            }
        }
        kinds.into_iter().flat_map(|kind| self.rows.iter().filter(move |row| row.kind == kind))
    }

    /// Draws the figure; the folder is made if it is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn draw(&self, file: &Path) -> anyhow::Result<()> {
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        }
        let words = Words {
            title: "Transactions over TCP under a flood of UDP, all on one queue and one CPU",
            x: "flood, million frames a second, offered",
            y: "transactions a second",
        };
        plot::chart(file, words, &self.lines())
    }

    /// A line for each contender, by the flood that was really sent.
    fn lines(&self) -> Vec<Line> {
        let line = |kind: &Kind| {
            let rows = self.rows.iter().filter(|row| row.kind == *kind);
            let points = rows.map(|row| (row.offered_mps(), row.transactions_per_sec()));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: kind.name().to_owned(), points, mixes: Vec::new() }
        };
        let lines = Kind::value_variants().iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }
}

/// A row among all that it is compared with.
type Compared<'a> = (&'a Results, &'a Row);

fn fields<'a>() -> [Field<Compared<'a>>; 11] {
    [
        Field::new("contender", "contender", |(_, row)| Entry::of(row.kind.name())),
        Field::new("asked %", "flood", |(_, row)| Entry::of(row.level.to_string())),
        Field::kept("rounds", |(_, row)| Entry::of(row.samples.len())),
        Field::new("offered %", "offered_percent", |(all, row)| {
            Entry::number(all.offered_percent(row), [0, 1])
        }),
        Field::new("offered M/s", "offered_mps", |(_, row)| {
            Entry::number(row.offered_mps(), [2, 4])
        }),
        Field::new("taken M/s", "handed_mps", |(_, row)| {
            Entry::number(row.median(|sample| sample.handed_per_sec) / 1e6, [2, 4])
        }),
        Field::new("at the host M/s", "host_mps", |(_, row)| {
            Entry::number(row.median(|sample| sample.host_per_sec) / 1e6, [2, 4])
        }),
        Field::new("transactions/s", "transactions_per_sec", |(_, row)| {
            Entry::number(row.transactions_per_sec(), [0, 1])
        }),
        Field::kept("transactions_per_sec_min", |(_, row)| {
            Entry::number(row.extremes_per_sec().0, [1, 1])
        }),
        Field::kept("transactions_per_sec_max", |(_, row)| {
            Entry::number(row.extremes_per_sec().1, [1, 1])
        }),
        Field::new("kept %", "kept_percent", |(all, row)| {
            Entry::number(all.kept_percent(row), [1, 2])
        }),
    ]
}

#[cfg(test)]
mod tests;
