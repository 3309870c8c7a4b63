//! The account of DNS transactions, for people and programs.

use crate::logs::{Account, stream_bytes, stream_losses, written};
use ringside_dns::{DnsStatus, Ending};
use ringside_terminal::ledger_text::count;
use ringside_terminal::units::grouped;

/// The account.
pub fn account(status: &DnsStatus) -> Account<'_> {
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
fn text(status: &DnsStatus) -> String {
    let (mut out, ledger, streams) = (String::new(), &status.ledger, &status.streams);
    let kinds = [ledger.queries, ledger.responses].map(grouped);
    let kinds = format!("queries: {}, answers: {}", kinds[0], kinds[1]);
    count(&mut out, "messages", ledger.messages, &kinds);
    let parts = [
        ("  in transactions", ledger.in_transactions, "that are over"),
        ("  retransmitted", ledger.retransmitted, "of these: queries that came again"),
        ("  continued", ledger.continued, "behind the first of a zone transfer"),
        ("  malformed", ledger.malformed, "at a port of DNS, and no messages"),
        ("  cut", ledger.cut, "too little was captured of them"),
    ];
    for (name, messages, note) in parts.into_iter().filter(|(_, messages, _)| *messages > 0) {
        count(&mut out, name, messages, note);
    }
    count(&mut out, "transactions", ledger.begun, "queries with or without answers, and the rest");
    for ending in Ending::ALL {
        let ended = ledger.ended[ending.index()];
        if ended > 0 {
            count(&mut out, &format!("  {}", ending.name()), ended, meaning(ending));
        }
    }
    if status.open > 0 {
        count(&mut out, "  open", status.open, "not over");
    }
    if streams.received_bytes > 0 {
        stream_bytes(&mut out, streams);
        let parts = [
            ("  messages", ledger.message_bytes, "of DNS"),
            ("  framing", ledger.framing_bytes, "lengths before messages"),
            ("  unread", ledger.unread_bytes, "of DNS, where no message was found"),
            ("  not dns", ledger.not_dns_bytes, "of other protocols"),
        ];
        for (name, bytes, note) in parts.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
            count(&mut out, name, bytes, note);
        }
        stream_losses(&mut out, streams);
    }
    written(&mut out, &status.logs, "");
    out
}

fn meaning(ending: Ending) -> &'static str {
    match ending {
        Ending::Answered => "queries with their answers",
        Ending::TimedOut => "queries: no answer came within 10 s",
        Ending::IdReused => "queries: another one took the id before an answer came",
        Ending::Displaced => "queries: another one needed the place",
        Ending::Forced => "queries: there was nothing more to see",
        Ending::QueryUnseen => "answers: their query was not seen",
        Ending::AnsweredBefore => "answers: their query had been answered",
        Ending::OtherQuestion => "answers: to another question than the one that waits",
        Ending::Multicast => "messages for everybody, which nothing pairs",
    }
}
