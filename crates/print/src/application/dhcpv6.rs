//! DHCPv6 (RFC 8415): the kind of message; with -v its options, which hold each other.

mod options;

use super::Text;
use crate::cursor::{Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Messages within messages, and options within options: a relay's message has three of them, and
/// what is deeper is made to cost time.
const DEPTH_MAX: u8 = 8;

pub(super) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str("dhcp6");
    message(text, payload.bytes, 0)
}

/// A message of a client or server, or of a relay with both addresses.
fn message(text: &mut Text<'_>, bytes: &[u8], depth: u8) -> Result<(), Stop> {
    const NAMES: [&str; 15] = [
        "solicit",
        "advertise",
        "request",
        "confirm",
        "renew",
        "rebind",
        "reply",
        "release",
        "decline",
        "reconfigure",
        "inf-req",
        "relay-fwd",
        "relay-reply",
        "leasequery",
        "leasequery-reply",
    ];
    let mut cursor = crate::cursor::Cursor::new(bytes);
    let head = cursor.u32()?;
    let (kind, transaction) = (head >> 24, head & 0xff_ffff);
    let is_relay = matches!(kind, 12 | 13);
    match (kind as usize).checked_sub(1).and_then(|index| NAMES.get(index)) {
        Some(name) => {
            put!(text, " {name}");
        }
        None => {
            put!(text, " msgtype-{kind}");
        }
    }
    if text.verbosity == 0 {
        return Ok(());
    }
    text.out.push_str(" (");
    if is_relay {
        let mut relay = crate::cursor::Cursor::new(bytes);
        relay.u16()?;
        let (link, peer) = (relay.ipv6()?, relay.ipv6()?);
        put!(text, "linkaddr={link} peeraddr={peer}");
        cursor = relay;
    } else {
        put!(text, "xid={transaction:06x}");
    }
    options::print(text, cursor, depth);
    // As tcpdump has it, a relay's message has no bracket of its own.
    if !is_relay {
        text.out.push(')');
    }
    Ok(())
}
