//! The figures of `bench segment`: medians over rounds, as a table for people, as CSV, as JSON, and
//! drawn.

use super::super::median;
use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::results::{number, record, rounded};
use super::contender::Contender;
use clap::ValueEnum;
use ringside_terminal::columns;
use ringside_transmit::Way;
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. Gigabits are of payload that the far end was
/// handed; nanoseconds of CPU time for each segment, in this program and in the kernel for it;
/// `times_calls` and `times_kernel` are the rate beside that of a call for each segment, and of the
/// kernel's cutting.
const COLUMNS: [&str; 12] = [
    "far_end",
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
    "times_kernel",
];

/// How the far end takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FarEnd {
    /// On another CPU, polling as long as frames come: as a card, which its driver does not wake.
    Moderated,
    /// On another CPU, asleep when nothing waits; the sender wakes it, as a driver that rings a
    /// card's bell for each packet that comes by itself.
    Woken,
    /// On the sender's CPU, at once.
    Shared,
}

impl FarEnd {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

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
    pub(super) far_end: FarEnd,
    pub(super) way: Contender,
    pub(super) source: Source,
    pub(super) streams: u16,
    pub(super) samples: Vec<Sample>,
}

impl Row {
    /// What all ways are measured with.
    fn load(&self) -> (FarEnd, Source, u16) {
        (self.far_end, self.source, self.streams)
    }

    fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    fn gbit(&self) -> f64 {
        self.median(|sample| sample.payload_bits_per_sec) / 1e9
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { far_end, way, source, streams, .. } = self;
        let (far_end, source) = (far_end.name(), source.name());
        write!(f, "{way} from {source}, {streams} streams, far end {far_end}")
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
        let key = |row: &Row| (row.way, row.load());
        let at = self.rows.iter().position(|other| key(other) == key(&row)).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        self.rows[at].samples.push(sample);
    }

    /// The rate beside that of another way with the same load.
    fn times(&self, base: Way, row: &Row) -> f64 {
        let is_base =
            |other: &&Row| other.way == Contender::Way(base) && other.load() == row.load();
        self.rows.iter().find(is_base).map_or(f64::NAN, |base| row.gbit() / base.gbit())
    }

    /// A table for people.
    fn table(&self) -> String {
        let mut out = String::from(
            "Segments of 1,448 bytes from buffers of 64 KiB by one core, medians; payload that the \
             far end was handed\n",
        );
        let head = [
            "far end",
            "way",
            "source",
            "streams",
            "Gbit/s",
            "M segments/s",
            "own ns",
            "kernel ns",
            "refused %",
            "x calls",
            "x kernel",
        ];
        let line = |row: &Row| {
            vec![
                row.far_end.name(),
                row.way.to_string(),
                row.source.name().to_owned(),
                row.streams.to_string(),
                number(row.gbit(), 2),
                number(row.median(|sample| sample.frames_per_sec) / 1e6, 3),
                number(row.median(|sample| sample.user_ns), 0),
                number(row.median(|sample| sample.system_ns), 0),
                number(row.median(|sample| sample.lost_percent), 1),
                number(self.times(Way::Calls, row), 2),
                number(self.times(Way::Kernel, row), 2),
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
            ("far_end", json!(row.far_end.name())),
            ("way", json!(row.way.name())),
            ("source", json!(row.source.name())),
            ("streams", json!(row.streams)),
            ("rounds", json!(row.samples.len())),
            ("gbit_per_s", rounded(row.gbit(), 3)),
            ("segments_mps", rounded(row.median(|sample| sample.frames_per_sec) / 1e6, 4)),
            ("user_ns", rounded(row.median(|sample| sample.user_ns), 1)),
            ("system_ns", rounded(row.median(|sample| sample.system_ns), 1)),
            ("refused_percent", rounded(row.median(|sample| sample.lost_percent), 2)),
            ("times_calls", rounded(self.times(Way::Calls, row), 3)),
            ("times_kernel", rounded(self.times(Way::Kernel, row), 3)),
        ])
    }

    /// Draws the rate by the number of streams, for each far end; the folder exists.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        for &far_end in FarEnd::value_variants() {
            let lines = self.lines(far_end);
            if lines.is_empty() {
                continue;
            }
            let title = format!("Segments of 1,448 bytes, by one core; far end {}", far_end.name());
            let words = Words {
                title: &title,
                x: "parallel streams",
                y: "Gbit/s of payload, handed to the far end",
            };
            let file = format!("segment-streams-{}.svg", far_end.name());
            plot::chart(&dir.join(file), words, &lines)?;
        }
        Ok(())
    }

    /// A line for each way, from memory.
    fn lines(&self, far_end: FarEnd) -> Vec<Line> {
        let line = |way: Contender| {
            let is_shown =
                |row: &&Row| (row.far_end, row.way, row.source) == (far_end, way, Source::Memory);
            let rows = self.rows.iter().filter(is_shown);
            let points = rows.map(|row| (f64::from(row.streams), row.gbit())).collect();
            Line { name: way.to_string(), points, mixes: Vec::new() }
        };
        Contender::all().map(line).filter(|line| !line.points.is_empty()).collect()
    }
}
