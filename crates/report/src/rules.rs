//! Rules and what they counted, for people and as JSON.

use ringside_capture::keep::RulesReport;
use ringside_control::{DefaultStatus, RuleStatus, RunningRules, SideEffectsStatus};
use ringside_rules::engine::Counts;
use ringside_rules::language::Verdict;
use ringside_terminal::{columns, say, units};
use ringside_xdp::PinnedRule;
use std::io;

/// Rules whose counts are printed at the end of a run, unless all are asked for as JSON: a screen.
pub const RULES_TOLD_MAX: usize = 24;
/// Characters of a rule that a table shows.
const RULE_CHARS_MAX: usize = 72;

/// Rules by id as texts, each with what it counted, and the default.
pub struct RuleCounts {
    /// By id.
    pub rules: Vec<PinnedRule>,
    /// What becomes of frames that no rule decides about.
    pub default: Verdict,
    /// These frames.
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
///
/// # Errors
/// Standard output cannot be written.
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
fn shortened(text: String) -> String {
    if text.chars().count() <= RULE_CHARS_MAX {
        return text;
    }
    text.chars().take(RULE_CHARS_MAX - 1).chain(['…']).collect()
}

/// Prints the rules of a run, and where each is decided about.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(running: &RunningRules, to_json: bool) -> io::Result<()> {
    let RunningRules { rules, default, .. } = running;
    if to_json {
        return list_json(rules, default);
    }
    let place = |rule: &RuleStatus| shortened(rule.place.clone());
    let line = |rule: &RuleStatus| vec![rule.id.to_string(), place(rule), body(rule)];
    let mut lines: Vec<Vec<String>> = rules.iter().map(line).collect();
    lines.push(vec![String::new(), String::new(), default_text(default)]);
    say::data(columns::text(&["id", "decided in", "rule"], &lines).trim_end())?;
    let pre_filters = &default.pre_filters;
    pre_filters.iter().try_for_each(|line| say::data(format_args!("pre-filter of {line}")))
}

/// Prints what the rules of a run counted.
///
/// # Errors
/// Standard output cannot be written.
pub fn stats(running: &RunningRules, to_json: bool) -> io::Result<()> {
    let RunningRules { rules, default, side_effects } = running;
    if to_json {
        list_json(rules, default)?;
        return side_effects.json().iter().try_for_each(say::data);
    }
    let line = |id: String, counts: [u64; 2], text: String| {
        let [frames, bytes] = counts.map(units::grouped);
        vec![id, frames, bytes, text]
    };
    let of_rule =
        |rule: &RuleStatus| line(rule.id.to_string(), [rule.frames, rule.bytes], body(rule));
    let mut lines: Vec<Vec<String>> = rules.iter().map(of_rule).collect();
    let counts = [default.frames, default.bytes];
    lines.push(line(String::new(), counts, default_text(default)));
    let table = columns::text(&["id", "frames", "bytes", "rule"], &lines);
    say::data(format!("{}\n{}", table.trim_end(), side_effects.text()).trim_end())
}

fn list_json(rules: &[RuleStatus], default: &DefaultStatus) -> io::Result<()> {
    for rule in rules {
        say::data(serde_json::json!({ "rule": rule }))?;
    }
    say::data(serde_json::json!({ "default": default }))
}

/// A rule without its id, cut to a line.
fn body(rule: &RuleStatus) -> String {
    let text = rule.text.strip_prefix(&format!("{}: ", rule.id)).unwrap_or(&rule.text);
    shortened(text.to_owned())
}

fn default_text(default: &DefaultStatus) -> String {
    format!("default {}", default.verdict)
}
