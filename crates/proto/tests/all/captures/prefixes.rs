//! Cut anywhere, a real message never says what it would take back.

use super::rows::rows;
use crate::support::{PROTOCOLS, check_prefixes, messages};
use ringside_proto::Outcome;

/// A few captures hold hundreds of like messages; this number of each is cut everywhere.
const MESSAGES_MAX: usize = 400;
/// Beyond the first bytes of a payload nothing new is read.
const BYTES_MAX: usize = 4096;

#[test]
fn messages_of_the_rfcs_are_consistent_when_cut() {
    for message in messages::all() {
        for protocol in PROTOCOLS {
            check_prefixes(protocol, &message, 1);
        }
    }
}

#[test]
fn real_messages_are_consistent_when_cut() {
    let rows = rows("real_messages_are_consistent_when_cut");
    for protocol in PROTOCOLS {
        let is_one = |payload: &[u8]| (protocol.parse)(payload) != Outcome::NotThis;
        let messages = rows.iter().map(|row| row.payload.as_slice());
        let mut cut = 0;
        for message in messages.filter(|payload| is_one(payload)).take(MESSAGES_MAX) {
            check_prefixes(protocol, &message[..message.len().min(BYTES_MAX)], 1);
            cut += 1;
        }
        eprintln!("{cut} messages of {} cut everywhere", protocol.name);
        assert!(rows.is_empty() || cut > 10);
    }
}
