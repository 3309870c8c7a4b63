//! A handshake as a line for people.

use crate::handshake::{Ending, Handshake};
use crate::words::{quic_version, version};
use ringside_record::text_of_time;
use std::fmt::Write;
use std::net::SocketAddr;

const TIME: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// `TIME CLIENT > SERVER VERSION NAME PROTOCOL CIPHER JA4 LATENCY SUBJECT`, the version of QUIC
/// before that of TLS, and how it ended unless it is complete.
pub fn text(found: &Handshake) -> String {
    let time = text_of_time(found.first_ns(), TIME);
    let [client, server] = [found.client, found.server].map(SocketAddr::from);
    let time = time.as_str().unwrap_or("-");
    let number = found.version();
    let number = number.map_or("-".into(), version);
    let quic = found.quic.map_or(String::new(), |quic| format!("QUIC {} ", quic_version(quic)));
    let mut out = format!("{time} {client} > {server} {quic}{number}");
    let hello = found.hello.as_ref();
    let answer = found.answer.as_ref();
    let name = hello.and_then(|hello| hello.server_name.as_deref());
    let offered = hello.and_then(|hello| hello.protocols.first());
    let protocol = answer.and_then(|answer| answer.protocol.as_ref()).or(offered);
    let protocol = protocol.map_or("-", String::as_str);
    let _ = write!(out, " {} {protocol}", name.unwrap_or("-"));
    match answer {
        Some(answer) => {
            let _ = write!(out, " {:#06x}", answer.cipher_suite);
        }
        None => out.push_str(" -"),
    }
    let _ = write!(out, " {}", hello.map_or("-", |hello| hello.ja4.as_str()));
    if let Some(latency_ns) = found.server_hello_ns() {
        let micros = latency_ns / 1_000;
        let _ = write!(out, " {}.{:03}ms", micros / 1_000, micros % 1_000);
    }
    if found.is_resumed() == Some(true) {
        out.push_str(" resumed");
    }
    if let Some(certificate) = &found.certificate {
        let _ = write!(out, " {}", certificate.subject);
    }
    if found.ending != Ending::Complete {
        let _ = write!(out, " ({})", found.ending.name());
    }
    out
}
