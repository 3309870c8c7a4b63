//! The account of a replay for people, while it runs and at its end.

use ringside_core::LinkType;
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{grouped, scaled};
use ringside_transmit::replay::{Ended, OVERDUE_NS, Progress, ReplayReport, Unsendable};
use std::fmt::Write;
use std::time::Duration;

/// The live line, with the rates since the first frame could be sent, `elapsed` ago.
pub fn line(so_far: &Progress, planned: Option<u64>, elapsed: Duration) -> String {
    let of = planned.map(|frames| format!(" of {}", grouped(frames))).unwrap_or_default();
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (frames, bytes) = (so_far.accepted(), so_far.accepted_bytes() as f64);
    format!(
        "{}frames/s  {}bit/s  sent {}{of} ({}B)  refused {}",
        scaled(frames as f64 / seconds),
        scaled(bytes * 8.0 / seconds),
        grouped(frames),
        scaled(bytes),
        grouped(so_far.refused()),
    )
}

/// What was read and became of it, line by line.
pub fn text(done: &ReplayReport, interface: &str) -> String {
    let mut out = String::new();
    before(&mut out, done);
    let seconds = done.elapsed_ns as f64 / 1e9;
    let per_sec = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let note = format!(
        "taken by {interface}, {}B in {seconds:.3} s, {}frames/s, {}bit/s{}",
        scaled(done.accepted_bytes as f64),
        scaled(per_sec(done.accepted)),
        scaled(per_sec(done.accepted_bytes) * 8.0),
        match done.ended {
            Ended::Done => "",
            Ended::Time => ", ended by --for",
            Ended::Stopped => ", stopped",
            Ended::Failed => ", ended by an error",
        }
    );
    count(&mut out, "offered", done.offered, "");
    count(&mut out, "  accepted", done.accepted, &note);
    let refused = &done.refused;
    for (frames, note) in [
        (refused.no_room, "the driver had no room"),
        (refused.too_long, "longer than the interface takes"),
        (refused.interface_down, "the interface was down or gone"),
        (refused.other, "for another cause"),
    ] {
        some(&mut out, "  refused", frames, note);
    }
    some(&mut out, "again", done.offered_again, "times a frame was offered again for want of room");
    counted(&mut out, done, interface);
    times(&mut out, done);
    out
}

fn before(out: &mut String, done: &ReplayReport) {
    let counts = &done.counts;
    count(out, "read", counts.read, "frames");
    some(out, "  outside", counts.outside_range, "outside the range of time");
    some(out, "  filtered", counts.filtered, "did not match the filter");
    skipped(out, &counts.skipped);
    some(out, "  not sent", done.not_sent, "were ready when it ended");
    some(out, "  cut", counts.cut, "were cut by the capture and sent as they are");
    some(out, "  padded", counts.padded, "were cut by the capture and filled up with zeros");
    some(out, "  mapped", counts.mapped, "had an address that was changed");
    some(out, "  backwards", counts.backwards, "were stamped before an earlier one: sent at once");
    some(out, "  no time", counts.without_time, "had no stamp: sent at once");
}

fn skipped(out: &mut String, skipped: &Unsendable) {
    for (&link, &frames) in &skipped.link_types {
        let name = LinkType(link).name().unwrap_or("unknown");
        some(out, "  skipped", frames, &format!("of link type {name} ({link})"));
    }
    some(out, "  skipped", skipped.cut, "were cut by the capture");
    some(out, "  skipped", skipped.too_short, "shorter than an Ethernet header");
    some(out, "  skipped", skipped.too_long, "longer than the interface takes");
}

/// What the interface itself says, where it says something else.
fn counted(out: &mut String, done: &ReplayReport, interface: &str) {
    if interface.starts_with(ringside_dpdk::PREFIX) {
        return;
    }
    let Some(counts) = done.interface else {
        let _ = writeln!(out, "{interface} is gone, and what it counted with it");
        return;
    };
    if counts.tx_packets != done.accepted {
        let note = format!("counted by {interface} as sent, others' frames included");
        count(out, "interface", counts.tx_packets, &note);
    }
    let note = format!("counted by {interface} as dropped, which nobody was told of");
    some(out, "dropped", done.dropped_untold(), &note);
}

fn times(out: &mut String, done: &ReplayReport) {
    let Some(timing) = done.timing.filter(|timing| timing.frames > 0) else { return };
    let micros = |ns: u64| ns as f64 / 1e3;
    let _ = writeln!(
        out,
        "time off      p50 {:.1} us, p99 {:.1} us, at most {:.1} us",
        micros(timing.p50_ns),
        micros(timing.p99_ns),
        micros(timing.max_ns),
    );
    let limit = OVERDUE_NS / 1_000_000;
    some(out, "overdue", timing.overdue, &format!("left more than {limit} ms after their time"));
    some(out, "  unread", timing.overdue_for_input, "of these were read too late");
}

fn some(out: &mut String, name: &str, frames: u64, note: &str) {
    if frames > 0 {
        count(out, name, frames, note);
    }
}
