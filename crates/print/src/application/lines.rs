//! Protocols of text lines: HTTP, RTSP, SIP, FTP, SMTP, WHOIS.

use super::Text;
use crate::cursor::{Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Bytes of the first word that are looked at, as tcpdump does; no method is so long.
const WORD_BYTES_MAX: usize = 127;
/// Lines of one payload that are printed with -v: those of a datagram of 64 KiB with header lines
/// of usual length.
const LINES_MAX: usize = 2048;

/// How a protocol's messages begin.
struct Dialect {
    name: &'static str,
    /// Methods of its requests; none where a message begins with any line.
    methods: &'static [&'static str],
}

const HTTP: Dialect = Dialect {
    name: "HTTP",
    methods: &[
        "GET",
        "PUT",
        "COPY",
        "HEAD",
        "LOCK",
        "MOVE",
        "POLL",
        "POST",
        "BCOPY",
        "BMOVE",
        "MKCOL",
        "TRACE",
        "LABEL",
        "MERGE",
        "DELETE",
        "SEARCH",
        "UNLOCK",
        "REPORT",
        "UPDATE",
        "NOTIFY",
        "BDELETE",
        "CONNECT",
        "OPTIONS",
        "CHECKIN",
        "PROPFIND",
        "CHECKOUT",
        "CCM_POST",
        "SUBSCRIBE",
        "PROPPATCH",
        "BPROPFIND",
        "BPROPPATCH",
        "UNCHECKOUT",
        "MKACTIVITY",
        "MKWORKSPACE",
        "UNSUBSCRIBE",
        "RPC_CONNECT",
        "VERSION-CONTROL",
        "BASELINE-CONTROL",
    ],
};
const RTSP: Dialect = Dialect {
    name: "RTSP",
    methods: &[
        "ANNOUNCE",
        "DESCRIBE",
        "GET_PARAMETER",
        "OPTIONS",
        "PAUSE",
        "PLAY",
        "RECORD",
        "REDIRECT",
        "SET_PARAMETER",
        "SETUP",
        "TEARDOWN",
    ],
};
const SIP: Dialect = Dialect {
    name: "SIP",
    methods: &[
        "ACK",
        "BYE",
        "CANCEL",
        "DO",
        "INFO",
        "INVITE",
        "MESSAGE",
        "NOTIFY",
        "OPTIONS",
        "PRACK",
        "QAUTH",
        "REFER",
        "REGISTER",
        "SPRACK",
        "SUBSCRIBE",
        "UPDATE",
        "PUBLISH",
    ],
};
const FTP: Dialect = Dialect { name: "FTP", methods: &[] };
const SMTP: Dialect = Dialect { name: "SMTP", methods: &[] };
const SSH: Dialect = Dialect { name: "SSH", methods: &[] };
const WHOIS: Dialect = Dialect { name: "WHOIS", methods: &[] };

pub(super) fn http(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": ");
    print(text, payload, &HTTP)
}

pub(super) fn rtsp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": ");
    print(text, payload, &RTSP)
}

pub(super) fn sip(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    print(text, payload, &SIP)
}

pub(super) fn ftp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": ");
    print(text, payload, &FTP)
}

pub(super) fn smtp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": ");
    print(text, payload, &SMTP)
}

/// The names that both sides begin with (RFC 4253); what follows is encrypted.
pub(super) fn ssh(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    if !payload.bytes.starts_with(b"SSH-") {
        return Ok(());
    }
    text.out.push_str(": ");
    print(text, payload, &SSH)
}

pub(super) fn whois(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str(": ");
    print(text, payload, &WHOIS)
}

/// The name of the protocol, and of a message's beginning its first line; with -v all lines up to
/// one that is no text.
fn print(text: &mut Text<'_>, payload: Payload<'_>, dialect: &Dialect) -> Result<(), Stop> {
    text.out.push_str(dialect.name);
    let mut rest = payload.bytes;
    if !begins_message(rest, dialect) {
        return Ok(());
    }
    if text.verbosity == 0 {
        return match line(&mut rest, &payload) {
            Line::Whole(line) => {
                text.out.push_str(": ");
                push(text.out, line);
                Ok(())
            }
            Line::Cut(line) => {
                if !payload.is_cut() {
                    text.out.push_str(": ");
                    push(text.out, line);
                }
                Err(Stop::Cut)
            }
            Line::NoText => Ok(()),
        };
    }
    put!(text, ", length: {}", payload.length);
    for _ in 0..LINES_MAX {
        if rest.is_empty() && !payload.is_cut() {
            break;
        }
        match line(&mut rest, &payload) {
            Line::Whole(line) => {
                text.out.push_str("\n\t");
                push(text.out, line);
            }
            Line::Cut(line) => {
                if !payload.is_cut() {
                    text.out.push_str("\n\t");
                    push(text.out, line);
                }
                return Err(Stop::Cut);
            }
            Line::NoText => break,
        }
    }
    Ok(())
}

/// True if the first word is a method, or the second one a status of three digits.
fn begins_message(bytes: &[u8], dialect: &Dialect) -> bool {
    if dialect.methods.is_empty() {
        return true;
    }
    let Some((first, rest)) = word(bytes) else { return false };
    let is_first = |method: &&str| method.as_bytes().eq_ignore_ascii_case(first);
    if dialect.methods.iter().any(is_first) {
        return true;
    }
    // Between a version and its status is space alone, as `word` has passed over.
    let status = word(rest).map_or(&[][..], |(status, _)| status);
    status.len() == 3 && status.iter().all(u8::is_ascii_digit)
}

/// A word and what is behind it and the space after it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = bytes.get(..WORD_BYTES_MAX + 1).unwrap_or(bytes);
    let end = start.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(start.len());
    let (word, rest) = bytes.split_at_checked(end)?;
    let space = rest.iter().take_while(|byte| **byte == b' ').count();
    (!word.is_empty()).then_some((word, rest.get(space..).unwrap_or_default()))
}

enum Line<'a> {
    /// A line with its end.
    Whole(&'a [u8]),
    /// The bytes end before the line does.
    Cut(&'a [u8]),
    /// Something in it is no ASCII text.
    NoText,
}

/// Takes the next line, whose end is LF, or CR and LF.
fn line<'a>(rest: &mut &'a [u8], payload: &Payload<'_>) -> Line<'a> {
    let is_text = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    let end = rest.iter().position(|&byte| !is_text(byte));
    let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
    match behind {
        [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] => {
            *rest = after;
            Line::Whole(line)
        }
        [] => {
            *rest = &[];
            Line::Cut(line)
        }
        [b'\r'] if payload.is_cut() => Line::Cut(line),
        _ => Line::NoText,
    }
}

/// Appends a line that [`line`] found to be ASCII text.
fn push(out: &mut String, line: &[u8]) {
    // ASCII is UTF-8, and copied at once.
    out.push_str(std::str::from_utf8(line).unwrap_or_default());
}
