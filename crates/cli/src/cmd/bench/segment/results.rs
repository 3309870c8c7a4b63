//! The figures of `bench segment`: medians over rounds, as a table for people, as CSV, as JSON, and
//! drawn.

use super::super::median;
use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::results::{number, record, rounded};
use crate::columns;
use anyhow::Context;
use clap::ValueEnum;
use ringside_transmit::Way;
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. Gigabits are of payload that the far end was
/// handed; nanoseconds of CPU time for each segment, in this program and in the kernel for it;
/// `times_calls` is the rate beside that of a call for each segment.
const COLUMNS: [&str; 10] = [
    "way",
    "source",
    "streams",
    "rounds",
    "gbit_per_s",
    "segments_mps",
    "user_ns",
    "system_ns",
    "refused_percent",
    "times_calls",
];

/// Where payload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Source {
    /// Memory that stays as it is.
    Memory,
    /// A file in the page cache, read into the buffers.
    File,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::Memory => "memory",
            Source::File => "file",
        }
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) frames_per_sec: f64,
    pub(super) payload_bits_per_sec: f64,
    /// CPU time for each segment.
    pub(super) user_ns: f64,
    pub(super) system_ns: f64,
    /// Frames that the interface had no room for.
    pub(super) lost_percent: f64,
}

/// All rounds of one way from one source.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) way: Way,
    pub(super) source: Source,
    pub(super) streams: u16,
    pub(super) samples: Vec<Sample>,
}

impl Row {
    fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    fn gbit(&self) -> f64 {
        self.median(|sample| sample.payload_bits_per_sec) / 1e9
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { way, source, streams, .. } = self;
        write!(f, "{way} from {}, {streams} streams", source.name())
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    rows: Vec<Row>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        self.table()
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows.iter().map(|row| self.record(row)).collect()
    }
}

impl Results {
    /// Adds a sample to the row that is like `row`.
    pub(super) fn add(&mut self, row: Row, sample: Sample) {
        let key = |row: &Row| (row.way, row.source, row.streams);
        let at = self.rows.iter().position(|other| key(other) == key(&row)).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        self.rows[at].samples.push(sample);
    }

    /// The rate beside that of a call for each segment, of the same source and streams.
    fn times_calls(&self, row: &Row) -> f64 {
        let is_base = |other: &&Row| {
            (other.way, other.source, other.streams) == (Way::Calls, row.source, row.streams)
        };
        self.rows.iter().find(is_base).map_or(f64::NAN, |base| row.gbit() / base.gbit())
    }

    /// A table for people.
    fn table(&self) -> String {
        let mut out = String::from(
            "Segments of 1,448 bytes from buffers of 64 KiB by one core, medians; payload that the \
             far end was handed\n",
        );
        let head = [
            "way",
            "source",
            "streams",
            "Gbit/s",
            "M segments/s",
            "own ns",
            "kernel ns",
            "refused %",
            "x calls",
        ];
        let line = |row: &Row| {
            vec![
                row.way.to_string(),
                row.source.name().to_owned(),
                row.streams.to_string(),
                number(row.gbit(), 2),
                number(row.median(|sample| sample.frames_per_sec) / 1e6, 3),
                number(row.median(|sample| sample.user_ns), 0),
                number(row.median(|sample| sample.system_ns), 0),
                number(row.median(|sample| sample.lost_percent), 1),
                number(self.times_calls(row), 2),
            ]
        };
        out.push_str(&columns::text(&head, &self.rows.iter().map(line).collect::<Vec<_>>()));
        if !self.failures.is_empty() {
            out.push_str(&format!("\nWithout a figure:\n{}\n", self.failures.join("\n")));
        }
        out
    }

    fn record(&self, row: &Row) -> Map<String, Value> {
        record([
            ("way", json!(row.way.name())),
            ("source", json!(row.source.name())),
            ("streams", json!(row.streams)),
            ("rounds", json!(row.samples.len())),
            ("gbit_per_s", rounded(row.gbit(), 3)),
            ("segments_mps", rounded(row.median(|sample| sample.frames_per_sec) / 1e6, 4)),
            ("user_ns", rounded(row.median(|sample| sample.user_ns), 1)),
            ("system_ns", rounded(row.median(|sample| sample.system_ns), 1)),
            ("refused_percent", rounded(row.median(|sample| sample.lost_percent), 2)),
            ("times_calls", rounded(self.times_calls(row), 3)),
        ])
    }

    /// Draws the rate by the number of streams; the folder is made if it is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let lines = Way::ALL.into_iter().map(|way| {
            let rows =
                self.rows.iter().filter(|row| (row.way, row.source) == (way, Source::Memory));
            let points = rows.map(|row| (f64::from(row.streams), row.gbit())).collect();
            Line { name: way.to_string(), points, mixes: Vec::new() }
        });
        let lines: Vec<Line> = lines.filter(|line| !line.points.is_empty()).collect();
        let words = Words {
            title: "Payload in segments of 1,448 bytes, by one core",
            x: "parallel streams",
            y: "Gbit/s of payload, handed to the far end",
        };
        plot::chart(&dir.join("segment-streams.svg"), words, &lines)
    }
}
