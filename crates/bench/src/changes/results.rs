//! The figures of `bench changes`, as tables for people, as CSV and as JSON.

use super::super::median;
use super::super::output::Figures;
use super::super::table::{self, Entry, Field};
use super::analysis::{Analysis, Effect};
use super::changer::RuleKind;
use super::effect::Judge;
use super::rate::{RateRow, Rates, asked_per_sec};
use serde_json::{Map, Value};

/// Columns of the CSV file, keys of the JSON lines. `figure` is `effect` or `rate`. Delays are in
/// microseconds from when the request was read to when frames are judged so, by their stamps;
/// `sent_p99_us` from when it was sent, `took_p99_us` as the tool says. `calm_*` leaves out the
/// `paused` ones, in which the receiving CPU stood still. Empty fields do not apply.
const COLUMNS: [&str; 24] = [
    "figure",
    "judge",
    "rule",
    "change",
    "count",
    "median_us",
    "p99_us",
    "max_us",
    "calm_p99_us",
    "calm_max_us",
    "paused",
    "sent_p99_us",
    "took_p99_us",
    "spacing_us",
    "frames_mps",
    "lost",
    "stray",
    "belated",
    "unseen",
    "changes_per_sec",
    "undisturbed_mps",
    "mps",
    "kept_percent",
    "kept_percent_min",
];

/// One judge and kind of rule.
#[derive(Clone, Debug)]
pub(super) struct EffectRow {
    pub(super) judge: Judge,
    pub(super) kind: RuleKind,
    /// The load.
    pub(super) frames_per_sec: f64,
    pub(super) analysis: Analysis,
}

impl EffectRow {
    /// Additions and deletions.
    fn sides(&self) -> [Side<'_>; 2] {
        let side = |change, effects| Side { row: self, change, effects };
        [side("add", &self.analysis.adds), side("delete", &self.analysis.deletes)]
    }

    /// Where it can be measured.
    fn belated(&self) -> Entry {
        match self.judge {
            Judge::Driver => Entry::of(self.analysis.belated),
            _ => Entry::none(),
        }
    }

    /// True if each frame was judged by one set of rules or the other, and none was lost.
    fn is_whole(&self) -> bool {
        let Analysis { lost, stray, belated, .. } = self.analysis;
        (lost, stray, belated) == (0, 0, 0)
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) effects: Vec<EffectRow>,
    pub(super) rates: Option<Rates>,
    /// Steps that gave no figure, and why.
    pub(super) failures: Vec<String>,
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let mut out = String::new();
        if !self.effects.is_empty() {
            out.push_str(
                "From when a change's request was read to when frames are judged so, by their \
                 stamps, microseconds\n(calm: without those in which the receiving CPU stood \
                 still; a frame within: so far apart are 99 of 100 frames)\n",
            );
            out.push_str(&table::text(&effect_fields(), self.sides()));
            out.push_str("\nThe frames\n");
            out.push_str(&table::text(&frames_fields(), &self.effects));
        }
        if self.rates.is_some() {
            out.push_str(
                "\nFrames judged in the driver under changes, 64 bytes, 10,000 flows, medians\n",
            );
            out.push_str(&table::text(&rate_fields(), self.rate_rows()));
        }
        out + &table::failures(&self.failures)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let effects = self.sides().map(|side| table::record(&effect_fields(), &side));
        let rates = self.rate_rows();
        effects.chain(rates.iter().map(|row| table::record(&rate_fields(), row))).collect()
    }
}

impl Results {
    /// True if no frame was lost or judged by half of a change.
    pub(super) fn are_frames_whole(&self) -> bool {
        self.effects.iter().all(EffectRow::is_whole)
    }

    fn rate_rows(&self) -> Vec<RateRow> {
        let rows = |rates: &Rates| RuleKind::ALL.map(|kind| rates.row(kind)).to_vec();
        self.rates.as_ref().map(rows).unwrap_or_default()
    }

    fn sides(&self) -> impl Iterator<Item = Side<'_>> {
        self.effects.iter().flat_map(EffectRow::sides)
    }
}

/// Delays in microseconds, in ascending order.
struct Delays(Vec<f64>);

impl Delays {
    fn of(effects: &[Effect], ns: impl Fn(&Effect) -> i64) -> Delays {
        let mut values: Vec<f64> = effects.iter().map(|e| ns(e) as f64 / 1e3).collect();
        values.sort_by(f64::total_cmp);
        Delays(values)
    }

    fn calm(effects: &[Effect]) -> Delays {
        let calm: Vec<Effect> = effects.iter().copied().filter(|e| !e.is_paused).collect();
        Delays::of(&calm, |effect| effect.delay_ns)
    }

    fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// The least value that 99 of 100 do not pass; NaN of none.
    fn p99(&self) -> f64 {
        let place = (self.0.len() * 99).div_ceil(100);
        place.checked_sub(1).and_then(|index| self.0.get(index)).copied().unwrap_or(f64::NAN)
    }

    fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

/// The additions or the deletions of a row.
struct Side<'a> {
    row: &'a EffectRow,
    change: &'static str,
    effects: &'a [Effect],
}

impl Side<'_> {
    fn all(&self) -> Delays {
        Delays::of(self.effects, |effect| effect.delay_ns)
    }

    fn calm(&self) -> Delays {
        Delays::calm(self.effects)
    }

    fn paused(&self) -> usize {
        self.effects.iter().filter(|effect| effect.is_paused).count()
    }

    fn sent(&self) -> Delays {
        Delays::of(self.effects, |effect| effect.since_sent_ns)
    }

    fn took(&self) -> Delays {
        Delays::of(self.effects, |effect| effect.took_ns.cast_signed())
    }
}

fn effect_fields<'a>() -> [Field<Side<'a>>; 19] {
    [
        Field::kept("figure", |_| Entry::of("effect")),
        Field::new("judge", "judge", |side| Entry::of(side.row.judge.name())),
        Field::new("rule", "rule", |side| Entry::of(side.row.kind.name())),
        Field::new("change", "change", |side| Entry::of(side.change)),
        Field::new("count", "count", |side| Entry::of(side.effects.len())),
        Field::new("median", "median_us", |side| Entry::number(side.all().median(), [1, 2])),
        Field::new("p99", "p99_us", |side| Entry::number(side.all().p99(), [1, 2])),
        Field::new("max", "max_us", |side| Entry::number(side.all().max(), [1, 2])),
        Field::new("calm p99", "calm_p99_us", |side| Entry::number(side.calm().p99(), [1, 2])),
        Field::new("calm max", "calm_max_us", |side| Entry::number(side.calm().max(), [1, 2])),
        Field::new("paused", "paused", |side| Entry::of(side.paused())),
        Field::kept("sent_p99_us", |side| Entry::number(side.sent().p99(), [1, 2])),
        Field::new("took p99", "took_p99_us", |side| Entry::number(side.took().p99(), [1, 2])),
        Field::new("a frame within", "spacing_us", |side| {
            Entry::number(side.row.analysis.spacing_ns as f64 / 1e3, [1, 2])
        }),
        Field::kept("frames_mps", |side| Entry::number(side.row.frames_per_sec / 1e6, [3, 4])),
        Field::kept("lost", |side| Entry::of(side.row.analysis.lost)),
        Field::kept("stray", |side| Entry::of(side.row.analysis.stray)),
        Field::kept("belated", |side| side.row.belated()),
        Field::kept("unseen", |side| Entry::of(side.row.analysis.unseen)),
    ]
}

fn frames_fields<'a>() -> [Field<&'a EffectRow>; 9] {
    [
        Field::shown("judge", |row| Entry::of(row.judge.name())),
        Field::shown("rule", |row| Entry::of(row.kind.name())),
        Field::shown("M/s", |row| Entry::number(row.frames_per_sec / 1e6, [3, 4])),
        Field::shown("recorded", |row| Entry::of(row.analysis.recorded)),
        Field::shown("dropped by the rule", |row| Entry::of(row.analysis.dropped)),
        Field::shown("lost", |row| Entry::of(row.analysis.lost)),
        Field::shown("stray runs", |row| Entry::of(row.analysis.stray)),
        Field::shown("belated", |row| row.belated()),
        Field::shown("unseen changes", |row| Entry::of(row.analysis.unseen)),
    ]
}

fn rate_fields() -> [Field<RateRow>; 10] {
    [
        Field::kept("figure", |_| Entry::of("rate")),
        Field::kept("judge", |_| Entry::of(Judge::Driver.name())),
        Field::new("rule", "rule", |row| Entry::of(row.kind.name())),
        Field::shown("asked /s", |row| Entry::of(asked_per_sec(row.kind))),
        Field::kept("count", |row| Entry::of(row.rounds)),
        Field::new("changes/s", "changes_per_sec", |row| {
            Entry::number(row.changes_per_sec, [0, 1])
        }),
        Field::new("M/s without", "undisturbed_mps", |row| {
            Entry::number(row.undisturbed_per_sec / 1e6, [3, 4])
        }),
        Field::new("M/s", "mps", |row| Entry::number(row.frames_per_sec / 1e6, [3, 4])),
        Field::new("kept %", "kept_percent", |row| Entry::number(row.kept_percent, [1, 2])),
        Field::new("kept % at least", "kept_percent_min", |row| {
            Entry::number(row.kept_percent_min, [1, 2])
        }),
    ]
}

#[cfg(test)]
mod tests;
