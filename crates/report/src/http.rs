//! The account of transactions, for people and programs.

use ringside_http::{Ending, HttpStatus};
use ringside_streams::Cause;
use ringside_terminal::ledger_text::count;
use ringside_terminal::say;
use ringside_terminal::units::{counted, grouped};
use std::io;

/// Shows the account; true if it balances, holds all of `delivered` frames, and every transaction
/// is in the log.
///
/// # Errors
/// Standard output cannot be written.
pub fn finish(status: &HttpStatus, json: bool, delivered: Option<u64>) -> io::Result<bool> {
    say::message(account(status).trim_end());
    let is_whole = delivered.is_none_or(|delivered| delivered == status.frames);
    if !is_whole {
        let delivered = grouped(delivered.unwrap_or_default());
        say::message(format_args!("the run delivered {delivered} frames to the transactions"));
    }
    let mut is_written = true;
    for (name, counts, error) in &status.logs {
        if counts.write_failed > 0 {
            let lines = counted(counts.write_failed, "transaction");
            let why = error.as_deref().unwrap_or("writing failed");
            say::message(format_args!("ringside: {name}: {lines} could not be written ({why})"));
            is_written = false;
        }
    }
    let balances = status.balances && is_whole;
    say::message(match balances {
        true => "the account of transactions balances",
        false => "the account of transactions does not balance",
    });
    if json {
        say::data(serde_json::json!({ "account": status.json() }))?;
    }
    Ok(balances && is_written)
}

/// The account as lines.
fn account(status: &HttpStatus) -> String {
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
    let segments = counted(streams.data_segments, "segment");
    let connections = counted(streams.connections, "connection");
    count(
        &mut out,
        "stream bytes",
        streams.received_bytes,
        &format!("of {segments} of {connections}"),
    );
    let parts = [
        ("  heads", ledger.head_bytes, "of messages"),
        ("  bodies", ledger.body_bytes, "contents of messages"),
        ("  framing", ledger.framing_bytes, "around chunks"),
        ("  tunnelled", ledger.tunnel_bytes, "behind CONNECT or an upgrade"),
        ("  unread", ledger.unread_bytes, "of HTTP, where no message was found"),
        ("  not http", ledger.not_http_bytes, "of other protocols"),
        ("  repeated", streams.repeated_bytes, "sent again, or behind their gap"),
        ("  cut", streams.cut_bytes, "not captured"),
        ("  out of window", streams.out_of_window_bytes, "that no host takes"),
        ("  after end", streams.after_end_bytes, "of connections that were over"),
    ];
    for (name, bytes, note) in parts.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        count(&mut out, name, bytes, note);
    }
    for cause in Cause::ALL {
        let (gaps, bytes) = (streams.gaps[cause.index()], streams.gap_bytes[cause.index()]);
        if bytes > 0 {
            let note = format!("bytes missing in {}: {}", counted(gaps, "gap"), cause.name());
            count(&mut out, "gaps", bytes, &note);
        }
    }
    for (name, counts, _) in &status.logs {
        count(&mut out, "  written", counts.delivered, &format!("lines: {name}"));
        if counts.inexpressible > 0 {
            let note = "transactions without request or response, which the format cannot say";
            count(&mut out, "  inexpressible", counts.inexpressible, note);
        }
    }
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
