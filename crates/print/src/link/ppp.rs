//! PPP's control protocols (RFC 1661, 1332, 5072) and what proves who a peer is (RFC 1334, 1994).

mod options;

use crate::application::names::{escaped, hex};
use crate::application::{Protocol, Text};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Bytes of a control message before its data.
const HEADER_BYTES: usize = 4;

/// The protocol of a number whose text is made.
pub(crate) fn protocol(number: u16) -> Option<Protocol> {
    Some(match number {
        0xc021 => Protocol::new("LCP", lcp),
        0x8021 => Protocol::new("IPCP", ipcp),
        0x8057 => Protocol::new("IP6CP", ip6cp),
        0x80fd => Protocol::new("CCP", ccp),
        0x8281 => Protocol::new("MPLSCP", mplscp),
        0xc023 => Protocol::new("pap", pap),
        0xc223 => Protocol::new("chap", chap),
        0x00fd => Protocol::new("ppp", compressed),
        _ => return None,
    })
}

/// A protocol of which only the name is known.
pub(crate) fn name(number: u16) -> Option<&'static str> {
    Some(match number {
        0xc025 => "LQM",
        0xc227 => "EAP",
        0x0031 => "BRPDU",
        0x8029 => "APPLECP",
        0x002d => "VJC IP",
        _ => return None,
    })
}

fn lcp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    control(text, payload, "LCP", options::lcp)
}

fn ipcp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    control(text, payload, "IPCP", options::ipcp)
}

fn ip6cp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    control(text, payload, "IP6CP", options::ip6cp)
}

fn ccp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    control(text, payload, "CCP", options::ccp)
}

fn mplscp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    control(text, payload, "MPLSCP", options::none)
}

fn compressed(text: &mut Text<'_>, _: Payload<'_>) -> Result<(), Stop> {
    text.out.push_str("compressed PPP data");
    Ok(())
}

/// Appends one option, behind its line feed.
type PrintOption = fn(&mut Text<'_>, u8, usize, Cursor<'_>) -> Result<(), Stop>;

fn control(
    text: &mut Text<'_>,
    payload: Payload<'_>,
    name: &str,
    option: PrintOption,
) -> Result<(), Stop> {
    const CODES: [&str; 16] = [
        "Vendor-Extension",
        "Conf-Request",
        "Conf-Ack",
        "Conf-Nack",
        "Conf-Reject",
        "Term-Request",
        "Term-Ack",
        "Code-Reject",
        "Prot-Reject",
        "Echo-Request",
        "Echo-Reply",
        "Disc-Req",
        "Ident",
        "Time-Rem",
        "Reset-Req",
        "Reset-Ack",
    ];
    put!(text, "{name}, ");
    let mut cursor = payload.cursor();
    if payload.length < HEADER_BYTES {
        put!(text, "[|{name}]");
        return Ok(());
    }
    let (code, id) = (cursor.u8()?, cursor.u8()?);
    let code_name = CODES.get(usize::from(code)).copied().unwrap_or("Unknown Opcode");
    // tcpdump counts the protocol's number, too.
    put!(text, "{code_name} (0x{code:02x}), id {id}, length {}", payload.length + 2);
    if text.verbosity == 0 {
        return Ok(());
    }
    let length = usize::from(cursor.u16()?);
    if length > payload.length {
        put!(text, "\n\tencoded length {length} (> packet length {}))", payload.length);
        return Ok(());
    }
    let Some(left) = length.checked_sub(HEADER_BYTES) else {
        put!(text, "\n\tencoded length {length} (< {HEADER_BYTES}))");
        return Ok(());
    };
    put!(text, "\n\tencoded length {length} (=Option(s) length {left})");
    let data = cursor.part_at_most(left);
    match code {
        1..=4 => all_options(text, data, left, option),
        8 => rejected(text, data),
        9..=11 => magic(text, data),
        13 => {
            let mut data = data;
            put!(text, "\n\t  Magic-Num 0x{:08x}", data.u32()?);
            put!(text, ", Seconds-Remaining {}s", data.u32()?);
            Ok(())
        }
        5..=7 => Ok(()),
        _ => {
            crate::hex::below(text.out, data.rest(), "\n\t  ");
            Ok(())
        }
    }
}

fn all_options(
    text: &mut Text<'_>,
    mut data: Cursor<'_>,
    left: usize,
    option: PrintOption,
) -> Result<(), Stop> {
    let is_cut = data.left() < left;
    while data.left() >= 2 {
        let (kind, length) = (data.u8()?, usize::from(data.u8()?));
        if length < 2 {
            option(text, kind, length, Cursor::new(&[]))?;
            return Ok(());
        }
        match data.part(length - 2) {
            Ok(value) => option(text, kind, length, value)?,
            Err(stop) if is_cut => return Err(stop),
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

fn rejected(text: &mut Text<'_>, mut data: Cursor<'_>) -> Result<(), Stop> {
    let number = data.u16()?;
    let name = protocol(number).map_or_else(|| name(number).unwrap_or("unknown"), |p| p.name());
    put!(text, "\n\t  Rejected {name} Protocol (0x{number:04x})");
    if !data.is_empty() {
        text.out.push_str("\n\t  Rejected Packet");
        crate::hex::below(text.out, data.rest(), "\n\t    ");
    }
    Ok(())
}

fn magic(text: &mut Text<'_>, mut data: Cursor<'_>) -> Result<(), Stop> {
    put!(text, "\n\t  Magic-Num 0x{:08x}", data.u32()?);
    if !data.is_empty() {
        text.out.push_str("\n\t  -----trailing data-----");
        crate::hex::below(text.out, data.rest(), "\n\t  ");
    }
    Ok(())
}

fn pap(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let (code, mut data) = proof(text, payload, "PAP", &["", "Auth-Req", "Auth-ACK", "Auth-NACK"])?;
    let labels: &[&str] = if code == 1 { &["Peer", "Name"] } else { &["Msg"] };
    for label in labels {
        if data.is_empty() {
            break;
        }
        put!(text, ", {label} ");
        let bytes = usize::from(data.u8()?);
        escaped(text.out, data.take(bytes)?);
    }
    Ok(())
}

fn chap(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let names = ["", "Challenge", "Response", "Success", "Fail"];
    let (code, mut data) = proof(text, payload, "CHAP", &names)?;
    match code {
        1 | 2 => {
            let bytes = usize::from(data.u8()?);
            text.out.push_str(", Value ");
            hex(text.out, data.take(bytes)?);
            text.out.push_str(", Name ");
        }
        _ => text.out.push_str(", Msg "),
    }
    escaped(text.out, data.rest());
    Ok(())
}

/// Code and number of a message, and its data.
fn proof<'p>(
    text: &mut Text<'_>,
    payload: Payload<'p>,
    name: &str,
    codes: &[&str],
) -> Result<(u8, Cursor<'p>), Stop> {
    put!(text, "{name}, ");
    let mut cursor = payload.cursor();
    let (code, id, length) = (cursor.u8()?, cursor.u8()?, usize::from(cursor.u16()?));
    let code_name = codes.get(usize::from(code)).filter(|name| !name.is_empty());
    put!(text, "{} (0x{code:02x}), id {id}", code_name.unwrap_or(&"unknown"));
    let data = cursor.part_at_most(length.saturating_sub(HEADER_BYTES));
    Ok((code, data))
}
