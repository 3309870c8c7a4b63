//! Flows that the kernel adds up: what its caches did.

use super::{Shown, finish};
use ringside_flow::TopOptions;
use ringside_session::{MeterReport, MeteringReport};
use ringside_terminal::ledger_text::count;
use ringside_terminal::say;
use ringside_terminal::units::{counted, grouped};
use std::io;

/// Header that drivers of virtual interfaces leave out of their counts.
const ETHERNET_BYTES: u64 = 14;

/// Says what a run of caches did; true if nothing is missing.
///
/// # Errors
/// Standard output cannot be written.
pub fn tell_metered(top: &TopOptions, shown: Shown, report: &MeteringReport) -> io::Result<bool> {
    let taken = report.ledger.taken;
    if shown.is_json() {
        for cache in &report.caches {
            say::data(serde_json::json!({ "cache": cache.json() }))?;
        }
    }
    let mut balances = finish(top, shown, &report.flows, Some(taken))?;
    for cache in &report.caches {
        say::message(cache_text(cache).trim_end());
        if !cache.ledger.balances() {
            say::message(format_args!("the cache of {} does not balance", cache.interface));
            balances = false;
        }
    }
    Ok(balances)
}

/// The account of a cache, as lines.
fn cache_text(cache: &MeterReport) -> String {
    let (mut out, ledger, status) = (String::new(), &cache.ledger, &cache.status);
    let seen = cache.seen();
    count(&mut out, &format!("cache {}", cache.interface), seen.packets, &counted_by(cache));
    let room = format!("entries in use at most, of {}", grouped(status.entries_max as u64));
    count(&mut out, "  entries", status.entries, &room);
    count(&mut out, "  evicted", status.evicted, "entries, for other flows: their sums went up");
    count(&mut out, "  handed up", status.handed_up, "packets that the program does not read");
    count(&mut out, "  no room", ledger.no_room.packets, "packets lost on their way up");
    out
}

/// What the interface says of what the cache has seen.
fn counted_by(cache: &MeterReport) -> String {
    let (ledger, seen) = (&cache.ledger, cache.seen());
    let bytes = counted(seen.octets, "byte");
    let Some(interface) = ledger.interface else {
        return format!("packets of {bytes}; the interface is gone");
    };
    let mut counted_there = interface.received;
    if ledger.sent.packets > 0 {
        counted_there += interface.sent;
    }
    if counted_there == seen {
        return format!("packets of {bytes}, as the interface counted");
    }
    let without_headers = counted_there.octets + ETHERNET_BYTES * seen.packets;
    if (counted_there.packets, without_headers) == (seen.packets, seen.octets) {
        return format!("packets of {bytes}, as the interface counted without Ethernet headers");
    }
    let (packets, there) = (grouped(counted_there.packets), counted(counted_there.octets, "byte"));
    format!("packets of {bytes}; the interface counted {packets} of {there}")
}

/// Says what a dead worker left, and what is lost with it.
///
/// # Errors
/// Standard output cannot be written.
pub fn tell_of_dead(shown: Shown, caches: &[MeterReport], reason: &str) -> io::Result<()> {
    let of = |octets| format!("packets of {}", counted(octets, "byte"));
    for cache in caches {
        let (seen, ledger) = (cache.seen(), &cache.ledger);
        let (exported, lost) = (cache.exported_before(), cache.lost_with_worker());
        let mut out = String::new();
        count(&mut out, &format!("cache {}", cache.interface), seen.packets, &of(seen.octets));
        count(&mut out, "  exported", exported.packets, &of(exported.octets));
        let note = of(lost.octets) + " in flows that had no record yet";
        count(&mut out, "  lost", lost.packets, &note);
        count(&mut out, "  in no flow", cache.in_no_flow().packets, "without IP, or unreadable");
        count(&mut out, "  no room", ledger.no_room.packets, "packets lost on their way up");
        say::message(out.trim_end());
        if shown.is_json() {
            let mut line = serde_json::json!({ "cache": cache.json_of_dead() });
            line["closed_by"] = "keeper".into();
            line["reason"] = reason.into();
            say::data(line)?;
        }
    }
    Ok(())
}
