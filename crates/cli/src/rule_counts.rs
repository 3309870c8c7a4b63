//! What rules counted, for people and as JSON.

use crate::beside::BesideStatus;
use crate::{columns, say, units};
use ringside_capture::keep::RulesReport;
use ringside_rules::engine::Counts;
use std::io;

/// Characters of a rule that a table shows.
const RULE_CHARS_MAX: usize = 72;

/// One JSON object a rule, then one for the default and for each thing that was counted beside, on
/// standard output.
pub fn json(report: &RulesReport) -> io::Result<()> {
    for (rule, Counts { frames, bytes }) in &report.rules {
        let text = rule.to_string();
        let object = serde_json::json!({
            "rule": { "id": rule.id.0, "frames": frames, "bytes": bytes, "text": text }
        });
        say::data(object)?;
    }
    let Counts { frames, bytes } = report.undecided;
    let verdict = report.default.to_string();
    let object = serde_json::json!({
        "default": { "verdict": verdict, "frames": frames, "bytes": bytes }
    });
    say::data(object)?;
    BesideStatus::from(report.beside.clone()).json().iter().try_for_each(say::data)
}

/// A table of the first `rows_max` rules, those that counted most first if there are more, and the
/// default; behind it what was counted beside.
pub fn table(report: &RulesReport, rows_max: usize) -> String {
    let mut rules: Vec<_> = report.rules.iter().collect();
    let hidden = rules.len().saturating_sub(rows_max);
    if hidden > 0 {
        rules.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.frames));
        rules.truncate(rows_max);
    }
    let line = |id: String, counts: &Counts, text: String| {
        vec![id, units::grouped(counts.frames), units::grouped(counts.bytes), shortened(text)]
    };
    let mut lines: Vec<Vec<String>> = rules
        .iter()
        .map(|(rule, counts)| line(rule.id.to_string(), counts, rule.to_string()))
        .collect();
    if hidden > 0 {
        let text = format!("… and {} rules more, see --json", units::grouped(hidden as u64));
        lines.push(vec![String::new(), String::new(), String::new(), text]);
    }
    let default = format!("default {}", report.default);
    lines.push(line(String::new(), &report.undecided, default));
    let table = columns::text(&["id", "frames", "bytes", "rule"], &lines);
    let beside = BesideStatus::from(report.beside.clone()).text();
    format!("{}\n{beside}", table.trim_end()).trim_end().to_owned()
}

/// A text that fits a line of a table.
pub fn shortened(text: String) -> String {
    if text.chars().count() <= RULE_CHARS_MAX {
        return text;
    }
    text.chars().take(RULE_CHARS_MAX - 1).chain(['…']).collect()
}
