//! The account of a relay for people, while it runs and at its end.

use ringside_core::Refusal;
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::{grouped, scaled};
use ringside_transmit::relay::{NotRelayed, RelayReport};

/// The live line.
pub fn line(so_far: &RelayReport) -> String {
    format!(
        "received {}  whole {}  cut {} into {}  not relayed {}",
        grouped(so_far.received),
        grouped(so_far.whole),
        grouped(so_far.cut),
        grouped(so_far.segments),
        grouped(so_far.not_relayed_total()),
    )
}

/// What became of the frames that were received, line by line.
pub fn text(done: &RelayReport, interface: &str) -> String {
    let mut out = String::new();
    let into = format!("into {} frames", grouped(done.segments));
    count(&mut out, "whole", done.whole, "sent on as they were");
    count(&mut out, "cut", done.cut, &into);
    for (&cause, &frames) in &done.not_relayed {
        count(&mut out, "not relayed", frames, meaning(cause));
    }
    if done.not_offered > 0 {
        let note = "found no room for a second, or the interface had failed";
        count(&mut out, "not offered", done.not_offered, note);
    }
    let sent = &done.sent;
    let seconds = done.elapsed_ns as f64 / 1e9;
    let bytes = format!("{}B in {seconds:.3} s", scaled(sent.offered_bytes as f64));
    count(&mut out, "offered", sent.offered, &bytes);
    count(&mut out, "  accepted", sent.accepted, &format!("taken by {interface}"));
    for (&cause, &frames) in sent.refused.iter().filter(|(_, frames)| **frames > 0) {
        let note = match cause {
            Refusal::NoRoom => "the driver had no room",
            other => other.name(),
        };
        count(&mut out, "  refused", frames, note);
    }
    if !done.is_balanced() {
        out.push_str("this account does not balance: a bug of ringside, please report it\n");
    }
    out
}

fn meaning(cause: NotRelayed) -> &'static str {
    match cause {
        NotRelayed::LinkType => "not Ethernet",
        NotRelayed::TooShort => "shorter than an Ethernet header",
        NotRelayed::Truncated => "bytes of them are missing",
        NotRelayed::Malformed => "too long, and their headers contradict themselves",
        NotRelayed::Protocol => "too long, and neither TCP nor UDP",
        NotRelayed::Fragment => "too long, and fragments already",
        NotRelayed::DontFragment => "too long, UDP with DF or over IPv6",
        NotRelayed::FragmentsOff => "too long, UDP (--fragment ipv4 cuts it)",
        NotRelayed::NotDivisible => "too long, and of one frame only: SYN, RST, URG, signatures",
        NotRelayed::BadChecksum => "too long, with a wrong checksum",
        NotRelayed::HeadersTooLong => "too long, with headers that leave no room",
        NotRelayed::SinkFailed => "came after the sending interface had failed",
    }
}
