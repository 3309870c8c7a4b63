//! What a balancer is to do and did, for people and as a ledger; and the end of its tunnels.

use ringside_balance::balancer::Count;
use ringside_balance::config::{Config, RealState};
use ringside_balancer::{DecapLedger, Ledger, RealLedger};
use ringside_core::ledger::{ByCause, sum};
use ringside_core::{Cause, Consumer, LaneCounters};
use ringside_terminal::columns;
use ringside_terminal::units::{grouped, scaled};
use std::time::Duration;

/// What a configuration says, and the memory that it takes.
pub fn plan(config: &Config, memory_bytes: usize) -> String {
    let rows: Vec<Vec<String>> = (config.vips.iter())
        .map(|vip| {
            let port = vip.port.map_or("all".to_owned(), |port| port.to_string());
            let protocol = format!("{:?}", vip.protocol).to_lowercase();
            let up = vip.reals.iter().filter(|real| real.state == RealState::Up).count();
            let via = format!("{:?}", vip.via).to_lowercase();
            let reals = vip.reals.len().to_string();
            let (name, slots) = (vip.name.clone(), vip.slots.to_string());
            vec![name, vip.prefix.to_string(), port, protocol, via, reals, up.to_string(), slots]
        })
        .collect();
    let head = ["VIP", "address", "port", "protocol", "via", "reals", "up", "slots"];
    let memory = scaled(memory_bytes as f64);
    format!("{}{memory}B of memory with room for twice as much\n", columns::text(&head, &rows))
}

/// The account as a ledger: what is a VIP's is taken; of that, what went to reals or was answered
/// is delivered.
pub fn lanes(ledger: &Ledger) -> ringside_core::Ledger {
    let total = |counts: &[Count]| sum(counts.iter().map(|count| ledger.total(*count)));
    let delivered = total(&[Count::Forwarded, Count::Echo, Count::Answered]);
    let too_big = ledger.total(Count::TooBig);
    let lane = LaneCounters {
        interface: ledger.interface.clone(),
        received: Some(ledger.received),
        taken: sum([delivered, ledger.dropped()]),
        passed: ledger.passed,
        filtered: Some(0),
        in_flight: Some(0),
        ..LaneCounters::default()
    };
    let mut lanes = ringside_core::Ledger::from_lanes(vec![lane]);
    let others = ledger.dropped().saturating_sub(too_big);
    let missed = ByCause::from([(Cause::FrameTooLarge, too_big), (Cause::InterfaceDrop, others)]);
    lanes.consumers = vec![Consumer { name: "balance".into(), delivered, late: 0, missed }];
    lanes
}

/// What happened since `before`, on one line.
pub fn line(now: &Ledger, before: &Ledger, elapsed: Duration) -> String {
    let rate = |now: u64, before: u64| {
        scaled(now.saturating_sub(before) as f64 / elapsed.as_secs_f64().max(1e-3))
    };
    let answered =
        |ledger: &Ledger| sum([Count::Echo, Count::Answered].map(|one| ledger.total(one)));
    let forwarded = |ledger: &Ledger| ledger.total(Count::Forwarded);
    let live = now.vips.iter().flat_map(|vip| &vip.reals).map(|real| real.live_flows);
    format!(
        "{}frames/s  forwarded {}/s  answered {}/s  dropped {}/s{}  passed {}/s  flows {}  \
         forwarded so far {}",
        rate(now.received, before.received),
        rate(forwarded(now), forwarded(before)),
        rate(answered(now), answered(before)),
        rate(now.dropped(), before.dropped()),
        most_dropped(now, before),
        rate(now.passed, before.passed),
        grouped(sum(live)),
        grouped(forwarded(now)),
    )
}

/// For what reason most frames were dropped, in parentheses.
fn most_dropped(now: &Ledger, before: &Ledger) -> String {
    let drops = Count::EACH.into_iter().filter(|count| count.is_drop());
    let grown = drops.map(|count| (now.total(count).saturating_sub(before.total(count)), count));
    match grown.max_by_key(|(more, _)| *more).filter(|(more, _)| *more > 0) {
        Some((_, count)) => format!(" (most: {})", count.name()),
        None => String::new(),
    }
}

/// A table of reals, and what became of the rest.
pub fn text(ledger: &Ledger) -> String {
    let mut rows = Vec::new();
    for vip in &ledger.vips {
        for real in &vip.reals {
            let set = if real.is_set { " (set)" } else { "" };
            let state = format!("{}{set}{}", real.state, bad_health(real));
            let words = [vip.name.clone(), real.address.to_string(), state];
            let weight = real.weight.map_or_else(|| "-".to_owned(), |weight| weight.to_string());
            let numbers = [real.frames, real.bytes, real.live_flows].map(grouped);
            rows.push(words.into_iter().chain([weight]).chain(numbers).collect());
        }
        if vip.removed_frames > 0 {
            let words = [&vip.name, "removed", "-", "-"].map(str::to_owned);
            let numbers = [vip.removed_frames, vip.removed_bytes].map(grouped);
            rows.push(words.into_iter().chain(numbers).chain(["-".to_owned()]).collect());
        }
    }
    let head = ["VIP", "real", "state", "weight", "frames", "bytes", "flows"];
    let mut text = columns::text(&head, &rows);
    text.push('\n');
    let fates = Count::EACH.into_iter().take(Count::FATES);
    let rows: Vec<Vec<String>> = fates
        .map(|count| (count, ledger.total(count)))
        .filter(|(count, frames)| *frames > 0 || *count == Count::Forwarded)
        .map(|(count, frames)| {
            let what = if count.is_drop() { "dropped: " } else { "" };
            vec![format!("{what}{}", count.name()), grouped(frames)]
        })
        .chain([vec!["passed to the host".into(), grouped(ledger.passed)]])
        .chain([vec!["received".into(), grouped(ledger.received)]])
        .collect();
    text.push_str(&columns::text(&["frames of all VIPs", ""], &rows));
    if ledger.removed.vips > 0 {
        let frames = ledger.removed.counts.get(Count::Forwarded.name()).copied().unwrap_or(0);
        text.push_str(&format!(
            "\nof these, VIPs that were removed: {}, forwarded {}\n",
            grouped(ledger.removed.vips),
            grouped(frames)
        ));
    }
    text
}

/// Why a real does not answer, if it is asked and does not.
fn bad_health(real: &RealLedger) -> String {
    match &real.health {
        Some(health) if !health.is_up => format!(": {}", health.last),
        Some(health) if health.last.starts_with("not asked") => format!(", {}", health.last),
        _ => String::new(),
    }
}

/// The account of the end of tunnels as a ledger: what was unpacked goes on to the host, as all
/// that passes.
pub fn decap_lanes(ledger: &DecapLedger) -> ringside_core::Ledger {
    let lane = LaneCounters {
        interface: ledger.interface.clone(),
        received: Some(ledger.received),
        taken: sum([ledger.unpacked, ledger.dropped()]),
        passed: ledger.passed,
        filtered: Some(0),
        in_flight: Some(0),
        ..LaneCounters::default()
    };
    let mut lanes = ringside_core::Ledger::from_lanes(vec![lane]);
    let missed = ByCause::from([(Cause::InterfaceDrop, ledger.dropped())]);
    let (name, delivered) = ("decap".into(), ledger.unpacked);
    lanes.consumers = vec![Consumer { name, delivered, late: 0, missed }];
    lanes
}

/// What happened at the end of tunnels since `before`, on one line.
pub fn decap_line(now: &DecapLedger, before: &DecapLedger, elapsed: Duration) -> String {
    let rate = |count: fn(&DecapLedger) -> u64| {
        let frames = count(now).saturating_sub(count(before));
        scaled(frames as f64 / elapsed.as_secs_f64().max(1e-3))
    };
    format!(
        "{}frames/s  unpacked {}/s  passed {}/s  dropped {}/s  unpacked so far {}",
        rate(|ledger| ledger.received),
        rate(|ledger| ledger.unpacked),
        rate(|ledger| ledger.passed),
        rate(DecapLedger::dropped),
        grouped(now.unpacked),
    )
}

/// The account of the end of tunnels.
pub fn decap_text(ledger: &DecapLedger) -> String {
    let DecapLedger { interface, received, passed, unpacked, congested, no_room } = ledger;
    let row = vec![interface.clone()].into_iter();
    let row = row.chain([*received, *unpacked, *passed, *congested, *no_room].map(grouped));
    let head =
        ["came in by", "received", "unpacked", "passed", "dropped: congested", "dropped: no_room"];
    columns::text(&head, &[row.collect()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_balancer::{HealthLedger, Removed, VipLedger};
    use std::collections::BTreeMap;

    fn ledger() -> Ledger {
        let counts = |all: &[(Count, u64)]| -> BTreeMap<String, u64> {
            all.iter().map(|(count, frames)| (count.name().to_owned(), *frames)).collect()
        };
        let real = RealLedger {
            serial: 2,
            address: "10.0.0.1".parse().unwrap(),
            state: "draining".into(),
            weight: Some(3),
            is_set: true,
            health: Some(HealthLedger { last: "status 503".into(), ..HealthLedger::default() }),
            frames: 1_000,
            bytes: 64_000,
            live_flows: 12,
        };
        let all = [(Count::Forwarded, 1_005), (Count::NoReal, 2), (Count::TooBig, 1)];
        let vip = VipLedger {
            serial: 1,
            name: "web".into(),
            counts: counts(&all),
            reals: vec![real],
            removed_frames: 5,
            removed_bytes: 320,
        };
        let removed =
            Removed { vips: 1, counts: counts(&[(Count::Echo, 4)]), ..Removed::default() };
        let (received, vips) = (1_019, vec![vip]);
        Ledger { interface: "eth1".into(), received, passed: 7, vips, removed }
    }

    #[test]
    fn every_frame_is_in_the_ledger() {
        let ledger = ledger();
        assert_eq!(ledger.balance(), Ok(()));
        let lanes = lanes(&ledger);
        assert_eq!(lanes.balance(), Ok(()), "{lanes:#?}");
        assert_eq!((lanes.received, lanes.taken, lanes.passed), (Some(1_019), 1_012, 7));
        assert_eq!(lanes.consumers[0].missed[&Cause::FrameTooLarge], 1);
        let end =
            DecapLedger { received: 9, passed: 1, unpacked: 6, no_room: 2, ..Default::default() };
        assert_eq!((end.balance(), decap_lanes(&end).balance()), (Ok(()), Ok(())));
    }

    #[test]
    fn reals_are_shown_with_what_was_set_and_what_is_gone() {
        let said = text(&ledger());
        for words in ["draining (set): status 503", "1,000", "removed", "dropped: no_real", "1,019"]
        {
            assert!(said.contains(words), "{said}");
        }
        assert!(said.contains("VIPs that were removed: 1"), "{said}");
        let line = line(&ledger(), &Ledger::default(), Duration::from_secs(1));
        assert!(line.contains("(most: no_real)") && line.ends_with("so far 1,005"), "{line}");
        let end = DecapLedger { received: 9, unpacked: 6, ..DecapLedger::default() };
        let said = decap_text(&end) + &decap_line(&end, &end, Duration::from_secs(1));
        assert!(said.contains("no_room") && said.ends_with("unpacked so far 6"), "{said}");
    }
}
