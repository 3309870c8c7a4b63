//! The figures of `bench segment`: medians over rounds, as a table for people, as CSV, as JSON, and
//! drawn.

use super::super::median;
use super::super::output::Figures;
use super::super::plot::{self, Line, Words};
use super::super::table::{self, Entry, Field};
use super::contender::Contender;
use clap::ValueEnum;
use ringside_transmit::Way;
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. Gigabits are of payload that the far end was
/// handed; nanoseconds of CPU time for each segment, in this program and in the kernel for it;
/// `times_calls` and `times_kernel` are the rate in multiples of that of a call for each segment,
/// and of the kernel's cutting.
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
        let mut out = String::from(
            "Segments of 1,448 bytes from buffers of 64 KiB by one core, medians; payload that the \
             far end was handed\n",
        );
        let rows = self.rows.iter().map(|row| (self, row));
        out.push_str(&table::text(&fields(), rows));
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows.iter().map(|row| table::record(&fields(), &(self, row))).collect()
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

    /// The rate in multiples of that of another way with the same load.
    fn times(&self, base: Way, row: &Row) -> f64 {
        let is_base =
            |other: &&Row| other.way == Contender::Way(base) && other.load() == row.load();
        self.rows.iter().find(is_base).map_or(f64::NAN, |base| row.gbit() / base.gbit())
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

/// A row among all that it is compared with.
type Compared<'a> = (&'a Results, &'a Row);

fn fields<'a>() -> [Field<Compared<'a>>; 12] {
    [
        Field::new("far end", "far_end", |(_, row)| Entry::of(row.far_end.name())),
        Field::new("way", "way", |(_, row)| Entry::apart(row.way.to_string(), row.way.name())),
        Field::new("source", "source", |(_, row)| Entry::of(row.source.name())),
        Field::new("streams", "streams", |(_, row)| Entry::of(row.streams)),
        Field::kept("rounds", |(_, row)| Entry::of(row.samples.len())),
        Field::new("Gbit/s", "gbit_per_s", |(_, row)| Entry::number(row.gbit(), [2, 3])),
        Field::new("M segments/s", "segments_mps", |(_, row)| {
            Entry::number(row.median(|sample| sample.frames_per_sec) / 1e6, [3, 4])
        }),
        Field::new("own ns", "user_ns", |(_, row)| {
            Entry::number(row.median(|sample| sample.user_ns), [0, 1])
        }),
        Field::new("kernel ns", "system_ns", |(_, row)| {
            Entry::number(row.median(|sample| sample.system_ns), [0, 1])
        }),
        Field::new("refused %", "refused_percent", |(_, row)| {
            Entry::number(row.median(|sample| sample.lost_percent), [1, 2])
        }),
        Field::new("x calls", "times_calls", |(all, row)| {
            Entry::number(all.times(Way::Calls, row), [2, 3])
        }),
        Field::new("x kernel", "times_kernel", |(all, row)| {
            Entry::number(all.times(Way::Kernel, row), [2, 3])
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_each_figure_relative_to_calls_and_the_kernel() {
        let mut results = Results::default();
        for (way, payload_bits_per_sec) in [(Way::Calls, 2e9), (Way::Kernel, 8e9)] {
            let (far_end, source) = (FarEnd::Moderated, Source::Memory);
            let way = Contender::Way(way);
            let row = Row { far_end, way, source, streams: 1, samples: Vec::new() };
            let (frames_per_sec, lost_percent) = (1e6, 0.0);
            let (user_ns, system_ns) = (100.0, 50.5);
            let sample =
                Sample { frames_per_sec, payload_bits_per_sec, user_ns, system_ns, lost_percent };
            results.add(row, sample);
        }
        let expected = [
            "moderated,calls,memory,1,1,2.0,1.0,100.0,50.5,0.0,1.0,0.25",
            "moderated,kernel,memory,1,1,8.0,1.0,100.0,50.5,0.0,4.0,1.0",
        ];
        assert_eq!(results.csv().lines().skip(1).collect::<Vec<_>>(), expected);
        let text = results.text();
        let words: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
        let line = "moderated kernel memory 1 8.00 1.000 100 50 0.0 4.00 1.00";
        assert_eq!(words, line.split(' ').collect::<Vec<_>>(), "{text}");
    }
}
