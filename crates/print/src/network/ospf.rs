//! OSPF (RFC 2328) and OSPF for IPv6 (RFC 5340): kinds of packets; with -v the fields of hellos and
//! headers of what is advertised.

use crate::application::Text;
use crate::application::names::{self, escaped, until_zero};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

const HELLO: u8 = 1;
const DESCRIPTION: u8 = 2;
const UPDATE: u8 = 4;
const ACKNOWLEDGMENT: u8 = 5;
/// Bytes of the header of an advertisement.
const ADVERTISEMENT_BYTES: usize = 20;

pub(super) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const NAMES: [&str; 6] =
        ["", "Hello", "Database Description", "LS-Request", "LS-Update", "LS-Ack"];
    let mut cursor = payload.cursor();
    let (version, kind, length) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    put!(text, "OSPFv{version}");
    match NAMES.get(usize::from(kind)).filter(|name| !name.is_empty()) {
        Some(name) => {
            put!(text, ", {name}");
        }
        None => {
            put!(text, ", unknown LS-type {kind}");
        }
    }
    put!(text, ", length {}", payload.length);
    if text.verbosity == 0 || !matches!(version, 2 | 3) {
        return Ok(());
    }
    if payload.length != usize::from(length) {
        put!(text, " [len {length}]");
    }
    let (router, area) = (cursor.ipv4()?, cursor.ipv4()?);
    put!(text, "\n\tRouter-ID {router}");
    match area.is_unspecified() {
        true => text.out.push_str(", Backbone Area"),
        false => {
            put!(text, ", Area {area}");
        }
    }
    cursor.u16()?;
    if version == 2 {
        authentication(text, &mut cursor)?;
    } else {
        let instance = cursor.u8()?;
        if instance > 0 {
            put!(text, ", Instance 0x{instance:02x}");
        }
        cursor.u8()?;
    }
    match (kind, version) {
        (HELLO, 2) => hello(text, cursor),
        (HELLO, _) => hello_v3(text, cursor),
        (DESCRIPTION, 2) => description(text, cursor),
        (UPDATE, 2) => {
            let count = cursor.u32()?;
            put!(text, ", {count} LSA{}", if count == 1 { "" } else { "s" });
            Ok(())
        }
        (ACKNOWLEDGMENT, 2) => {
            while cursor.left() >= ADVERTISEMENT_BYTES {
                advertisement(text, &mut cursor)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn authentication(text: &mut Text<'_>, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    let kind = cursor.u16()?;
    let name = match kind {
        0 => "none",
        1 => "simple",
        2 => "MD5",
        _ => "unknown",
    };
    put!(text, ", Authentication Type: {name} ({kind})");
    match kind {
        1 => {
            let secret = cursor.take(8)?;
            let secret = until_zero(secret);
            text.out.push_str("\n\tSimple text password: ");
            escaped(text.out, secret);
        }
        2 => {
            let (_, key, bytes, sequence) =
                (cursor.u16()?, cursor.u8()?, cursor.u8()?, cursor.u32()?);
            put!(text, "\n\tKey-ID: {key}, Auth-Length: {bytes}");
            put!(text, ", Crypto Sequence Number: 0x{sequence:08x}");
        }
        _ => {
            cursor.take(8)?;
        }
    }
    Ok(())
}

fn options(text: &mut Text<'_>, set: u8) {
    let bits = [
        (0x01, "MultiTopology"),
        (0x02, "External"),
        (0x04, "Multicast"),
        (0x08, "NSSA"),
        (0x10, "LLS"),
        (0x20, "Demand Circuit"),
        (0x40, "Opaque"),
        (0x80, "Up/Down"),
    ];
    names::flags(text.out, set.into(), &bits);
}

fn hello(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    let (mask, interval) = (cursor.ipv4()?, cursor.u16()?);
    let (set, priority, dead) = (cursor.u8()?, cursor.u8()?, cursor.u32()?);
    text.out.push_str("\n\tOptions [");
    options(text, set);
    put!(text, "]\n\t  Hello Timer {interval}s, Dead Timer {dead}s, Mask {mask}");
    put!(text, ", Priority {priority}");
    designated(text, cursor)
}

/// The designated routers, and neighbours.
fn designated(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    let (router, backup) = (cursor.ipv4()?, cursor.ipv4()?);
    if !router.is_unspecified() {
        put!(text, "\n\t  Designated Router {router}");
    }
    if !backup.is_unspecified() {
        put!(text, ", Backup Designated Router {backup}");
    }
    if cursor.left() >= 4 {
        text.out.push_str("\n\t  Neighbor List:");
    }
    while let Ok(neighbour) = cursor.ipv4() {
        put!(text, "\n\t    {neighbour}");
    }
    Ok(())
}

fn hello_v3(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    let (interface, set) = (cursor.ipv4()?, cursor.u32()?);
    let (interval, dead) = (cursor.u16()?, cursor.u16()?);
    let bits = [
        (0x01, "V6"),
        (0x02, "External"),
        (0x04, "Deprecated"),
        (0x08, "NSSA"),
        (0x10, "Router"),
        (0x20, "Demand Circuit"),
    ];
    text.out.push_str("\n\tOptions [");
    names::flags(text.out, set & 0xff_ffff, &bits);
    put!(text, "]\n\t  Hello Timer {interval}s, Dead Timer {dead}s");
    put!(text, ", Interface-ID {interface}, Priority {}", set >> 24);
    designated(text, cursor)
}

fn description(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    let (mtu, set, state, sequence) = (cursor.u16()?, cursor.u8()?, cursor.u8()?, cursor.u32()?);
    text.out.push_str("\n\tOptions [");
    options(text, set);
    text.out.push_str("], DD Flags [");
    names::flags(text.out, state.into(), &[(4, "Init"), (2, "More"), (1, "Master")]);
    put!(text, "], MTU: {mtu}, Sequence: 0x{sequence:08x}");
    while cursor.left() >= ADVERTISEMENT_BYTES {
        advertisement(text, &mut cursor)?;
    }
    Ok(())
}

/// The header of an advertisement.
fn advertisement(text: &mut Text<'_>, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    let (age, set, kind) = (cursor.u16()?, cursor.u8()?, cursor.u8()?);
    let (id, router) = (cursor.ipv4()?, cursor.ipv4()?);
    let (sequence, _, length) = (cursor.u32()?, cursor.u16()?, usize::from(cursor.u16()?));
    let bytes = length.saturating_sub(ADVERTISEMENT_BYTES);
    put!(text, "\n\t  Advertising Router {router}, seq 0x{sequence:08x}");
    put!(text, ", age {age}s, length {bytes}\n\t    ");
    let name = match kind {
        1 => "Router",
        2 => "Network",
        3 => "Summary",
        4 => "ASBR Summary",
        5 => "External",
        6 => "Multicast",
        7 => "NSSA",
        9 => "Link Local Opaque",
        10 => "Area Local Opaque",
        11 => "Domain Local Opaque",
        _ => "unknown",
    };
    put!(text, "{name} LSA ({kind}), LSA-ID: {id}\n\t    Options: [");
    options(text, set);
    text.out.push(']');
    Ok(())
}
