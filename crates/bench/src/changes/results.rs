//! The figures of `bench changes`, as tables for people, as CSV and as JSON.

use super::super::median;
use super::super::output::Figures;
use super::super::results::{self, number, rounded};
use super::analysis::{Analysis, Effect};
use super::changer::RuleKind;
use super::effect::Judge;
use super::rate::{RateRow, Rates, asked_per_sec};
use ringside_terminal::columns;
use serde_json::{Map, Value, json};

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
    fn sides(&self) -> [(&'static str, &[Effect]); 2] {
        [("add", &self.analysis.adds), ("delete", &self.analysis.deletes)]
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
        self.table()
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.all()
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

    /// Tables for people.
    fn table(&self) -> String {
        let mut out = String::new();
        if !self.effects.is_empty() {
            out.push_str(
                "From when a change's request was read to when frames are judged so, by their \
                 stamps, microseconds\n(calm: without those in which the receiving CPU stood \
                 still; a frame within: so far apart are 99 of 100 frames)\n",
            );
            let head = [
                "judge",
                "rule",
                "change",
                "count",
                "median",
                "p99",
                "max",
                "calm p99",
                "calm max",
                "paused",
                "took p99",
                "a frame within",
            ];
            let lines: Vec<Vec<String>> = self.effects.iter().flat_map(effect_lines).collect();
            out.push_str(&columns::text(&head, &lines));
            out.push_str("\nThe frames\n");
            let head = [
                "judge",
                "rule",
                "M/s",
                "recorded",
                "dropped by the rule",
                "lost",
                "stray runs",
                "belated",
                "unseen changes",
            ];
            let lines: Vec<Vec<String>> = self.effects.iter().map(frames_line).collect();
            out.push_str(&columns::text(&head, &lines));
        }
        if self.rates.is_some() {
            out.push_str(
                "\nFrames judged in the driver under changes, 64 bytes, 10,000 flows, medians\n",
            );
            let head = [
                "rule",
                "asked /s",
                "changes/s",
                "M/s without",
                "M/s",
                "kept %",
                "kept % at least",
            ];
            let lines: Vec<Vec<String>> = self.rate_rows().iter().map(rate_line).collect();
            out.push_str(&columns::text(&head, &lines));
        }
        if !self.failures.is_empty() {
            out.push_str(&format!("\nWithout a figure:\n{}\n", self.failures.join("\n")));
        }
        out
    }

    fn all(&self) -> Vec<Map<String, Value>> {
        let effects = self.effects.iter().flat_map(|row| {
            row.sides().map(|(change, effects)| effect_record(row, change, effects))
        });
        effects.chain(self.rate_rows().iter().map(rate_record)).collect()
    }
}

/// Microseconds.
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

fn paused(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| effect.is_paused).count()
}

fn took(effects: &[Effect]) -> Delays {
    Delays::of(effects, |effect| effect.took_ns.cast_signed())
}

fn effect_lines(row: &EffectRow) -> [Vec<String>; 2] {
    row.sides().map(|(change, effects)| {
        let (all, calm) = (Delays::of(effects, |effect| effect.delay_ns), Delays::calm(effects));
        vec![
            row.judge.name().to_owned(),
            row.kind.name().to_owned(),
            change.to_owned(),
            effects.len().to_string(),
            number(all.median(), 1),
            number(all.p99(), 1),
            number(all.max(), 1),
            number(calm.p99(), 1),
            number(calm.max(), 1),
            paused(effects).to_string(),
            number(took(effects).p99(), 1),
            number(row.analysis.spacing_ns as f64 / 1e3, 1),
        ]
    })
}

fn frames_line(row: &EffectRow) -> Vec<String> {
    let Analysis { recorded, dropped, lost, stray, belated, unseen, .. } = row.analysis;
    vec![
        row.judge.name().to_owned(),
        row.kind.name().to_owned(),
        number(row.frames_per_sec / 1e6, 3),
        recorded.to_string(),
        dropped.to_string(),
        lost.to_string(),
        stray.to_string(),
        if row.judge == Judge::Driver { belated.to_string() } else { String::new() },
        unseen.to_string(),
    ]
}

fn rate_line(row: &RateRow) -> Vec<String> {
    vec![
        row.kind.name().to_owned(),
        asked_per_sec(row.kind).to_string(),
        number(row.changes_per_sec, 0),
        number(row.undisturbed_per_sec / 1e6, 3),
        number(row.frames_per_sec / 1e6, 3),
        number(row.kept_percent, 1),
        number(row.kept_percent_min, 1),
    ]
}

fn effect_record(row: &EffectRow, change: &str, effects: &[Effect]) -> Map<String, Value> {
    let Analysis { spacing_ns, lost, stray, belated, unseen, .. } = row.analysis;
    let (all, calm) = (Delays::of(effects, |effect| effect.delay_ns), Delays::calm(effects));
    let sent = Delays::of(effects, |effect| effect.since_sent_ns);
    results::record([
        ("figure", json!("effect")),
        ("judge", json!(row.judge.name())),
        ("rule", json!(row.kind.name())),
        ("change", json!(change)),
        ("count", json!(effects.len())),
        ("median_us", rounded(all.median(), 2)),
        ("p99_us", rounded(all.p99(), 2)),
        ("max_us", rounded(all.max(), 2)),
        ("calm_p99_us", rounded(calm.p99(), 2)),
        ("calm_max_us", rounded(calm.max(), 2)),
        ("paused", json!(paused(effects))),
        ("sent_p99_us", rounded(sent.p99(), 2)),
        ("took_p99_us", rounded(took(effects).p99(), 2)),
        ("spacing_us", rounded(spacing_ns as f64 / 1e3, 2)),
        ("frames_mps", rounded(row.frames_per_sec / 1e6, 4)),
        ("lost", json!(lost)),
        ("stray", json!(stray)),
        ("belated", if row.judge == Judge::Driver { json!(belated) } else { Value::Null }),
        ("unseen", json!(unseen)),
    ])
}

fn rate_record(row: &RateRow) -> Map<String, Value> {
    results::record([
        ("figure", json!("rate")),
        ("judge", json!(Judge::Driver.name())),
        ("rule", json!(row.kind.name())),
        ("count", json!(row.rounds)),
        ("changes_per_sec", rounded(row.changes_per_sec, 1)),
        ("undisturbed_mps", rounded(row.undisturbed_per_sec / 1e6, 4)),
        ("mps", rounded(row.frames_per_sec / 1e6, 4)),
        ("kept_percent", rounded(row.kept_percent, 2)),
        ("kept_percent_min", rounded(row.kept_percent_min, 2)),
    ])
}

#[cfg(test)]
mod tests;
