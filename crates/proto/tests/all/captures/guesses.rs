//! A guess from the first bytes is right, and what is read whole was guessed.

use super::rows::{Row, rows};
use crate::support::{DNS, DNS_TCP, HTTP1, Protocol, SIP, TLS};
use ringside_proto::Outcome;

/// What tshark calls one of our protocols over one transport, and how often we differ.
struct Guess {
    protocol: Protocol,
    is_tcp: bool,
    layers: &'static [&'static str],
    /// Payloads that look like it to us, and that tshark took for another protocol.
    ours_max: usize,
    /// Whole messages that do not look like it.
    missed_max: usize,
}

const GUESSES: [Guess; 7] = [
    // Two messages on a port of SIP, and half of a GET that was cut in the middle of the word;
    // a target that is a dot.
    Guess { protocol: HTTP1, is_tcp: true, layers: &["http"], ours_max: 3, missed_max: 1 },
    // Searches from ports that tshark does not know.
    Guess { protocol: HTTP1, is_tcp: false, layers: &["ssdp"], ours_max: 4, missed_max: 0 },
    Guess { protocol: SIP, is_tcp: true, layers: &["sip"], ours_max: 0, missed_max: 0 },
    Guess { protocol: SIP, is_tcp: false, layers: &["sip"], ours_max: 0, missed_max: 0 },
    // The name service of NetBIOS is written as DNS is. Searches of a browser for two names at once
    // under an id, which mDNS does not have.
    Guess {
        protocol: DNS,
        is_tcp: false,
        layers: &["dns", "mdns", "llmnr", "nbns"],
        ours_max: 0,
        missed_max: 10,
    },
    Guess { protocol: DNS_TCP, is_tcp: true, layers: &["dns"], ours_max: 0, missed_max: 0 },
    // A hello on a port of BitTorrent.
    Guess { protocol: TLS, is_tcp: true, layers: &["tls"], ours_max: 1, missed_max: 0 },
];

#[test]
fn guesses_are_right() {
    let rows = rows("guesses_are_right");
    for guess in GUESSES.iter().filter(|_| !rows.is_empty()) {
        judge(guess, rows.iter().filter(|row| row.is_tcp == guess.is_tcp && !row.is_broken()));
    }
}

fn judge<'a>(guess: &Guess, rows: impl Iterator<Item = &'a Row>) {
    let Guess { protocol, layers, .. } = guess;
    let (mut right, mut ours, mut missed) = (0, Vec::new(), Vec::new());
    for row in rows {
        let is_one = layers.iter().any(|layer| row.has_layer(layer));
        let is_read = || matches!((protocol.parse)(&row.payload), Outcome::Fields(_));
        match ((protocol.looks_like)(&row.payload), is_one) {
            (true, true) => right += 1,
            (true, false) => ours.push(row.context()),
            (false, true) if is_read() => missed.push(row.context()),
            (false, _) => {}
        }
    }
    eprintln!("{layers:?}: {right} right, {} only ours, {} missed", ours.len(), missed.len());
    assert!(right > 0, "{layers:?}");
    assert!(ours.len() <= guess.ours_max, "{}", ours.join("\n"));
    assert!(missed.len() <= guess.missed_max, "{}", missed.join("\n"));
}
