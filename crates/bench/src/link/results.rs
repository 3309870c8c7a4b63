//! The figures of `bench link`, as tables for people, as CSV, as JSON, and drawn.

use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::results::{number, record, rounded};
use super::super::search::ZeroLoss;
use super::path::Trial;
use super::{FCS_BYTES, LinkSize};
use hdrhistogram::Histogram;
use ringside_terminal::columns;
use ringside_terminal::units::grouped;
use ringside_transmit::WIRE_OVERHEAD_BYTES;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. `kind` is `full`, `throughput`, `latency`,
/// `burst` or `loss`; `frame` counts the frame check sequence; rates are in million frames a
/// second, gigabits those of the wire; times in microseconds; `at_limit` says that the generator
/// gave no more.
const COLUMNS: [&str; 14] = [
    "kind",
    "frame",
    "load_percent",
    "offered_mps",
    "wire_gbit",
    "lost_percent",
    "reordered",
    "burst_frames",
    "at_limit",
    "p50_us",
    "p90_us",
    "p99_us",
    "p99_9_us",
    "max_us",
];

/// Quantiles that are told.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Everything of one frame size.
pub(super) struct Row {
    pub(super) size: LinkSize,
    /// As fast as the generator goes.
    pub(super) full: Trial,
    pub(super) zero_loss: ZeroLoss,
    /// Times under way by load, in per cent of the rate without loss.
    pub(super) latencies: Vec<(u32, Histogram<u64>)>,
    /// Frames a second offered, and per cent lost.
    pub(super) curve: Vec<(f64, f64)>,
    /// Frames of the longest burst without loss, and whether that is all that was tried.
    pub(super) burst: (u64, bool),
}

impl Row {
    /// Gigabits a second on the wire at a rate of these frames.
    fn wire_gbit(&self, per_sec: f64) -> f64 {
        // The overhead has the check sequence in it, which the mean has too.
        let overhead = WIRE_OVERHEAD_BYTES as f64 - f64::from(FCS_BYTES);
        per_sec * (self.size.mean_bytes() + overhead) * 8.0 / 1e9
    }
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
}

/// The quantiles of times under way, in microseconds.
fn quantiles_us(histogram: &Histogram<u64>) -> [f64; 5] {
    QUANTILES.map(|quantile| match histogram.is_empty() {
        true => f64::NAN,
        false => histogram.value_at_quantile(quantile) as f64 / 1e3,
    })
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
        let mut out = String::from(
            "Without loss, and as fast as the generator goes (frame sizes with check sequence)\n",
        );
        let head = ["frame", "M/s", "Gbit/s", "full M/s", "lost %", "reordered", "longest burst"];
        let line = |row: &Row| {
            let mark = |at_limit| if at_limit { "≥ " } else { "" };
            let ZeroLoss { rate_per_sec, at_limit, .. } = row.zero_loss;
            vec![
                row.size.name.clone(),
                format!("{}{}", mark(at_limit), number(rate_per_sec / 1e6, 3)),
                number(row.wire_gbit(rate_per_sec), 2),
                number(row.full.offered_per_sec / 1e6, 3),
                number(row.full.lost_percent(), 2),
                row.full.arrived.reordered.to_string(),
                format!("{}{}", mark(row.burst.1), grouped(row.burst.0)),
            ]
        };
        out.push_str(&columns::text(&head, &self.rows.iter().map(line).collect::<Vec<_>>()));
        out.push_str("\nTime under way in microseconds, by load in per cent of that rate\n");
        let head = ["frame", "load %", "median", "90 %", "99 %", "99.9 %", "longest"];
        let lines = self.rows.iter().flat_map(|row| {
            row.latencies.iter().map(|(percent, histogram)| {
                let times = quantiles_us(histogram).map(|time| number(time, 1));
                [vec![row.size.name.clone(), percent.to_string()], times.to_vec()].concat()
            })
        });
        out.push_str(&columns::text(&head, &lines.collect::<Vec<_>>()));
        out
    }

    fn all(&self) -> impl Iterator<Item = Map<String, Value>> {
        self.rows.iter().flat_map(|row| {
            let frame = || json!(row.size.name);
            let rate = |per_sec: f64| rounded(per_sec / 1e6, 4);
            let gbit = |per_sec: f64| rounded(row.wire_gbit(per_sec), 3);
            let full = record([
                ("kind", json!("full")),
                ("frame", frame()),
                ("offered_mps", rate(row.full.offered_per_sec)),
                ("wire_gbit", gbit(row.full.offered_per_sec)),
                ("lost_percent", rounded(row.full.lost_percent(), 4)),
                ("reordered", json!(row.full.arrived.reordered)),
            ]);
            let throughput = record([
                ("kind", json!("throughput")),
                ("frame", frame()),
                ("offered_mps", rate(row.zero_loss.rate_per_sec)),
                ("wire_gbit", gbit(row.zero_loss.rate_per_sec)),
                ("lost_percent", json!(0)),
                ("at_limit", json!(row.zero_loss.at_limit)),
            ]);
            let burst = record([
                ("kind", json!("burst")),
                ("frame", frame()),
                ("burst_frames", json!(row.burst.0)),
                ("at_limit", json!(row.burst.1)),
            ]);
            let latency = row.latencies.iter().map(move |(percent, histogram)| {
                let [p50, p90, p99, p99_9, max] =
                    quantiles_us(histogram).map(|time| rounded(time, 3));
                record([
                    ("kind", json!("latency")),
                    ("frame", frame()),
                    ("load_percent", json!(percent)),
                    ("p50_us", p50),
                    ("p90_us", p90),
                    ("p99_us", p99),
                    ("p99_9_us", p99_9),
                    ("max_us", max),
                ])
            });
            let loss = row.curve.iter().map(move |&(per_sec, lost_percent)| {
                record([
                    ("kind", json!("loss")),
                    ("frame", frame()),
                    ("offered_mps", rate(per_sec)),
                    ("wire_gbit", gbit(per_sec)),
                    ("lost_percent", rounded(lost_percent, 4)),
                ])
            });
            [full, throughput, burst].into_iter().chain(latency).chain(loss)
        })
    }

    /// Draws the figures; the folder exists.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        let throughput = [
            self.by_size("without loss", |row| row.zero_loss.rate_per_sec / 1e6),
            self.by_size("full rate, offered", |row| row.full.offered_per_sec / 1e6),
        ];
        plot::line_chart(
            &dir.join("link-throughput.svg"),
            "The highest rate without loss, by frame size",
            "million frames a second",
            &throughput,
        )?;
        let latency: Vec<Line> = self.latency_lines();
        plot::line_chart(
            &dir.join("link-latency.svg"),
            "Time under way, by load in per cent of the rate without loss",
            "microseconds",
            &latency,
        )?;
        let words = Words {
            title: "Loss by load",
            x: "million frames a second, offered",
            y: "per cent lost",
        };
        let loss = self.rows.iter().map(|row| {
            let mut points: Vec<(f64, f64)> =
                row.curve.iter().map(|&(per_sec, lost)| (per_sec / 1e6, lost)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: row.size.name.clone(), points, mixes: Vec::new() }
        });
        plot::chart(&dir.join("link-loss.svg"), words, &loss.collect::<Vec<_>>())
    }

    fn by_size(&self, name: &str, value: impl Fn(&Row) -> f64) -> Line {
        let mut line = Line { name: name.into(), points: Vec::new(), mixes: Vec::new() };
        for row in &self.rows {
            let list = if row.size.name == "imix" { &mut line.mixes } else { &mut line.points };
            list.push((row.size.mean_bytes(), value(row)));
        }
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line
    }

    /// Median and 99th percentile of each load.
    fn latency_lines(&self) -> Vec<Line> {
        let loads = self.rows.first().map_or(0, |row| row.latencies.len());
        let line = |load: usize, quantile: usize, word: &str| {
            let percent = self.rows.first().map_or(0, |row| row.latencies[load].0);
            self.by_size(&format!("{percent} %, {word}"), |row| {
                quantiles_us(&row.latencies[load].1)[quantile]
            })
        };
        (0..loads).flat_map(|load| [line(load, 0, "median"), line(load, 2, "99 %")]).collect()
    }
}
