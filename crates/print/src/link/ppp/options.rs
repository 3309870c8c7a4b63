//! Options of PPP's control protocols.

use crate::application::Text;
use crate::cursor::{Cursor, Stop};
use crate::put;
use std::fmt::Write;

/// The line of an option without its value; `None` if its length cannot be.
fn head<'n>(
    text: &mut Text<'_>,
    names: &[&'n str],
    unknown: &'n str,
    kind: u8,
    length: usize,
) -> bool {
    let name = names.get(usize::from(kind)).filter(|name| !name.is_empty());
    let name = name.copied().unwrap_or(unknown);
    put!(text, "\n\t  {name} Option (0x{kind:02x}), length {length}");
    if length < 2 {
        text.out.push_str(" (length bogus, should be >= 2)");
    }
    length >= 2
}

/// True if a value has `bytes` bytes; else it is said.
fn has(text: &mut Text<'_>, value: &Cursor<'_>, bytes: usize) -> bool {
    let is_right = value.left() == bytes;
    match is_right {
        true => text.out.push_str(": "),
        false => {
            put!(text, " (length bogus, should be = {})", bytes + 2);
        }
    }
    is_right
}

fn bytes_below(text: &mut Text<'_>, value: Cursor<'_>) {
    crate::hex::below(text.out, value.rest(), "\n\t    ");
}

/// By number (RFC 1661, 1990, 2153).
const LCP_NAMES: [&str; 31] = [
    "Vend-Ext",
    "MRU",
    "ACCM",
    "Auth-Prot",
    "Qual-Prot",
    "Magic-Num",
    "deprecated(6)",
    "PFC",
    "ACFC",
    "FCS-Alt",
    "SDP",
    "Num-Mode",
    "deprecated(12)",
    "Call-Back",
    "deprecated(14)",
    "deprecated(15)",
    "deprecated(16)",
    "MRRU",
    "12-Bit seq #",
    "End-Disc",
    "Proprietary",
    "DCE-Id",
    "MP+",
    "Link-Disc",
    "LCP-Auth-Opt",
    "deprecated(25)",
    "deprecated(26)",
    "COBS",
    "Prefix-elision",
    "Multilink-header-Form",
    "PPP-Muxing",
];

/// RFC 1661, 1990, 2153.
pub(super) fn lcp(
    text: &mut Text<'_>,
    kind: u8,
    length: usize,
    mut value: Cursor<'_>,
) -> Result<(), Stop> {
    if !head(text, &LCP_NAMES, "unknown", kind, length) {
        return Ok(());
    }
    match kind {
        1 | 17 if has(text, &value, 2) => {
            put!(text, "{}", value.u16()?);
        }
        2 | 5 if has(text, &value, 4) => {
            put!(text, "0x{:08x}", value.u32()?);
        }
        23 if has(text, &value, 2) => {
            put!(text, "0x{:04x}", value.u16()?);
        }
        1 | 2 | 5 | 17 | 23 => {}
        3 => authentication(text, value)?,
        4 => {
            let number = value.u16()?;
            text.out.push_str(if number == 0xc025 { ": LQR" } else { ": unknown" });
        }
        13 => callback(text, value.u8()?),
        19 => discriminator(text, value)?,
        _ => bytes_below(text, value),
    }
    Ok(())
}

fn callback(text: &mut Text<'_>, operation: u8) {
    const OPERATIONS: [&str; 7] = [
        "by user authentication",
        "dialing string",
        "location identifier",
        "E.164 number",
        "distinguished name",
        "unknown",
        "CBCP",
    ];
    let name = OPERATIONS.get(usize::from(operation)).copied().unwrap_or("unknown");
    put!(text, ": : Callback Operation {name} ({operation})");
}

/// What tells the end of several links (RFC 1990).
fn discriminator(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    const CLASSES: [&str; 6] = ["Null", "Local", "IPv4", "MAC", "Magic-Num", "PSNDN"];
    let class = value.u8()?;
    let name = CLASSES.get(usize::from(class)).copied().unwrap_or("Unknown");
    put!(text, ": {name}");
    match class {
        2 => {
            put!(text, " {}", value.ipv4()?);
        }
        3 => {
            put!(text, " {}", value.mac()?);
        }
        4 => {
            put!(text, " 0x{:08x}", value.u32()?);
        }
        _ => {}
    }
    Ok(())
}

fn authentication(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    match value.u16()? {
        0xc023 => text.out.push_str(": PAP"),
        0xc223 => {
            let name = match value.u8()? {
                5 => "MD5",
                6 => "SHA-1",
                0x80 => "MS-CHAPv1",
                0x81 => "MS-CHAPv2",
                _ => "unknown",
            };
            put!(text, ": CHAP, {name}");
        }
        0xc227 => text.out.push_str(": EAP"),
        _ => text.out.push_str(": unknown"),
    }
    Ok(())
}

/// RFC 1332, 1877, 2290.
pub(super) fn ipcp(
    text: &mut Text<'_>,
    kind: u8,
    length: usize,
    mut value: Cursor<'_>,
) -> Result<(), Stop> {
    const NAMES: [&str; 5] = ["", "IP-Addrs", "IP-Comp", "IP-Addr", "Home-Addr"];
    const SERVERS: [&str; 4] = ["Pri-DNS", "Pri-NBNS", "Sec-DNS", "Sec-NBNS"];
    let server = kind.checked_sub(129).and_then(|index| SERVERS.get(usize::from(index)));
    let is_whole = head(text, &NAMES, server.copied().unwrap_or("unknown"), kind, length);
    if !is_whole {
        return Ok(());
    }
    match kind {
        1 if has(text, &value, 8) => {
            put!(text, "src {}, dst {}", value.ipv4()?, value.ipv4()?);
        }
        2 => {
            let number = value.u16()?;
            let name = match number {
                0x2d => "VJ-Comp",
                0x61 => "IP Header Compression",
                _ => "Unknown",
            };
            put!(text, ": {name} (0x{number:02x}):");
        }
        3 | 4 | 129..=132 if has(text, &value, 4) => {
            put!(text, "{}", value.ipv4()?);
        }
        1 | 3 | 4 | 129..=132 => {}
        _ => bytes_below(text, value),
    }
    Ok(())
}

/// RFC 5072.
pub(super) fn ip6cp(
    text: &mut Text<'_>,
    kind: u8,
    length: usize,
    mut value: Cursor<'_>,
) -> Result<(), Stop> {
    if !head(text, &["", "Interface-ID"], "unknown", kind, length) {
        return Ok(());
    }
    match kind {
        1 if has(text, &value, 8) => {
            let parts = [value.u16()?, value.u16()?, value.u16()?, value.u16()?];
            let [a, b, c, d] = parts;
            put!(text, "{a:04x}:{b:04x}:{c:04x}:{d:04x}");
        }
        1 => {}
        _ => bytes_below(text, value),
    }
    Ok(())
}

/// RFC 1962.
pub(super) fn ccp(
    text: &mut Text<'_>,
    kind: u8,
    length: usize,
    value: Cursor<'_>,
) -> Result<(), Stop> {
    let name = match kind {
        0 => "OUI",
        1 => "Pred-1",
        2 => "Pred-2",
        3 => "Puddle",
        16 => "HP-PPC",
        17 => "Stac",
        18 => "MPPC",
        19 => "Gand-FZA",
        20 => "V.42bis",
        21 => "BSD-Comp",
        23 => "LZS-DCP",
        24 | 26 => "Deflate",
        _ => "Unknown",
    };
    if head(text, &[], name, kind, length) {
        bytes_below(text, value);
    }
    Ok(())
}

/// Of a protocol whose options are not known.
pub(super) fn none(_: &mut Text<'_>, _: u8, _: usize, _: Cursor<'_>) -> Result<(), Stop> {
    Ok(())
}
