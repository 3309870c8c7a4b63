//! BGP (RFC 4271): that it is; with -v its messages.

use super::Text;
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

/// What each message begins with.
const MARKER: [u8; 16] = [0xff; 16];
/// Bytes of a message's header.
const HEADER_BYTES: usize = 19;
const OPEN: u8 = 1;
const NOTIFICATION: u8 = 3;

pub(super) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": BGP");
    if text.verbosity == 0 {
        return Ok(());
    }
    let mut rest = payload.bytes;
    // Other bytes before a message are the end of one that began earlier.
    while let Some(at) = rest.windows(MARKER.len()).position(|window| window == MARKER) {
        let mut cursor = Cursor::new(rest.get(at..).unwrap_or_default());
        cursor.take(MARKER.len())?;
        let (length, kind) = (usize::from(cursor.u16()?), cursor.u8()?);
        let bytes = length.checked_sub(HEADER_BYTES).ok_or(Stop::Cut)?;
        let body = cursor.part_at_most(bytes);
        message(text, kind, length, body)?;
        if body.left() < bytes {
            return Err(Stop::Cut);
        }
        rest = cursor.rest();
    }
    Ok(())
}

fn message(text: &mut Text<'_>, kind: u8, length: usize, mut body: Cursor<'_>) -> Result<(), Stop> {
    let name = match kind {
        OPEN => "Open",
        2 => "Update",
        NOTIFICATION => "Notification",
        4 => "Keepalive",
        5 => "Route Refresh",
        _ => "Unknown",
    };
    put!(text, "\n\t{name} Message ({kind}), length: {length}");
    match kind {
        OPEN => {
            let (version, system, hold) = (body.u8()?, body.u16()?, body.u16()?);
            put!(text, "\n\t  Version {version}, my AS {system}, Holdtime {hold}s");
            put!(text, ", ID {}", body.ipv4()?);
            put!(text, "\n\t  Optional parameters, length: {}", body.u8()?);
        }
        NOTIFICATION => {
            const NAMES: [&str; 7] = [
                "",
                "Message Header Error",
                "OPEN Message Error",
                "UPDATE Message Error",
                "Hold timer expired",
                "Finite State Machine Error",
                "Cease",
            ];
            let (major, minor) = (body.u8()?, body.u8()?);
            let name = NAMES.get(usize::from(major)).filter(|name| !name.is_empty());
            put!(text, ", {} ({major}), subcode {minor}", name.unwrap_or(&"Unknown Error"));
        }
        _ => {}
    }
    Ok(())
}
