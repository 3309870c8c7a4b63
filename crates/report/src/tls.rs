//! The account of TLS handshakes, for people and programs.

use crate::logs::{Account, stream_bytes, stream_losses, written};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::grouped;
use ringside_tls::{Ending, QuicLedger, TlsStatus};

/// The account.
pub fn account(status: &TlsStatus) -> Account<'_> {
    Account {
        of: "handshake",
        frames: status.frames,
        text: text(status),
        json: status.json(),
        balances: status.balances,
        logs: &status.logs,
    }
}

/// The account as lines.
fn text(status: &TlsStatus) -> String {
    let (mut out, ledger, streams) = (String::new(), &status.ledger, &status.streams);
    let hellos = [ledger.client_hellos, ledger.server_hellos].map(grouped);
    let hellos = format!("hellos of clients: {}, of servers: {}", hellos[0], hellos[1]);
    count(&mut out, "handshakes", ledger.begun, &hellos);
    for ending in Ending::ALL {
        let ended = ledger.ended[ending.index()];
        if ended > 0 {
            count(&mut out, &format!("  {}", ending.name()), ended, meaning(ending));
        }
    }
    if status.open > 0 {
        count(&mut out, "  open", status.open, "not over");
    }
    stream_bytes(&mut out, streams);
    let parts = [
        ("  handshakes", ledger.handshake_bytes, "that were read"),
        ("  after", ledger.after_bytes, "behind what is not encrypted"),
        ("  not tls", ledger.not_tls_bytes, "of other protocols"),
    ];
    for (name, bytes, note) in parts.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        count(&mut out, name, bytes, note);
    }
    stream_losses(&mut out, streams);
    quic(&mut out, &status.quic);
    written(&mut out, &status.logs, "");
    out
}

/// The account of QUIC, where there was some.
fn quic(out: &mut String, ledger: &QuicLedger) {
    let all = [ledger.with_initials, ledger.retries, ledger.version_negotiations];
    if all.iter().all(|datagrams| *datagrams == 0) {
        return;
    }
    count(out, "datagrams", ledger.datagrams, "of UDP");
    let parts = [
        ("  with initials", ledger.with_initials, "with Initial packets of QUIC"),
        ("  retries", ledger.retries, "the server wants the client to begin again"),
        ("  other version", ledger.version_negotiations, "the server does not have the version"),
        ("  other", ledger.other, "encrypted with other keys, or of other protocols"),
        ("initial packets", ledger.initials, ""),
        ("  read", ledger.read, ""),
        ("  after", ledger.after, "behind what can be read"),
        ("  undecryptable", ledger.undecryptable, "their beginning was not seen, or damaged"),
        ("  cut", ledger.cut, "not captured whole"),
        ("  malformed", ledger.malformed, ""),
    ];
    for (name, number, note) in parts.into_iter().filter(|(_, number, _)| *number > 0) {
        count(out, name, number, note);
    }
}

fn meaning(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "all that is not encrypted was seen",
        Ending::Alert => "an alert ended it",
        Ending::Closed => "the connection ended before",
        Ending::Reset => "the connection was reset before",
        Ending::Reused => "another connection took the ports before",
        Ending::Idle => "nothing came any more",
        Ending::Displaced => "another connection needed the place",
        Ending::Forced => "there was nothing more to see",
        Ending::Lost => "bytes of it are missing",
        Ending::OtherVersion => "the server does not have the version of QUIC",
        Ending::NotTls => "what came is no handshake, or longer than any",
        Ending::NoRoom => "there was no memory to wait for the answer",
    }
}
