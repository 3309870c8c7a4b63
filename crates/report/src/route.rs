//! What was forwarded, for people and as a ledger.

use ringside_core::ledger::{ByCause, sum};
use ringside_core::{Cause, Consumer, LaneCounters};
use ringside_route::{InterfaceLedger, Ledger};
use ringside_terminal::columns;
use ringside_terminal::units::{grouped, scaled};
use std::time::Duration;

/// The account as a ledger: an interface is a lane, what it gave to others is taken, and what left
/// by them delivered.
pub fn lanes(ledger: &Ledger) -> ringside_core::Ledger {
    let lane = |one: &InterfaceLedger| LaneCounters {
        interface: one.interface.clone(),
        received: Some(one.received),
        taken: one.forwarded,
        passed: one.passed_total(),
        filtered: Some(0),
        in_flight: Some(0),
        ..LaneCounters::default()
    };
    let mut lanes = ringside_core::Ledger::from_lanes(ledger.interfaces.iter().map(lane).collect());
    let total = |count: fn(&InterfaceLedger) -> u64| total(ledger, count);
    lanes.consumers = vec![Consumer {
        name: "route".into(),
        delivered: total(|one| one.sent),
        late: 0,
        missed: ByCause::from([(Cause::InterfaceDrop, total(|one| one.lost))]),
    }];
    lanes
}

fn total(ledger: &Ledger, count: fn(&InterfaceLedger) -> u64) -> u64 {
    sum(ledger.interfaces.iter().map(count))
}

/// What happened since `before`, on one line.
pub fn line(now: &Ledger, before: &Ledger, elapsed: Duration) -> String {
    let rate = |count: fn(&InterfaceLedger) -> u64| {
        let frames = total(now, count).saturating_sub(total(before, count));
        scaled(frames as f64 / elapsed.as_secs_f64())
    };
    format!(
        "{}frames/s  forwarded {}/s  to the host {}/s{}  forwarded so far {}",
        rate(|one| one.received),
        rate(|one| one.forwarded),
        rate(InterfaceLedger::passed_total),
        most_passed(now, before),
        grouped(total(now, |one| one.forwarded)),
    )
}

/// For what reason most frames were left to the host, in parentheses.
fn most_passed(now: &Ledger, before: &Ledger) -> String {
    let frames = |ledger: &Ledger, cause: &str| {
        sum(ledger.interfaces.iter().filter_map(|one| one.passed.get(cause).copied()))
    };
    let causes = now.interfaces.iter().flat_map(|one| one.passed.keys());
    let grown = causes.map(|cause| {
        let more = frames(now, cause).saturating_sub(frames(before, cause));
        (more, cause)
    });
    match grown.max().filter(|(more, _)| *more > 0) {
        Some((_, cause)) => format!(" (most: {cause})"),
        None => String::new(),
    }
}

/// Both tables: what came in, and what went out.
pub fn text(ledger: &Ledger) -> String {
    let came = ledger.interfaces.iter().map(|one| {
        let counts = [one.received, one.forwarded, one.passed_total()];
        [vec![one.interface.clone()], counts.map(grouped).to_vec(), vec![causes(one)]].concat()
    });
    let head = ["came in by", "received", "forwarded", "to the host", "of these"];
    let mut text = columns::text(&head, &came.collect::<Vec<_>>());
    let went = ledger.interfaces.iter().map(|one| {
        let device = one.device.send_errors.saturating_add(one.device.send_dropped);
        let counts = [one.given, one.sent, one.lost, device];
        [vec![one.interface.clone()], counts.map(grouped).to_vec()].concat()
    });
    let head = ["left by", "given", "sent", "lost", "not sent by its driver"];
    text.push('\n');
    text.push_str(&columns::text(&head, &went.collect::<Vec<_>>()));
    let asked = ledger.neighbours;
    if asked.probes > 0 {
        text.push_str(&format!(
            "\nneighbours: {} in use, asked {} times, {} times without an answer\n",
            grouped(asked.in_use),
            grouped(asked.probes),
            grouped(asked.sought),
        ));
    }
    text
}

/// What was left to the host, by cause, the most first.
fn causes(one: &InterfaceLedger) -> String {
    let mut all: Vec<(u64, &str)> =
        one.passed.iter().map(|(cause, frames)| (*frames, cause.as_str())).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let words: Vec<String> =
        all.iter().map(|(frames, cause)| format!("{cause} {}", grouped(*frames))).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ledger() -> Ledger {
        let a = InterfaceLedger {
            interface: "eth1".into(),
            received: 1010,
            forwarded: 1000,
            passed: BTreeMap::from([("too_long".to_owned(), 3), ("host".to_owned(), 7)]),
            ..InterfaceLedger::default()
        };
        let b = InterfaceLedger {
            interface: "eth2".into(),
            given: 1000,
            sent: 999,
            lost: 1,
            ..InterfaceLedger::default()
        };
        Ledger { interfaces: vec![a, b], ..Ledger::default() }
    }

    #[test]
    fn every_frame_is_in_the_ledger() {
        let lanes = lanes(&ledger());
        assert_eq!(lanes.balance(), Ok(()), "{lanes:#?}");
        assert_eq!((lanes.received, lanes.taken, lanes.passed), (Some(1010), 1000, 10));
        assert_eq!(lanes.consumers[0].missed[&Cause::InterfaceDrop], 1);
    }

    #[test]
    fn reasons_are_named_the_most_first() {
        let (now, before) = (ledger(), Ledger::default());
        assert!(text(&now).contains("host 7, too_long 3"), "{}", text(&now));
        let said = line(&now, &before, Duration::from_secs(1));
        assert!(said.contains("(most: host)") && said.ends_with("so far 1,000"), "{said}");
        let still = line(&now, &now, Duration::from_secs(1));
        assert!(!still.contains("most"), "{still}");
    }
}
