//! The figures of `bench xdp`: medians over rounds, and the account of all frames.

use super::super::median;
use super::super::output::Figures;
use super::super::results::extremes;
use super::super::table::{self, Entry, Field};
use super::part::{Case, Part};
use hdrhistogram::Histogram;
use ringside_terminal::units::grouped;
use serde_json::{Map, Value};

/// Times below this are counted, as in the paper.
const SOON_US: f64 = 10.0;

/// Columns of the CSV file, keys of the JSON lines. `mps` are million frames a second that ended
/// where they should, `taken_mps` those that the interface under test took; `cpu_percent` is the
/// part of the core under test that was busy; counts are of all rounds, and `taken` is the sum of
/// `out` and those behind it; times in microseconds; `absent` is why there are no figures. Empty
/// fields do not apply.
const COLUMNS: [&str; 27] = [
    "part",
    "tool",
    "setting",
    "placement",
    "rounds",
    "mps",
    "mps_min",
    "mps_max",
    "taken_mps",
    "cpu_percent",
    "limit_percent",
    "times_peer",
    "offered",
    "refused",
    "taken",
    "out",
    "lost_ring",
    "lost_interface",
    "lost_host",
    "lost_other",
    "unaccounted",
    "mean_us",
    "p50_us",
    "p99_us",
    "max_us",
    "soon_percent",
    "absent",
];

/// Frames that were taken and did not end where they should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// The ring of the end of the way had no room.
    pub(super) ring: u64,
    /// The interface under test lost them: a socket had no room.
    pub(super) interface: u64,
    /// They came as far as the host's port.
    pub(super) host: u64,
    /// A process could not send them, or another core's queue had no room.
    pub(super) other: u64,
}

impl Lost {
    fn total(&self) -> u64 {
        self.ring + self.interface + self.host + self.other
    }
}

/// Times under way, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
    /// Per cent below [`SOON_US`].
    soon_percent: f64,
}

impl Delays {
    /// Of times in nanoseconds.
    pub(super) fn of(times: &Histogram<u64>) -> Delays {
        let quantile = |share| times.value_at_quantile(share) as f64 / 1e3;
        let soon = times.count_between(0, (SOON_US * 1e3) as u64);
        Delays {
            mean: times.mean() / 1e3,
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: quantile(1.0),
            soon_percent: 100.0 * soon as f64 / times.len().max(1) as f64,
        }
    }
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Frames that the generator made.
    pub(super) offered: u64,
    /// Frames that the interface under test took.
    pub(super) taken: u64,
    /// Frames that ended where they should.
    pub(super) out: u64,
    pub(super) lost: Lost,
    /// Part of the core under test that was busy.
    pub(super) busy_share: f64,
    pub(super) delays: Option<Delays>,
}

impl Sample {
    fn mps(&self) -> f64 {
        self.out as f64 / self.seconds / 1e6
    }

    fn taken_mps(&self) -> f64 {
        self.taken as f64 / self.seconds / 1e6
    }

    /// Frames without a cause, or more than there were.
    pub(super) fn unaccounted(&self) -> i64 {
        self.taken as i64 - self.out as i64 - self.lost.total() as i64
    }
}

/// All rounds of one case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) samples: Vec<Sample>,
    /// Why there are none.
    pub(super) absence: Option<String>,
}

impl Row {
    pub(super) fn new(case: Case) -> Row {
        Row { case, samples: Vec::new(), absence: case.kind.absence() }
    }

    fn median(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value).collect())
    }

    /// The median of times under way; not a number where they are not measured.
    fn delay(&self, value: fn(&Delays) -> f64) -> f64 {
        self.median(|sample| sample.delays.as_ref().map_or(f64::NAN, value))
    }

    /// Million frames a second that ended where they should.
    pub(super) fn mps(&self) -> f64 {
        self.median(Sample::mps)
    }

    /// Per cent of the core under test.
    pub(super) fn busy_percent(&self) -> f64 {
        100.0 * self.median(|sample| sample.busy_share)
    }

    fn extremes_mps(&self) -> (f64, f64) {
        extremes(self.samples.iter().map(Sample::mps))
    }

    fn sum(&self, value: fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(value).sum()
    }
}

/// Everything that was measured.
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

/// A row, and the rates that it is compared with.
struct Compared<'a> {
    row: &'a Row,
    limit_mps: f64,
    peer_mps: f64,
}

impl Results {
    fn compared(&self) -> impl Iterator<Item = Compared<'_>> {
        self.rows.iter().map(|row| {
            let rate_of = |kind| {
                let is_it = |one: &&Row| one.case.kind == kind && one.case.is_beside(&row.case);
                self.rows.iter().find(is_it).map_or(f64::NAN, Row::mps)
            };
            let part = row.case.part;
            let has_limit = !matches!(part, Part::Cpu | Part::Latency);
            let limit = part.kinds().first().filter(|_| has_limit);
            Compared {
                row,
                limit_mps: limit.map_or(f64::NAN, |&kind| rate_of(kind)),
                peer_mps: part.peer().map_or(f64::NAN, rate_of),
            }
        })
    }
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let mut out = String::new();
        let rates = || self.compared().filter(|one| one.row.case.part != Part::Latency);
        if rates().next().is_some() {
            out.push_str("64-byte frames on one core, medians (M/s: million frames a second)\n");
            out.push_str(&table::text(&rate_fields(), rates()));
        }
        let delays = || self.compared().filter(|one| one.row.case.part == Part::Latency);
        if delays().next().is_some() {
            out.push_str("\nTime under way in microseconds, medians of rounds\n");
            out.push_str(&table::text(&delay_fields(), delays()));
        }
        out.push_str("\nFrames of all rounds: taken = out + lost, by where\n");
        let measured = self.compared().filter(|one| !one.row.samples.is_empty());
        out.push_str(&table::text(&count_fields(), measured));
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let record = |one: Compared<'_>| {
            let mut fields = table::record(&rate_fields(), &one);
            fields.extend(table::record(&count_fields(), &one));
            fields.extend(table::record(&delay_fields(), &one));
            fields
        };
        self.compared().map(record).collect()
    }
}

/// What a row is of, and `more`.
fn beside_case<'a, const N: usize>(more: [Field<Compared<'a>>; N]) -> Vec<Field<Compared<'a>>> {
    let case: [Field<Compared<'a>>; 3] = [
        Field::new("part", "part", |one| Entry::of(one.row.case.part.name())),
        Field::new("tool", "tool", |one| Entry::of(one.row.case.kind.name())),
        Field::new("setting", "setting", |one| Entry::of(one.row.case.setting())),
    ];
    case.into_iter().chain(more).collect()
}

fn rate_fields<'a>() -> Vec<Field<Compared<'a>>> {
    beside_case([
        Field::new("core", "placement", |one| Entry::of(one.row.case.kind.placement().name())),
        Field::kept("rounds", |one| Entry::of(one.row.samples.len())),
        Field::new("M/s", "mps", |one| Entry::number(one.row.mps(), [3, 4])),
        Field::shown("ns/frame", |one| Entry::number(1e3 / one.row.mps(), [0, 0])),
        Field::kept("mps_min", |one| Entry::number(one.row.extremes_mps().0, [4, 4])),
        Field::kept("mps_max", |one| Entry::number(one.row.extremes_mps().1, [4, 4])),
        Field::new("taken M/s", "taken_mps", |one| {
            Entry::number(one.row.median(Sample::taken_mps), [3, 4])
        }),
        Field::new("CPU %", "cpu_percent", |one| Entry::number(one.row.busy_percent(), [0, 1])),
        Field::new("% of limit", "limit_percent", |one| {
            Entry::number(100.0 * one.row.mps() / one.limit_mps, [0, 1])
        }),
        Field::new("x peer", "times_peer", |one| {
            Entry::number(one.row.mps() / one.peer_mps, [2, 3])
        }),
        Field::new("left out", "absent", |one| match &one.row.absence {
            Some(why) => Entry::of(why.clone()),
            None => Entry::none(),
        }),
    ])
}

fn delay_fields<'a>() -> Vec<Field<Compared<'a>>> {
    beside_case([
        Field::new("mean", "mean_us", |one| {
            Entry::number(one.row.delay(|times| times.mean), [1, 2])
        }),
        Field::new("half", "p50_us", |one| Entry::number(one.row.delay(|times| times.p50), [1, 2])),
        Field::new("99 %", "p99_us", |one| Entry::number(one.row.delay(|times| times.p99), [1, 2])),
        Field::new("most", "max_us", |one| Entry::number(one.row.delay(|times| times.max), [1, 2])),
        Field::new("% below 10", "soon_percent", |one| {
            Entry::number(one.row.delay(|times| times.soon_percent), [1, 2])
        }),
        Field::shown("left out", |one| match &one.row.absence {
            Some(why) => Entry::of(why.clone()),
            None => Entry::none(),
        }),
    ])
}

/// A count of all rounds.
fn count(one: &Compared<'_>, value: fn(&Sample) -> u64) -> Entry {
    match one.row.samples.len() {
        0 => Entry::none(),
        _ => Entry::apart(grouped(one.row.sum(value)), one.row.sum(value)),
    }
}

fn count_fields<'a>() -> Vec<Field<Compared<'a>>> {
    beside_case([
        Field::new("offered", "offered", |one| count(one, |load| load.offered)),
        Field::new("refused", "refused", |one| count(one, |load| load.offered - load.taken)),
        Field::new("taken", "taken", |one| count(one, |load| load.taken)),
        Field::new("out", "out", |one| count(one, |load| load.out)),
        Field::new("at the end", "lost_ring", |one| count(one, |load| load.lost.ring)),
        Field::new("interface", "lost_interface", |one| count(one, |load| load.lost.interface)),
        Field::new("host", "lost_host", |one| count(one, |load| load.lost.host)),
        Field::new("other", "lost_other", |one| count(one, |load| load.lost.other)),
        Field::new("unaccounted", "unaccounted", |one| {
            count(one, |load| load.unaccounted().unsigned_abs())
        }),
    ])
}
