//! The account of transactions, for people and programs.

use crate::logs::{Account, stream_bytes, stream_losses, written};
use ringside_http::{Ending, HttpStatus};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::counted;

/// The account.
pub fn account(status: &HttpStatus) -> Account<'_> {
    Account {
        of: "transaction",
        frames: status.frames,
        text: text(status),
        json: status.json(),
        balances: status.balances,
        logs: &status.logs,
    }
}

/// The account as lines.
fn text(status: &HttpStatus) -> String {
    let (mut out, ledger, streams) = (String::new(), &status.ledger, &status.streams);
    let messages = format!(
        "of {} and {}",
        counted(ledger.requests, "request"),
        counted(ledger.responses, "response")
    );
    count(&mut out, "transactions", ledger.begun, &messages);
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
        ("  heads", ledger.head_bytes, "of messages"),
        ("  bodies", ledger.body_bytes, "contents of messages"),
        ("  framing", ledger.framing_bytes, "around chunks"),
        ("  tunnelled", ledger.tunnel_bytes, "behind CONNECT or an upgrade"),
        ("  unread", ledger.unread_bytes, "of HTTP, where no message was found"),
        ("  not http", ledger.not_http_bytes, "of other protocols"),
    ];
    for (name, bytes, note) in parts.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        count(&mut out, name, bytes, note);
    }
    stream_losses(&mut out, streams);
    let why = "transactions without request or response, which the format cannot say";
    written(&mut out, &status.logs, why);
    out
}

fn meaning(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "with all of the response",
        Ending::Tunnel => "the connection went on as something else",
        Ending::RequestUnseen => "with all of the response; the request was not seen",
        Ending::HeadersOnly => "bodies were not looked at",
        Ending::Closed => "the connection ended before the response did",
        Ending::Reset => "the connection was reset before",
        Ending::Reused => "another connection took the ports before",
        Ending::Idle => "nothing came any more",
        Ending::Displaced => "another connection needed the place",
        Ending::Forced => "there was nothing more to see",
        Ending::Lost => "bytes of the response are missing, and where it ends",
        Ending::NotHttp => "what came where a response should be is not HTTP",
        Ending::NoRoom => "there was no room to wait for the response",
    }
}
