//! The ledger for people, and as the last JSON line of a run.

use crate::units::grouped;
use ringside_core::ledger::ByCause;
use ringside_core::{LaneCounters, Ledger};
use std::fmt::Write;

/// The ledger as one JSON line: `{"ledger":{…}}`.
pub fn json(ledger: &Ledger) -> serde_json::Value {
    serde_json::json!({ "ledger": ledger })
}

/// The ledger as lines of text; stage 1, then each consumer, then what does not balance.
pub fn text(ledger: &Ledger) -> String {
    let mut out = so_far(ledger);
    match ledger.balance() {
        Ok(()) if ledger.received.is_some() && ledger.filtered.is_some() => {
            out.push_str("the ledger balances\n");
        }
        Ok(()) => out.push_str("the ledger balances as far as this backend counts\n"),
        Err(imbalance) => writeln!(out, "{imbalance}").expect("writing to a String"),
    }
    out
}

/// The ledger of a run that goes on: frames that a consumer has not got yet are in none of the
/// lines.
pub fn so_far(ledger: &Ledger) -> String {
    let mut out = String::new();
    line(&mut out, "received", ledger.received, "frames that the interface accepted");
    line(&mut out, "  taken", Some(ledger.taken), "");
    let sum = |count: fn(&LaneCounters) -> u64| ledger.lanes.iter().map(count).sum::<u64>();
    let (cut_frames, cut_bytes) = (sum(|lane| lane.cut_frames), sum(|lane| lane.cut_bytes));
    if cut_frames > 0 {
        let note = format!("of these without {} bytes of the wire", grouped(cut_bytes));
        line(&mut out, "    cut", Some(cut_frames), &note);
    }
    if ledger.passed > 0 {
        line(&mut out, "  passed", Some(ledger.passed), "left to the host");
    }
    line(&mut out, "  filtered", ledger.filtered, "did not match the filter");
    causes(&mut out, "  dropped", &ledger.dropped);
    if let Some(in_flight @ 1..) = ledger.in_flight {
        line(&mut out, "  in flight", Some(in_flight), "accepted, not yet taken");
    }
    for consumer in &ledger.consumers {
        line(&mut out, &consumer.name, Some(consumer.delivered), "delivered");
        if consumer.late > 0 {
            let note = "of these after a younger frame, flagged where the format can";
            line(&mut out, "  late", Some(consumer.late), note);
        }
        causes(&mut out, "  missed", &consumer.missed);
    }
    let inversions: u64 = ledger.lanes.iter().map(|lane| lane.inversions).sum();
    if inversions > 0 {
        line(&mut out, "inversions", Some(inversions), "frames stamped before their predecessor");
    }
    out
}

/// A line of an account, set as those of the ledger.
pub fn count(out: &mut String, name: &str, count: u64, note: &str) {
    line(out, name, Some(count), note);
}

fn line(out: &mut String, name: &str, count: Option<u64>, note: &str) {
    let count = count.map_or_else(|| "not counted".into(), grouped);
    let text = format!("{name:<14}{count:>16}  {note}");
    writeln!(out, "{}", text.trim_end()).expect("writing to a String");
}

fn causes(out: &mut String, name: &str, by_cause: &ByCause) {
    let lost: Vec<_> = by_cause.iter().filter(|(_, count)| **count > 0).collect();
    if lost.is_empty() {
        line(out, name, Some(0), "");
    }
    for (cause, &count) in lost {
        line(out, name, Some(count), cause.name());
    }
}
