//! The account of calls, for people and programs.

use ringside_calls::{CallsStatus, Ending};
use ringside_terminal::ledger_text::count;
use ringside_terminal::say;
use ringside_terminal::units::grouped;
use std::io;

/// Shows the account; true if it balances, holds all of `delivered` frames, and every call is
/// written.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish(status: &CallsStatus, json: bool, delivered: Option<u64>) -> io::Result<bool> {
    say::message(account(status).trim_end());
    let is_whole = delivered.is_none_or(|delivered| delivered == status.ledger.frames);
    if !is_whole {
        let delivered = grouped(delivered.unwrap_or_default());
        say::message(format_args!("the run delivered {delivered} frames to the calls"));
    }
    if let Some(error) = &status.error {
        say::message(format_args!("ringside: calls could not be written ({error})"));
    }
    let balances = status.balances && is_whole;
    say::message(match balances {
        true => "the account of calls balances",
        false => "the account of calls does not balance",
    });
    if json {
        say::data(serde_json::json!({ "account": status.json() }))?;
    }
    Ok(balances && status.error.is_none())
}

/// The account as lines.
fn account(status: &CallsStatus) -> String {
    let (mut out, ledger) = (String::new(), &status.ledger);
    count(&mut out, "calls", ledger.begun, "with streams of media that no call announced");
    for ending in Ending::ALL {
        let ended = ledger.ended[ending.index()];
        if ended > 0 {
            count(&mut out, &format!("  {}", ending.name()), ended, meaning(ending));
        }
    }
    let messages = ledger.sip_udp + ledger.sip_tcp;
    let parts = [
        ("  self calls", ledger.self_calls, "of someone to themselves, not given out"),
        ("SIP messages", messages, "over UDP and TCP"),
        ("  of calls", ledger.in_calls, "in the calls above"),
        ("  OPTIONS", ledger.options, "noise"),
        ("  REGISTER", ledger.registers, "phones that say where they are"),
        ("  other", ledger.other_methods, "outside calls"),
        ("  without call", ledger.without_call, "of calls whose beginning was not seen"),
        ("malformed", ledger.sip_malformed_udp, "datagrams for SIP that are none"),
        ("keepalives", ledger.keepalives, "empty lines for SIP"),
        ("RTP packets", ledger.rtp, "of streams"),
        ("  no room", ledger.rtp_without_room, "of streams that there was no room for"),
        ("  unconfirmed", ledger.unconfirmed, "that may be anything"),
        ("RTCP packets", ledger.rtcp, "of streams"),
        ("other media", ledger.other_media, "where calls have media: STUN, DTLS, fax"),
        ("other UDP", ledger.other_udp, "of other protocols"),
        ("endpoints", ledger.endpoints_left_out, "of media that there was no room for"),
    ];
    for (name, number, note) in parts.into_iter().filter(|(_, number, _)| *number > 0) {
        count(&mut out, name, number, note);
    }
    out
}

fn meaning(ending: Ending) -> &'static str {
    match ending {
        Ending::HungUp => "answered, and a party hung up",
        Ending::Cancelled => "the caller gave up before an answer",
        Ending::Rejected => "the callee's side refused it",
        Ending::Redirected => "the callee is elsewhere",
        Ending::Challenged => "a password was asked for, and none came",
        Ending::Unanswered => "nothing came any more before an answer",
        Ending::Silent => "answered, and nothing came any more",
        Ending::Displaced => "another call needed the place",
        Ending::Forced => "there was nothing more to see",
        Ending::Media => "media that no call announced",
    }
}
