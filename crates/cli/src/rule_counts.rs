//! What rules counted, for people and as JSON.

use ringside_capture::keep::RulesReport;
use ringside_control::SideEffectsStatus;
use ringside_rules::engine::Counts;
use ringside_rules::language::Verdict;
use ringside_terminal::{columns, say, units};
use ringside_xdp::PinnedRule;
use std::io;

/// Characters of a rule that a table shows.
const RULE_CHARS_MAX: usize = 72;

/// Rules by id as texts, each with what it counted, and the default.
pub struct RuleCounts {
    pub rules: Vec<PinnedRule>,
    pub default: Verdict,
    pub undecided: Counts,
    /// What was counted in addition.
    pub side_effects: SideEffectsStatus,
}

impl From<&RulesReport> for RuleCounts {
    fn from(report: &RulesReport) -> RuleCounts {
        let rules = report.rules.iter().map(|(rule, counts)| PinnedRule {
            id: rule.id,
            text: rule.to_string(),
            counts: *counts,
        });
        let (default, undecided) = (report.default, report.undecided);
        let side_effects = report.side_effects.clone().into();
        RuleCounts { rules: rules.collect(), default, undecided, side_effects }
    }
}

/// One JSON object a rule, then one for the default and for each thing that was counted in
/// addition, on standard output.
pub fn json(report: impl Into<RuleCounts>) -> io::Result<()> {
    let report = report.into();
    for PinnedRule { id, text, counts: Counts { frames, bytes } } in &report.rules {
        let object = serde_json::json!({
            "rule": { "id": id.0, "frames": frames, "bytes": bytes, "text": text }
        });
        say::data(object)?;
    }
    let Counts { frames, bytes } = report.undecided;
    let verdict = report.default.to_string();
    let object = serde_json::json!({
        "default": { "verdict": verdict, "frames": frames, "bytes": bytes }
    });
    say::data(object)?;
    report.side_effects.json().iter().try_for_each(say::data)
}

/// A table of the first `rows_max` rules, those that counted most first if there are more, and the
/// default; behind it what was counted in addition.
pub fn table(report: impl Into<RuleCounts>, rows_max: usize) -> String {
    let RuleCounts { mut rules, default, undecided, side_effects } = report.into();
    let hidden = rules.len().saturating_sub(rows_max);
    if hidden > 0 {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.counts.frames));
        rules.truncate(rows_max);
    }
    let line = |id: String, counts: &Counts, text: String| {
        vec![id, units::grouped(counts.frames), units::grouped(counts.bytes), shortened(text)]
    };
    let mut lines: Vec<Vec<String>> =
        rules.into_iter().map(|rule| line(rule.id.to_string(), &rule.counts, rule.text)).collect();
    if hidden > 0 {
        let hidden = units::counted(hidden as u64, "more rule");
        let text = format!("… and {hidden}, see --json");
        lines.push(vec![String::new(), String::new(), String::new(), text]);
    }
    lines.push(line(String::new(), &undecided, format!("default {default}")));
    let table = columns::text(&["id", "frames", "bytes", "rule"], &lines);
    format!("{}\n{}", table.trim_end(), side_effects.text()).trim_end().to_owned()
}

/// A text that fits a line of a table.
pub fn shortened(text: String) -> String {
    if text.chars().count() <= RULE_CHARS_MAX {
        return text;
    }
    text.chars().take(RULE_CHARS_MAX - 1).chain(['…']).collect()
}
