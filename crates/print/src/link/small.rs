//! Small protocols over a link: loopback tests, EAPOL, Cisco's keepalives (SLARP).

use crate::application::Text;
use crate::cursor::{Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Ethernet's loopback test, whose numbers have the low byte first.
pub(crate) fn loopback(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const REPLY: u16 = 1;
    const FORWARD: u16 = 2;
    text.out.push_str("Loopback");
    if payload.length < 2 {
        return Err(Stop::Invalid);
    }
    let mut cursor = payload.cursor();
    let skip = cursor.u16()?.swap_bytes();
    put!(text, ", skipCount {skip}");
    if skip % 8 != 0 {
        text.out.push_str(" (bogus)");
    }
    let behind = 2 + usize::from(skip) + 2;
    let Some(left) = payload.length.checked_sub(behind) else { return Err(Stop::Invalid) };
    cursor.take(skip.into())?;
    let function = cursor.u16()?.swap_bytes();
    text.out.push_str(", ");
    match function {
        REPLY => {
            put!(text, "Reply, receipt number {}", cursor.u16()?.swap_bytes());
            put!(text, ", data ({} octets)", left.saturating_sub(2));
        }
        FORWARD => {
            put!(text, "Forward Data, forwarding address {}", cursor.mac()?);
            put!(text, ", data ({} octets)", left.saturating_sub(6));
        }
        other => {
            put!(text, " invalid ({other})");
        }
    }
    Ok(())
}

/// IEEE 802.1X.
pub(crate) fn eapol(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const PACKET: u8 = 0;
    let mut cursor = payload.cursor();
    let (version, kind, length) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let name = match kind {
        PACKET => "EAP packet",
        1 => "EAPOL start",
        2 => "EAPOL logoff",
        3 => "EAPOL key",
        4 => "Encapsulated ASF alert",
        _ => "unknown",
    };
    put!(text, "{name} ({kind}) v{version}, len {length}");
    if kind != PACKET || text.verbosity == 0 {
        return Ok(());
    }
    let (code, id, bytes) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let name = match code {
        1 => "Request",
        2 => "Response",
        3 => "Success",
        4 => "Failure",
        _ => "unknown",
    };
    put!(text, ", {name} ({code}), id {id}, len {bytes}");
    if matches!(code, 1 | 2) {
        if bytes < 5 {
            text.out.push_str(" (too short for EAP request/response)");
            return Ok(());
        }
        let kind = cursor.u8()?;
        let name = match kind {
            1 => "Identity",
            2 => "Notification",
            3 => "Nak",
            4 => "MD5-challenge",
            5 => "OTP",
            6 => "GTC",
            13 => "TLS",
            18 => "SIM",
            21 => "TTLS",
            23 => "AKA",
            43 => "FAST",
            47 => "PSK",
            _ => "unknown",
        };
        put!(text, "\n\t\t Type {name} ({kind})");
    }
    Ok(())
}

/// Cisco's address resolution and keepalives over HDLC.
pub(crate) fn slarp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const KEEPALIVE: u32 = 2;
    /// Bytes of a keepalive with the time since the link came up.
    const BYTES: usize = 18;
    let mut cursor = payload.cursor();
    put!(text, "SLARP (length: {}), ", payload.length);
    let code = cursor.u32()?;
    match code {
        0 => text.out.push_str("request"),
        1 => {
            put!(text, "reply {}/{}", cursor.ipv4()?, cursor.ipv4()?);
        }
        KEEPALIVE => {
            let (mine, yours, reliability) = (cursor.u32()?, cursor.u32()?, cursor.u16()?);
            put!(text, "keepalive: mineseen=0x{mine:08x}, yourseen=0x{yours:08x}");
            put!(text, ", reliability=0x{reliability:04x}");
            if payload.length >= BYTES {
                let seconds = cursor.u32()? / 1000;
                let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
                let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
                put!(text, ", link uptime={days}d{hours}h{minutes}m{seconds}s");
            }
        }
        other => {
            put!(text, "0x{other:02x} unknown");
        }
    }
    if code == KEEPALIVE && payload.length > BYTES && text.verbosity > 0 {
        put!(text, ", (trailing junk: {} bytes)", payload.length - BYTES);
    }
    Ok(())
}
