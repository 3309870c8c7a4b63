//! What was dropped inside a driver, for people and as JSON.

use crate::rules::{self, RULES_TOLD_MAX, RuleCounts};
use crate::status;
use ringside_control::Status;
use ringside_core::ledger::sum;
use ringside_core::{Cause, Ledger};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{grouped, scaled};
use ringside_terminal::{columns, ledger_text, say};
use ringside_xdp::{Offender, Totals};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Each frame is in one of these, but for `seen`, which is their sum, and what is of all.
pub fn json(totals: &Totals) -> serde_json::Value {
    serde_json::json!({
        "seen": totals.seen(),
        "passed": totals.passed,
        "taken": totals.taken,
        "dropped": totals.dropped,
        "limited": totals.limited,
        "redirected": totals.redirected,
        "handed_up": totals.handed_up,
        "unjudged": totals.unjudged,
        "of_all": { "undecided": totals.undecided, "not_plain": totals.walked },
    })
}

/// The sources of most dropped frames.
fn sources(offenders: &[Offender]) -> serde_json::Value {
    let each = offenders.iter();
    each.map(|one| serde_json::json!({ "address": one.address, "frames": one.frames })).collect()
}

/// What happened since `before`, on one line.
pub fn line(now: &Totals, before: &Totals, elapsed: Duration) -> String {
    let rate = |count: fn(&Totals) -> u64| {
        scaled(count(now).saturating_sub(count(before)) as f64 / elapsed.as_secs_f64())
    };
    format!(
        "{}frames/s  dropped {}/s  over the limit {}/s  dropped so far {}",
        rate(Totals::seen),
        rate(|totals| totals.dropped),
        rate(|totals| totals.limited),
        grouped(sum([now.dropped, now.limited])),
    )
}

/// All terms.
pub fn text(totals: &Totals, is_dry: bool) -> String {
    let would = if is_dry { "let through; would have been dropped, " } else { "" };
    let Totals { passed, taken, dropped, limited, redirected, unjudged, .. } = *totals;
    let mut out = String::new();
    let mut line = |name: &str, frames: u64, note: &str| count(&mut out, name, frames, note);
    line("received", totals.seen(), "frames that the driver received");
    line("  passed", sum([passed, taken]), "to the host and to programs behind");
    line("  dropped", dropped, &format!("{would}by a rule or by the default"));
    for (name, count, note) in [
        ("  limited", limited, format!("{would}over the limit of their source")),
        ("  redirected", redirected, String::from("to another interface or CPU")),
        ("  unjudged", unjudged, String::from("headers beyond the first kilobyte; passed")),
    ] {
        if count > 0 {
            line(name, count, &note);
        }
    }
    out
}

/// The sources of most dropped frames as a table.
fn offenders_table(offenders: &[Offender]) -> String {
    let line = |one: &Offender| vec![one.address.to_string(), grouped(one.frames)];
    let lines: Vec<Vec<String>> = offenders.iter().map(line).collect();
    columns::text(&["dropped source", "frames, at least"], &lines)
}

/// Says what a run did that ends here.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish(
    (totals, is_dry): (&Totals, bool),
    offenders: &[Offender],
    counts: impl Into<RuleCounts>,
    ledger: &Ledger,
    to_json: bool,
) -> io::Result<()> {
    if to_json {
        rules::json(counts)?;
        say::data(serde_json::json!({ "sources": sources(offenders) }))?;
        say::data(serde_json::json!({ "drop": json(totals) }))?;
        return say::data(ledger_text::json(ledger));
    }
    say::message(text(totals, is_dry).trim_end());
    if !offenders.is_empty() {
        say::message(offenders_table(offenders).trim_end());
    }
    say::message(rules::table(counts, RULES_TOLD_MAX));
    Ok(())
}

/// Rules that are in force by pins, and that no process holds.
pub struct Pinned {
    /// Where they drop.
    pub interface: String,
    /// Where the pins lie.
    pub directory: PathBuf,
    /// When they were first pinned.
    pub since: SystemTime,
    /// They let every frame through.
    pub is_dry: bool,
    /// What they did.
    pub totals: Totals,
    /// The same as a ledger.
    pub ledger: Ledger,
    /// What each rule counted, and the sources of most dropped frames; none if it is not asked for.
    pub counts: Option<(RuleCounts, Vec<Offender>)>,
}

impl Pinned {
    fn since(&self) -> String {
        status::since(self.since)
    }
}

/// What is dropped where, as a JSON object a line: by running processes, each with the path of its
/// control socket, and by rules that are pinned.
///
/// # Errors
/// Standard output cannot be written.
pub fn status_json(running: &[(&Path, &Status)], pinned: Vec<Pinned>) -> io::Result<()> {
    for (socket, status) in running {
        say::data(serde_json::json!({ "socket": socket, "status": status }))?;
    }
    for one in pinned {
        let object = serde_json::json!({
            "interface": one.interface,
            "directory": one.directory,
            "since": one.since(),
            "dry_run": one.is_dry,
            "ledger": one.ledger,
            "drop": json(&one.totals),
        });
        say::data(serde_json::json!({ "pinned": object }))?;
        if let Some((counts, offenders)) = one.counts {
            rules::json(counts)?;
            say::data(serde_json::json!({ "sources": sources(&offenders) }))?;
        }
    }
    Ok(())
}

/// The same as a table.
///
/// # Errors
/// As [`status_json`].
pub fn status_text(running: &[(&Path, &Status)], pinned: Vec<Pinned>) -> io::Result<()> {
    let line = |interface: String, process: String, since: String, ledger: &Ledger| {
        let cause = |cause| grouped(ledger.dropped.get(&cause).copied().unwrap_or_default());
        vec![
            interface,
            process,
            since,
            grouped(ledger.received.unwrap_or_default()),
            grouped(ledger.passed),
            cause(Cause::ByRule),
            cause(Cause::SourceLimit),
        ]
    };
    let of_running = running.iter().map(|(_, status)| {
        let (interfaces, process) = (status.interfaces.join(" "), status.pid.to_string());
        line(interfaces, process, status.started.clone(), &status.ledger)
    });
    let of_pinned = pinned
        .iter()
        .map(|one| line(one.interface.clone(), "pinned".into(), one.since(), &one.ledger));
    let lines: Vec<Vec<String>> = of_running.chain(of_pinned).collect();
    let head = ["interface", "process", "since", "received", "passed", "dropped", "limited"];
    say::data(columns::text(&head, &lines).trim_end())?;
    for (counts, offenders) in pinned.into_iter().filter_map(|one| one.counts) {
        say::data(format!("\n{}", rules::table(counts, RULES_TOLD_MAX)))?;
        if !offenders.is_empty() {
            say::data(format!("\n{}", offenders_table(&offenders).trim_end()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_that_another_program_wrote_are_told_as_they_are() {
        let most = Totals {
            passed: u64::MAX,
            taken: u64::MAX,
            dropped: u64::MAX,
            limited: u64::MAX,
            unjudged: u64::MAX,
            ..Totals::default()
        };
        for is_dry in [false, true] {
            assert!(text(&most, is_dry).contains("18,446,744,073,709,551,615"));
        }
        assert_eq!(json(&most)["seen"], u64::MAX);
        let second = Duration::from_secs(1);
        let none = Totals::default();
        assert!(line(&none, &most, second).starts_with("0 frames/s"), "it went back");
        assert!(line(&most, &none, second).ends_with("18,446,744,073,709,551,615"));
    }

    #[test]
    fn every_term_is_told() {
        let (dropped, limited, unjudged) = (3, 4, 7);
        let totals = Totals { dropped, limited, unjudged, ..Totals::default() };
        assert_eq!(json(&totals)["seen"], 14);
        assert!(text(&totals, false).contains("unjudged"));
        for (is_dry, words) in [
            (false, ["3  by a rule or by the default", "4  over the limit of their source"]),
            (
                true,
                [
                    "3  let through; would have been dropped, by a rule or by the default",
                    "4  let through; would have been dropped, over the limit of their source",
                ],
            ),
        ] {
            let said = text(&totals, is_dry);
            assert!(words.iter().all(|words| said.contains(words)), "{said}");
        }
    }
}
