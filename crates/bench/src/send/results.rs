//! The figures of `bench send`: medians over rounds, as a table for people, as CSV, as JSON, and
//! drawn.

use super::super::median;
use super::super::network::Placement;
use super::super::output::Figures;
use super::super::plot::{self, Line};
use super::super::table::{self, Entry, Field};
use super::contender::Kind;
use serde_json::{Map, Value};
use std::path::Path;

/// Columns of the CSV file, keys of the JSON lines. Rates are in million frames a second that the
/// far end was handed; percentages are of the best of the others, and of our constant frames.
const COLUMNS: [&str; 10] = [
    "placement",
    "tool",
    "frame_bytes",
    "rounds",
    "mps",
    "mps_min",
    "mps_max",
    "gbit_per_s",
    "best_peer_times",
    "constant_percent",
];

/// All rounds of one tool with one frame size.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) placement: Placement,
    pub(super) kind: Kind,
    pub(super) bytes: u16,
    /// Frames a second.
    pub(super) samples: Vec<f64>,
}

impl Row {
    fn mps(&self) -> f64 {
        median(self.samples.clone()) / 1e6
    }

    fn extreme_mps(&self, of: fn(f64, f64) -> f64) -> f64 {
        self.samples.iter().copied().fold(f64::NAN, of) / 1e6
    }

    fn gbit_per_s(&self) -> f64 {
        self.mps() * f64::from(self.bytes) * 8.0 / 1e3
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
            "Frames that one core sends, medians; the far end discards them inside the driver, \
             `own` on another CPU\n",
        );
        let rows = self.ordered().into_iter().map(|row| (self, row));
        out.push_str(&table::text(&fields(), rows));
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let rows = self.ordered().into_iter();
        rows.map(|row| table::record(&fields(), &(self, row))).collect()
    }
}

impl Results {
    /// Adds a sample to the row that is like `row`.
    pub(super) fn add(&mut self, row: Row, per_sec: f64) {
        let key = |row: &Row| (row.placement, row.kind, row.bytes);
        let at = self.rows.iter().position(|other| key(other) == key(&row)).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        self.rows[at].samples.push(per_sec);
    }

    /// The best of the rows with the placement and size of `row` that `is_wanted`.
    fn best_alike(&self, row: &Row, is_wanted: impl Fn(Kind) -> bool) -> f64 {
        let is_alike = |other: &&Row| {
            (other.placement, other.bytes) == (row.placement, row.bytes) && is_wanted(other.kind)
        };
        self.rows.iter().filter(is_alike).map(Row::mps).fold(f64::NAN, f64::max)
    }

    fn best_peer_times(&self, row: &Row) -> f64 {
        row.mps() / self.best_alike(row, |kind| !kind.is_ours())
    }

    fn constant_percent(&self, row: &Row) -> f64 {
        let is_live = matches!(row.kind, Kind::Constant | Kind::Ringside | Kind::Stamped);
        let constant = self.best_alike(row, |kind| kind == Kind::Constant);
        if is_live { 100.0 * row.mps() / constant } else { f64::NAN }
    }

    /// By placement, size and rate.
    fn ordered(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| {
            let key = |row: &Row| (row.placement.name(), row.bytes);
            key(a).cmp(&key(b)).then(b.mps().total_cmp(&a.mps()))
        });
        rows
    }

    /// Draws a figure for each placement; the folder exists.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        for placement in [Placement::Own, Placement::Shared] {
            let mut lines: Vec<Line> = Vec::new();
            for row in self.ordered().into_iter().filter(|row| row.placement == placement) {
                let name = row.kind.name();
                let point = (f64::from(row.bytes), row.mps());
                match lines.iter_mut().find(|line| line.name == name) {
                    Some(line) => line.points.push(point),
                    None => lines.push(Line { name, points: vec![point], mixes: Vec::new() }),
                }
            }
            if !lines.is_empty() {
                let file = dir.join(format!("send-{}.svg", placement.name()));
                let title = "Sent by one core, discarded by the far end";
                plot::line_chart(&file, title, "million frames a second", &lines)?;
            }
        }
        Ok(())
    }
}

/// A row among all that it is compared with.
type Compared<'a> = (&'a Results, &'a Row);

fn fields<'a>() -> [Field<Compared<'a>>; 10] {
    [
        Field::new("placement", "placement", |(_, row)| Entry::of(row.placement.name())),
        Field::new("bytes", "frame_bytes", |(_, row)| Entry::of(row.bytes)),
        Field::new("tool", "tool", |(_, row)| Entry::of(row.kind.name())),
        Field::kept("rounds", |(_, row)| Entry::of(row.samples.len())),
        Field::new("M/s", "mps", |(_, row)| Entry::number(row.mps(), [3, 4])),
        Field::kept("mps_min", |(_, row)| Entry::number(row.extreme_mps(f64::min), [4, 4])),
        Field::kept("mps_max", |(_, row)| Entry::number(row.extreme_mps(f64::max), [4, 4])),
        Field::new("Gbit/s", "gbit_per_s", |(_, row)| Entry::number(row.gbit_per_s(), [2, 3])),
        Field::new("x best peer", "best_peer_times", |(all, row)| {
            Entry::number(all.best_peer_times(row), [2, 3])
        }),
        Field::new("% of constant frames", "constant_percent", |(all, row)| {
            Entry::number(all.constant_percent(row), [0, 1])
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_each_figure_the_fastest_first() {
        let mut results =
            Results { failures: vec!["tcpreplay: absent".into()], ..Results::default() };
        for (kind, rates) in [
            (Kind::Trafgen, &[1.5e6][..]),
            (Kind::Ringside, &[2e6, 4e6, 3e6]),
            (Kind::Constant, &[4e6]),
        ] {
            for &per_sec in rates {
                let samples = Vec::new();
                results.add(Row { placement: Placement::Own, kind, bytes: 64, samples }, per_sec);
            }
        }
        let expected = [
            "own,ringside-constant,64,1,4.0,4.0,4.0,2.048,2.667,100.0",
            "own,ringside,64,3,3.0,2.0,4.0,1.536,2.0,75.0",
            "own,trafgen,64,1,1.5,1.5,1.5,0.768,1.0,",
        ];
        assert_eq!(results.csv().lines().skip(1).collect::<Vec<_>>(), expected);
        let text = results.text();
        let line = text.lines().find(|line| line.contains("ringside ")).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["own", "64", "ringside", "3.000", "1.54", "2.00", "75"], "{text}");
        assert!(text.ends_with("\nWithout a figure:\ntcpreplay: absent\n"), "{text}");
    }
}
