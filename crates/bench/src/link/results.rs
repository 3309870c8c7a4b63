//! The figures of `bench link`, as tables for people, as CSV, as JSON, and drawn.

use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::results::{number, record, rounded};
use super::super::search::ZeroLoss;
use super::super::table::{self, Entry, Field};
use super::path::Trial;
use super::{FCS_BYTES, LinkSize};
use hdrhistogram::Histogram;
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

/// Quantiles that are reported.
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

/// Times under way at a load in per cent.
struct Times<'a> {
    size: &'a LinkSize,
    load_percent: u32,
    quantiles_us: [f64; QUANTILES.len()],
}

impl Row {
    /// Times under way, by load.
    fn times(&self) -> impl Iterator<Item = Times<'_>> {
        self.latencies.iter().map(|(load_percent, histogram)| {
            let (size, load_percent) = (&self.size, *load_percent);
            Times { size, load_percent, quantiles_us: quantiles_us(histogram) }
        })
    }

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
        let mut out = String::from(
            "Without loss, and as fast as the generator goes (frame sizes with check sequence)\n",
        );
        out.push_str(&table::text(&size_fields(), &self.rows));
        out.push_str("\nTime under way in microseconds, by load in per cent of that rate\n");
        out.push_str(&table::text(&latency_fields(), self.rows.iter().flat_map(Row::times)));
        out
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows
            .iter()
            .flat_map(|row| {
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
                let latency = row.times().map(|times| table::record(&latency_fields(), &times));
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
            .collect()
    }
}

impl Results {
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

/// Marks a figure that the generator gave no more than.
fn mark(at_limit: bool) -> &'static str {
    if at_limit { "≥ " } else { "" }
}

fn size_fields<'a>() -> [Field<&'a Row>; 7] {
    [
        Field::shown("frame", |row| Entry::of(row.size.name.clone())),
        Field::shown("M/s", |row| {
            let ZeroLoss { rate_per_sec, at_limit, .. } = row.zero_loss;
            Entry::of(format!("{}{}", mark(at_limit), number(rate_per_sec / 1e6, 3)))
        }),
        Field::shown("Gbit/s", |row| {
            Entry::number(row.wire_gbit(row.zero_loss.rate_per_sec), [2, 3])
        }),
        Field::shown("full M/s", |row| Entry::number(row.full.offered_per_sec / 1e6, [3, 4])),
        Field::shown("lost %", |row| Entry::number(row.full.lost_percent(), [2, 4])),
        Field::shown("reordered", |row| Entry::of(row.full.arrived.reordered)),
        Field::shown("longest burst", |row| {
            Entry::of(format!("{}{}", mark(row.burst.1), grouped(row.burst.0)))
        }),
    ]
}

fn latency_fields<'a>() -> [Field<Times<'a>>; 8] {
    [
        Field::kept("kind", |_| Entry::of("latency")),
        Field::new("frame", "frame", |times| Entry::of(times.size.name.clone())),
        Field::new("load %", "load_percent", |times| Entry::of(times.load_percent)),
        Field::new("median", "p50_us", |times| Entry::number(times.quantiles_us[0], [1, 3])),
        Field::new("90 %", "p90_us", |times| Entry::number(times.quantiles_us[1], [1, 3])),
        Field::new("99 %", "p99_us", |times| Entry::number(times.quantiles_us[2], [1, 3])),
        Field::new("99.9 %", "p99_9_us", |times| Entry::number(times.quantiles_us[3], [1, 3])),
        Field::new("longest", "max_us", |times| Entry::number(times.quantiles_us[4], [1, 3])),
    ]
}
