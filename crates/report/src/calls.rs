//! The account of calls, for people and programs.

use crate::logs::{Account, written};
use ringside_calls::{CallsStatus, Ending, KernelStatus};
use ringside_terminal::ledger_text::count;

/// The account.
pub fn account(status: &CallsStatus) -> Account<'_> {
    Account {
        of: "call",
        frames: status.ledger.frames,
        text: text(status),
        json: status.json(),
        balances: status.balances,
        logs: &status.logs,
    }
}

/// The account as lines.
fn text(status: &CallsStatus) -> String {
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
    if let Some(kernel) = &status.kernel {
        of_kernel(&mut out, kernel);
    }
    written(&mut out, &status.logs, "");
    out
}

/// What was counted in drivers.
fn of_kernel(out: &mut String, kernel: &KernelStatus) {
    count(out, "in the kernel", kernel.frames, "frames that the programs in drivers saw");
    let parts = [
        ("  counted", kernel.counted, "RTP packets of streams, which went nowhere else"),
        ("  others", kernel.other, "frames that are no media of a call"),
        ("  no room", kernel.no_room, "RTP packets of more streams than a rule has room for"),
        ("  busy", kernel.busy, "RTP packets of a rule that another CPU had for too long"),
        ("  stalled", kernel.stalled, "RTP packets while no process read the counters"),
        ("rules", kernel.added, "for endpoints of media, that came and went with calls"),
        ("  refused", kernel.refused, "endpoints whose media were counted in user space"),
    ];
    for (name, number, note) in parts.into_iter().filter(|(_, number, _)| *number > 0) {
        count(out, name, number, note);
    }
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
