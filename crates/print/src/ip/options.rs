//! Options of IPv4 headers (RFC 791), and those in extension headers of IPv6 (RFC 8200), with -v.

use crate::cursor::{Cursor, Stop};
use std::fmt::Write;

/// The options of an IPv4 header, with commas between them.
pub(super) fn ipv4(out: &mut String, options: &[u8]) {
    let mut cursor = Cursor::new(options);
    let mut comma = "";
    while let Ok(kind) = cursor.u8() {
        out.push_str(comma);
        comma = ",";
        match name(kind) {
            Some(name) => out.push_str(name),
            None => {
                let _ = write!(out, "unknown {kind}");
            }
        }
        match kind {
            0 => return,
            1 => continue,
            _ => {}
        }
        let Ok(length) = cursor.u8() else {
            out.push_str(" [bad length 0]");
            return;
        };
        let value = usize::from(length).checked_sub(2).and_then(|bytes| cursor.part(bytes).ok());
        let Some(value) = value else {
            let _ = write!(out, " [bad length {length}]");
            return;
        };
        option(out, kind, length, value);
    }
}

fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "EOL",
        1 => "NOP",
        7 => "RR",
        68 => "timestamp",
        130 => "security",
        131 => "LSRR",
        137 => "SSRR",
        148 => "RA",
        _ => return None,
    })
}

fn option(out: &mut String, kind: u8, length: u8, mut value: Cursor<'_>) {
    match kind {
        7 | 131 | 137 => route(out, length, value),
        68 => timestamps(out, length, value),
        148 => match value.u16() {
            Ok(0) => {}
            Ok(number) if length == 4 => {
                let _ = write!(out, " value {number}");
            }
            _ => {
                let _ = write!(out, " [bad length {length}]");
            }
        },
        _ => {}
    }
}

/// Addresses; those that were visited have commas behind them.
fn route(out: &mut String, length: u8, mut value: Cursor<'_>) {
    let Ok(pointer) = value.u8() else {
        let _ = write!(out, " [bad length {length}]");
        return;
    };
    if !value.left().is_multiple_of(4) {
        let _ = write!(out, " [bad length {length}]");
    }
    if pointer < 4 || pointer % 4 != 0 {
        let _ = write!(out, " [bad ptr {pointer}]");
    }
    let mut at = 4;
    while let Ok(address) = value.ipv4() {
        let comma = if at < u32::from(pointer) { "," } else { "" };
        let _ = write!(out, " {address}{comma}");
        at += 4;
    }
}

fn timestamps(out: &mut String, length: u8, mut value: Cursor<'_>) {
    const ONLY: u8 = 0;
    out.push_str(" TS{");
    let (Ok(pointer), Ok(flags)) = (value.u8(), value.u8()) else {
        let _ = write!(out, "[bad length {length}]}}");
        return;
    };
    let kind = flags & 0xf;
    match kind {
        ONLY => out.push_str("TSONLY"),
        1 => out.push_str("TS+ADDR"),
        3 => out.push_str("PRESPEC"),
        other => {
            let _ = write!(out, "[bad ts type {other}]}}");
            return;
        }
    }
    let entry_bytes = if kind == ONLY { 4 } else { 8 };
    let mut at = 5;
    while value.left() >= entry_bytes {
        out.push_str(if at == u32::from(pointer) { " ^ " } else { " " });
        let address = if kind == ONLY { None } else { value.ipv4().ok() };
        let Ok(time) = value.u32() else { break };
        let _ = write!(out, "{time}@");
        if let Some(address) = address {
            let _ = write!(out, "{address}");
        }
        at += entry_bytes as u32;
    }
    if u32::from(pointer) == u32::from(length) + 1 {
        out.push_str(" ^ ");
    }
    match flags >> 4 {
        0 => out.push('}'),
        hops => {
            let _ = write!(out, " [{hops} hops not recorded]}} ");
        }
    }
}

/// The options of a header of IPv6, without its first two bytes.
pub(super) fn ipv6(out: &mut String, header: &[u8]) -> Result<(), Stop> {
    let mut cursor = Cursor::new(header);
    cursor.u16()?;
    while let Ok(kind) = cursor.u8() {
        if kind == 0 {
            out.push_str("(pad1)");
            continue;
        }
        let length = cursor.u8()?;
        let mut value = cursor.part(length.into())?;
        match kind {
            1 => out.push_str("(padn)"),
            5 => {
                let _ = write!(out, "(rtalert: 0x{:04x}) ", value.u16()?);
            }
            0xc2 => {
                let _ = write!(out, "(jumbo: {}) ", value.u32()?);
            }
            0xc9 => {
                let _ = write!(out, "(homeaddr: {})", value.ipv6()?);
            }
            _ => {
                let _ = write!(out, "(opt_type 0x{kind:02x}: len={length})");
            }
        }
    }
    Ok(())
}
