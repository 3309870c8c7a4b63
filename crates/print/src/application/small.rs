//! Small protocols over UDP: TFTP (RFC 1350, 2347), syslog (RFC 3164), RADIUS (RFC 2865), IKE (RFC
//! 7296) with its keepalives and encrypted packets (RFC 3948), Kerberos.

use super::Text;
use super::names::{escaped, hex};
use crate::cursor::{Payload, Stop};
use crate::put;
use std::fmt::Write;

pub(super) fn tftp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const ERRORS: [&str; 9] = [
        "EUNDEF",
        "ENOTFOUND",
        "EACCESS",
        "ENOSPACE",
        "EBADOP",
        "EBADID",
        "EEXISTS",
        "ENOUSER",
        "EOPTNEG",
    ];
    put!(text, "TFTP, length {}", payload.length);
    let mut cursor = payload.cursor();
    let code = cursor.u16()?;
    text.out.push_str(", ");
    match code {
        1 | 2 => {
            text.out.push_str(if code == 1 { "RRQ \"" } else { "WRQ \"" });
            let rest = words(text, cursor.rest(), "", 1)?;
            text.out.push('"');
            words(text, rest, " ", usize::MAX)?;
        }
        3 | 4 => {
            let name = if code == 3 { "DATA" } else { "ACK" };
            put!(text, "{name} block {}", cursor.u16()?);
        }
        5 => {
            let number = cursor.u16()?;
            match ERRORS.get(usize::from(number)) {
                Some(name) => {
                    put!(text, "ERROR {name} \"");
                }
                None => {
                    put!(text, "ERROR tftp-err-#{number} \"");
                }
            }
            words(text, cursor.rest(), "", 1)?;
            text.out.push('"');
        }
        6 => {
            text.out.push_str("OACK");
            words(text, cursor.rest(), " ", usize::MAX)?;
        }
        other => {
            put!(text, "tftp-#{other}");
        }
    }
    Ok(())
}

/// Appends up to `words_max` words, each with a zero behind it; gives what follows.
fn words<'a>(
    text: &mut Text<'_>,
    bytes: &'a [u8],
    before: &str,
    words_max: usize,
) -> Result<&'a [u8], Stop> {
    let mut rest = bytes;
    let mut left = words_max;
    while left > 0 && !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0);
        text.out.push_str(before);
        escaped(text.out, rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
        let end = end.ok_or(Stop::Cut)?;
        rest = rest.get(end + 1..).unwrap_or_default();
        left -= 1;
    }
    Ok(rest)
}

pub(super) fn syslog(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const SEVERITIES: [&str; 8] =
        ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
    const FACILITIES: [&str; 24] = [
        "kernel", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "ftp", "ntp", "security", "console", "cron", "local0", "local1", "local2",
        "local3", "local4", "local5", "local6", "local7",
    ];
    /// Digits of a priority.
    const DIGITS_MAX: usize = 3;
    let Some(rest) = payload.bytes.strip_prefix(b"<") else {
        return Err(if payload.bytes.is_empty() { Stop::Cut } else { Stop::Invalid });
    };
    let digits = rest.iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit());
    let (count, priority) = digits
        .fold((0, 0), |(count, sum), digit| (count + 1, 10 * sum + usize::from(digit - b'0')));
    if rest.get(count) != Some(&b'>') {
        return Err(Stop::Invalid);
    }
    let severity = SEVERITIES[priority & 7];
    let facility = FACILITIES.get(priority >> 3).copied().unwrap_or("unknown");
    let length = payload.length;
    if text.verbosity == 0 {
        put!(text, "SYSLOG {facility}.{severity}, length: {length}");
        return Ok(());
    }
    put!(text, "SYSLOG, length: {length}\n\tFacility {facility} ({}), ", priority >> 3);
    put!(text, "Severity {severity} ({})\n\tMsg: ", priority & 7);
    escaped(text.out, rest.get(count + 1..).unwrap_or_default());
    Ok(())
}

pub(super) fn radius(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (code, id, length) = (cursor.u8()?, cursor.u8()?, usize::from(cursor.u16()?));
    if length < 20 || length > payload.length {
        return Err(Stop::Invalid);
    }
    let name = match code {
        1 => "Access-Request",
        2 => "Access-Accept",
        3 => "Access-Reject",
        4 => "Accounting-Request",
        5 => "Accounting-Response",
        11 => "Access-Challenge",
        12 => "Status-Server",
        13 => "Status-Client",
        40 => "Disconnect-Request",
        41 => "Disconnect-ACK",
        42 => "Disconnect-NAK",
        43 => "CoA-Request",
        44 => "CoA-ACK",
        45 => "CoA-NAK",
        _ => "Unknown Command",
    };
    if text.verbosity == 0 {
        put!(text, "RADIUS, {name} ({code}), id: 0x{id:02x} length: {length}");
        return Ok(());
    }
    put!(text, "RADIUS, length: {length}\n\t{name} ({code}), id: 0x{id:02x}, Authenticator: ");
    hex(text.out, cursor.take(16)?);
    Ok(())
}

/// Exchanges of key management, by their number; those of version 1 are phases.
pub(super) fn ike(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (initiator, responder) = (cursor.u64()?, cursor.u64()?);
    let (_, version, exchange, set) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (message, _) = (cursor.u32()?, cursor.u32()?);
    text.out.push_str("isakmp");
    let (major, minor) = (version >> 4, version & 0xf);
    if text.verbosity > 0 {
        put!(text, " {major}.{minor} msgid {message:08x}");
    }
    text.out.push_str(": ");
    if major == 2 {
        let name = match exchange {
            34 => "ikev2_init",
            35 => "ikev2_auth",
            36 => "child_sa",
            37 => "inf2",
            _ => "unknown",
        };
        let sa = if message == 0 { "parent_sa " } else { "child_sa  " };
        let way = if set & 8 != 0 { "I" } else { "" };
        let answer = if set & 0x20 != 0 { "R" } else { "" };
        put!(text, "{sa}{name}[{way}{answer}]");
        return Ok(());
    }
    let phase = if message == 0 { 1 } else { 2 };
    // An initiator begins without knowing the other's cookie.
    let side = if responder == 0 && initiator != 0 { "I" } else { "?" };
    let name = match exchange {
        0 => "none",
        1 => "base",
        2 => "ident",
        3 => "auth",
        4 => "agg",
        5 => "inf",
        32 => "oakley-quick",
        33 => "oakley-newgroup",
        _ => "unknown",
    };
    put!(text, "phase {phase} {side} {name}");
    if set & 1 != 0 {
        text.out.push_str("[E]");
    }
    if set & 2 != 0 {
        text.out.push_str("[C]");
    }
    Ok(())
}

/// What shares a port with key management behind translated addresses.
pub(super) fn encapsulated(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    if payload.bytes == [0xff] {
        text.out.push_str("isakmp-nat-keep-alive");
        return Ok(());
    }
    let mut cursor = payload.cursor();
    let index = cursor.u32()?;
    if index == 0 {
        text.out.push_str("NONESP-encap: ");
        return ike(text, Payload { bytes: cursor.rest(), length: payload.length - 4 });
    }
    text.out.push_str("UDP-encap: ");
    let sequence = cursor.u32()?;
    put!(text, "ESP(spi=0x{index:08x},seq=0x{sequence:x}), length {}", payload.length);
    Ok(())
}
