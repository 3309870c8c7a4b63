//! A transaction as a line for people.

use crate::transaction::{Ending, Transaction};
use crate::words::{class, opcode, rcode, rtype};
use ringside_record::text_of_time;
use std::fmt::Write;

const TIME: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";
/// Data of answers in a line; the others are counted.
const SHOWN_MAX: usize = 8;

/// `TIME PROTOCOL CLIENT > SERVER ID TYPE NAME RESULT LATENCY DATA`, and how it ended unless it was
/// answered.
pub fn text(transaction: &Transaction) -> String {
    let time = text_of_time(transaction.first_ns(), TIME);
    let (protocol, transport) = (transaction.protocol.name(), transaction.transport.name());
    let [client, server] = [transaction.client, transaction.server].map(std::net::SocketAddr::from);
    let (id, time) = (transaction.id, time.as_str().unwrap_or("-"));
    let mut out = format!("{time} {protocol}/{transport} {client} > {server} {id}");
    if transaction.opcode() != 0 {
        let _ = write!(out, " {}", opcode(transaction.opcode()));
    }
    match &transaction.question {
        Some(question) if question.class == 1 => {
            let _ = write!(out, " {} {}", rtype(question.qtype), question.name);
        }
        Some(question) => {
            let (class, kind) = (class(question.class), rtype(question.qtype));
            let _ = write!(out, " {class} {kind} {}", question.name);
        }
        None => out.push_str(" - -"),
    }
    if transaction.ending != Ending::Answered {
        let _ = write!(out, " ({})", transaction.ending.name());
    }
    if let Some(query) = transaction.query.filter(|query| query.retransmissions > 0) {
        let _ = write!(out, " sent {} times", u64::from(query.retransmissions) + 1);
    }
    let Some(response) = &transaction.response else { return out };
    let _ = write!(out, " {}", rcode(response.rcode));
    if let Some(latency_ns) = transaction.latency_ns() {
        let micros = latency_ns / 1_000;
        let _ = write!(out, " {}.{:03}ms", micros / 1_000, micros % 1_000);
    }
    for (index, answer) in response.answers.iter().take(SHOWN_MAX).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(out, "{comma} {} {}", rtype(answer.rtype), answer.data);
    }
    if response.answers.len() > SHOWN_MAX {
        let _ = write!(out, ", and {} more", response.answers.len() - SHOWN_MAX);
    }
    out
}
