//! What a run received: one line while it lasts, and its end.

use crate::rules::{self, RULES_TOLD_MAX};
use ringside_capture::trigger::TriggerSummary;
use ringside_core::Shown;
use ringside_core::ledger::total;
use ringside_core::profile::LaneProfile;
use ringside_session::{MeteringReport, Moment, Rates, RunReport};
use ringside_store::retention::Summary;
use ringside_terminal::units::{self, grouped, scaled};
use ringside_terminal::{ledger_text, say};
use std::io;
use std::path::PathBuf;

/// How the lanes are worked on, if their backends count that: frames to a batch, most that waited,
/// and how often the kernel had no memory to receive into.
pub fn worked(profiles: &[LaneProfile]) -> String {
    let most = |of: fn(&LaneProfile) -> u64| profiles.iter().map(of).max().unwrap_or(0);
    if profiles.is_empty() {
        return String::new();
    }
    format!(
        "  batch {}  waiting at most {}  starved {}",
        most(|lane| lane.profile.returned_per_batch()),
        grouped(most(|lane| lane.profile.ring_high_water.into())),
        grouped(most(|lane| lane.profile.fill_starved)),
    )
}

/// The last second: rate, bits, stored, every cause of loss.
pub fn line(moment: &Moment<'_>) -> String {
    let ledger = &moment.ledger;
    let rates = moment.rates.unwrap_or(Rates { frames_per_second: 0, bits_per_second: 0 });
    let bytes: u64 = ledger.lanes.iter().map(|lane| lane.taken_bytes).sum();
    let mut line = format!(
        "{}frames/s  {}bit/s  taken {} ({}B)",
        scaled(rates.frames_per_second as f64),
        scaled(rates.bits_per_second as f64),
        grouped(ledger.taken),
        scaled(bytes as f64),
    );
    if total(&ledger.dropped) == 0 {
        line.push_str("  dropped 0");
    }
    for (cause, &count) in ledger.dropped.iter().filter(|(_, count)| **count > 0) {
        line.push_str(&format!("  dropped {cause} {}", grouped(count)));
    }
    for consumer in &ledger.consumers {
        for (cause, &count) in consumer.missed.iter().filter(|(_, count)| **count > 0) {
            line.push_str(&format!("  {} missed {cause} {}", consumer.name, grouped(count)));
        }
    }
    line
}

/// Says what a run without lanes did.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish_metered(report: &MeteringReport, to_json: bool) -> io::Result<()> {
    for error in &report.errors {
        say::message(format_args!("ringside: {error}"));
    }
    say::message(ledger_text::text(&report.ledger).trim_end());
    if to_json { say::data(ledger_text::json(&report.ledger)) } else { Ok(()) }
}

/// What became of files while others were recorded.
fn retention_lines(kept: &Summary) -> Vec<String> {
    let line = |files, text: String| format!("retention     {:>16}  {text}", grouped(files));
    let bytes = grouped;
    let mut lines = Vec::new();
    if kept.deleted_files > 0 {
        let bytes = bytes(kept.deleted_bytes);
        let text = format!("files deleted, the oldest, of {bytes} bytes together");
        lines.push(line(kept.deleted_files, text));
    }
    if kept.packed_files > 0 {
        let (before, after) = (bytes(kept.packed_bytes_before), bytes(kept.packed_bytes));
        let text = format!("files compressed, from {before} bytes to {after}");
        lines.push(line(kept.packed_files, text));
    }
    if kept.pinned_files > 0 {
        let text = format!("files pinned, of {} bytes together", bytes(kept.pinned_bytes));
        lines.push(line(kept.pinned_files, text));
    }
    lines
}

/// Says what a run did; it was to write to `outputs`.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish(report: &RunReport, outputs: &[PathBuf], to_json: bool) -> io::Result<()> {
    for error in &report.errors {
        say::message(format_args!("ringside: {error}"));
    }
    say::message(ledger_text::text(&report.ledger).trim_end());
    if let Some(rules) = report.rules.as_ref().filter(|_| !to_json) {
        say::message(rules::table(rules, RULES_TOLD_MAX));
    }
    if let Some(trigger) = &report.trigger {
        say::message(trigger_text(trigger));
    }
    if let Some(overdue) = report.kept.as_ref().and_then(|kept| kept.overdue.as_ref()) {
        say::message(format_args!("ringside: warning: files past their age remain: {overdue}"));
    }
    if let Some(kept) = report.kept.as_ref() {
        retention_lines(kept).into_iter().for_each(say::message);
    }
    if let Some(left) = report.indexes.as_ref().map(|made| made.left).filter(|&left| left > 0) {
        let (files, made) = (units::grouped(left), if left == 1 { "it" } else { "them" });
        say::message(format_args!(
            "indexes       {files:>16}  files without one for want of time; `ringside index` makes \
             {made}"
        ));
    }
    if let Some(text) = to_read(report, outputs) {
        say::message(text);
    }
    if to_json {
        let has_news =
            |kept: &&Summary| kept.deleted_files + kept.packed_files + kept.pinned_files > 0;
        if let Some(kept) = report.kept.as_ref().filter(has_news) {
            say::data(serde_json::json!({ "retention": kept }))?;
        }
        if let Some(indexes) = &report.indexes {
            say::data(serde_json::json!({ "indexes": indexes }))?;
        }
        if !report.profiles.is_empty() {
            say::data(serde_json::json!({ "profile": report.profiles }))?;
        }
        report.rules.as_ref().map_or(Ok(()), rules::json)?;
        say::data(ledger_text::json(&report.ledger))?;
    }
    Ok(())
}

/// What the trigger did, for people.
fn trigger_text(trigger: &TriggerSummary) -> String {
    let hits = units::grouped(trigger.hits);
    match trigger.given_up_early {
        0 => format!("trigger       {hits:>16}  hits"),
        frames => format!(
            "trigger       {hits:>16}  hits; the memory was too small to wait the whole --before \
             for {} frames: a larger --ring-size reaches back further",
            units::grouped(frames)
        ),
    }
}

/// How to read what was written.
fn to_read(report: &RunReport, outputs: &[PathBuf]) -> Option<String> {
    let count = report.files.count;
    let directories: Vec<_> = outputs.iter().filter(|path| path.is_dir()).collect();
    if count == 0 {
        return None;
    }
    if directories.len() > 1 {
        let inputs = directories.iter().map(|path| format!(" -r '{}'", path.shown()));
        return Some(format!(
            "{count} files; to read: ringside read{}",
            inputs.collect::<String>()
        ));
    }
    let directory = directories.first();
    let first = || report.files.paths.first();
    let path = directory.copied().or_else(first)?;
    let what = path.shown();
    Some(match (directory, count) {
        (None, 2..) => format!("{count} files, the first {what}; name each with -r to read them"),
        (_, 1) => format!("1 file; to read it: ringside read -r '{what}'"),
        _ => format!("{count} files; to read them: ringside read -r '{what}'"),
    })
}
