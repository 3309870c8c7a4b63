//! What was dropped, for people and as JSON.

use ringside_capture::keep::{RulesReport, SideEffects};
use ringside_core::ledger::{ByCause, sum};
use ringside_core::{Cause, Consumer, LaneCounters, Ledger};
use ringside_session::driver_rules::undecided;
use ringside_terminal::columns;
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{grouped, scaled};
use ringside_xdp::{DriverRules, Offender, Totals};
use std::time::Duration;

/// The ledger: what goes on to the host or to programs behind is passed, what is sent elsewhere is
/// taken for that. In a dry run every frame goes on.
pub(super) fn ledger(interface: &str, totals: &Totals, is_dry: bool) -> Ledger {
    let Totals { passed, taken, dropped, limited, redirected, handed_up, unjudged, .. } = *totals;
    let on = sum([passed, taken, handed_up, unjudged]);
    let mut lane = LaneCounters {
        interface: interface.to_owned(),
        received: Some(totals.seen()),
        filtered: Some(0),
        in_flight: Some(0),
        passed: totals.seen(),
        ..LaneCounters::default()
    };
    if !is_dry {
        (lane.passed, lane.taken) = (on, redirected);
        lane.dropped = ByCause::from([(Cause::ByRule, dropped), (Cause::SourceLimit, limited)]);
    }
    let delivered = lane.taken;
    let mut ledger = Ledger::from_lanes(vec![lane]);
    let (name, missed) = ("redirect".to_owned(), ByCause::new());
    ledger.consumers = vec![Consumer { name, delivered, late: 0, missed }];
    ledger
}

/// What each rule counted.
pub(super) fn counts(rules: &DriverRules) -> RulesReport {
    let each = rules.rules().map(|(rule, counts, _)| ((**rule).clone(), counts));
    let undecided = undecided(&rules.totals());
    let (rules, default) = (each.collect(), rules.default_verdict());
    RulesReport { rules, default, undecided, side_effects: SideEffects::default() }
}

/// Each frame is in one of these, but for `seen`, which is their sum, and what is of all.
pub(super) fn json(totals: &Totals) -> serde_json::Value {
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
pub(super) fn sources(offenders: &[Offender]) -> serde_json::Value {
    let each = offenders.iter();
    each.map(|one| serde_json::json!({ "address": one.address, "frames": one.frames })).collect()
}

/// What happened since `before`, on one line.
pub(super) fn line(now: &Totals, before: &Totals, elapsed: Duration) -> String {
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
pub(super) fn text(totals: &Totals, is_dry: bool) -> String {
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
pub(super) fn offenders(offenders: &[Offender]) -> String {
    let line = |one: &Offender| vec![one.address.to_string(), grouped(one.frames)];
    let lines: Vec<Vec<String>> = offenders.iter().map(line).collect();
    columns::text(&["dropped source", "frames, at least"], &lines)
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
            assert_eq!(ledger("eth1", &most, is_dry).received, Some(u64::MAX));
            assert!(text(&most, is_dry).contains("18,446,744,073,709,551,615"));
        }
        assert_eq!(json(&most)["seen"], u64::MAX);
        let second = Duration::from_secs(1);
        let none = Totals::default();
        assert!(line(&none, &most, second).starts_with("0 frames/s"), "it went back");
        assert!(line(&most, &none, second).ends_with("18,446,744,073,709,551,615"));
    }

    #[test]
    fn every_frame_is_in_the_ledger() {
        let totals = Totals {
            passed: 1,
            taken: 2,
            dropped: 3,
            limited: 4,
            redirected: 5,
            handed_up: 6,
            unjudged: 7,
            walked: 8,
            undecided: 9,
            undecided_bytes: 10,
        };
        for is_dry in [false, true] {
            let ledger = ledger("eth1", &totals, is_dry);
            ledger.balance().unwrap();
            assert_eq!(ledger.received, Some(28));
        }
        assert_eq!(ledger("eth1", &totals, true).passed, 28);
        assert_eq!(json(&totals)["seen"], 28);
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
