//! The account of TLS handshakes, for people and programs.

use crate::logs::{Account, stream_bytes, stream_losses, written};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::grouped;
use ringside_tls::{Ending, TlsStatus};

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
    written(&mut out, &status.logs, "");
    out
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
        Ending::NotTls => "what came is no handshake, or longer than any",
        Ending::NoRoom => "there was no memory to wait for the answer",
    }
}
