//! Mutated messages: no parser panics, hangs or takes back what it said.

use super::judges;
use super::rows::rows;
use crate::support::{DNS, DNS_TCP, HTTP1, Protocol, SIP, TLS, check_prefixes, messages};
use ringside_proto::Outcome;

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
    fuzz(DNS, 100_000, |_| ());
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
