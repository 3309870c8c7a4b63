//! Mutated messages: no parser panics, hangs or takes back what it said.

use super::judges;
use super::rows::rows;
use crate::support::{DNS, DNS_TCP, HTTP1, Protocol, SIP, TLS, check_prefixes, messages};
use ringside_proto::Outcome;
use ringside_proto::dns::{Labels, Message};

/// Real messages that are seeds; more are alike.
const SEEDS_MAX: usize = 500;
/// Larger payloads cost more time and reach nothing new.
const SEED_BYTES_MAX: usize = 4096;

/// What guided fuzzing has found the judges to be wrong about: whole messages over our limits.
const FOUND: [&[u8]; 3] = [
    b"CONNECTCONNECTCONNECTCONNECTCONNECTCONNECTCONNECTCONNECTCONNECTCO / HTTP/1.1\r\n\r\n",
    b"\r\n\n\r\n\r\n\r",
    b"\n\n\n\n\nHTTP/1.1 200 OK\r\n\r\n",
];

#[test]
fn http1_holds() {
    fuzz(HTTP1, 60_000, |payload| {
        judges::httparse(payload);
    });
}

#[test]
fn sip_holds() {
    fuzz(SIP, 20_000, |payload| {
        let is_sip = matches!((SIP.parse)(payload), Outcome::Fields(_));
        assert!(!is_sip || (HTTP1.parse)(payload) == Outcome::NotThis, "both");
    });
}

#[test]
fn dns_holds() {
    fuzz(DNS, 100_000, whole_dns_message);
}

#[test]
fn dns_over_tcp_holds() {
    fuzz(DNS_TCP, 70_000, |_| ());
}

#[test]
fn tls_holds() {
    fuzz(TLS, 40_000, |payload| {
        judges::tls_parser(payload);
    });
}

/// Every question and record, as many as the header says: each step moves on or is the last.
fn whole_dns_message(payload: &[u8]) {
    let Some(message) = Message::new(payload) else { return };
    let [questions, records @ ..] = message.counts();
    let mut entries = message.entries();
    let mut left = entries.rest().len();
    let mut moved = |rest: &[u8]| {
        assert!(rest.len() < left, "an entry without bytes");
        left = rest.len();
    };
    for _ in 0..questions {
        let Ok(question) = entries.question() else { return };
        moved(entries.rest());
        whole_name(question.name);
    }
    for _ in 0..records.into_iter().map(u32::from).sum() {
        let Ok(record) = entries.record() else { return };
        moved(entries.rest());
        whole_name(record.name);
        whole_name(record.name_in_data(0));
        let _ = record.behind_name(2);
        assert!(record.data.len() <= usize::from(record.data_bytes));
    }
}

/// A name has at most 255 bytes (RFC 1035 section 3.1), wherever its pointers lead.
fn whole_name(name: Labels<'_>) {
    let bytes: usize = name.map_while(Result::ok).map(|label| label.len() + 1).sum();
    assert!(bytes < 255, "{bytes}");
}

fn fuzz(protocol: Protocol, inputs: u64, check: impl Fn(&[u8])) {
    let name = format!("proto {}", protocol.name);
    let real = rows(&name).iter().map(|row| row.payload.as_slice());
    let real = real.filter(|payload| (protocol.parse)(payload) != Outcome::NotThis);
    let real =
        real.take(SEEDS_MAX).map(|payload| payload[..payload.len().min(SEED_BYTES_MAX)].to_vec());
    let found = FOUND.map(<[u8]>::to_vec);
    let seeds: Vec<Vec<u8>> = messages::all().into_iter().chain(found).chain(real).collect();
    ringside_testkit::fuzz(&name, inputs, &seeds, |payload| {
        let _ = (protocol.looks_like)(payload);
        // A few hundred places where a payload is cut are enough for each of many thousands.
        check_prefixes(protocol, payload, 1 + payload.len() / 97);
        check(payload);
    });
}
