//! Link layer discovery (IEEE 802.1AB); with -v every field.

use crate::application::Text;
use crate::application::names::escaped;
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

const END: u16 = 0;
const CHASSIS: u16 = 1;
const PORT: u16 = 2;
const TIME_TO_LIVE: u16 = 3;
const SYSTEM_NAME: u16 = 5;
const CAPABILITIES: u16 = 7;
const MANAGEMENT: u16 = 8;
const ORGANISATION: u16 = 127;

pub(crate) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    put!(text, "LLDP, length {}", payload.length);
    let mut cursor = payload.cursor();
    while !cursor.is_empty() {
        let head = cursor.u16()?;
        let (kind, bytes) = (head >> 9, usize::from(head & 0x1ff));
        if text.verbosity > 0 {
            put!(text, "\n\t{} TLV ({kind}), length {bytes}", name(kind));
        }
        let value = cursor.part(bytes)?;
        if text.verbosity > 0 {
            field(text, kind, value)?;
        } else if kind == SYSTEM_NAME {
            text.out.push_str(": ");
            escaped(text.out, value.rest());
        }
        if kind == END {
            break;
        }
    }
    Ok(())
}

fn name(kind: u16) -> &'static str {
    match kind {
        END => "End",
        CHASSIS => "Chassis ID",
        PORT => "Port ID",
        TIME_TO_LIVE => "Time to Live",
        4 => "Port Description",
        SYSTEM_NAME => "System Name",
        6 => "System Description",
        CAPABILITIES => "System Capabilities",
        MANAGEMENT => "Management Address",
        ORGANISATION => "Organization specific",
        _ => "Unknown",
    }
}

fn field(text: &mut Text<'_>, kind: u16, mut value: Cursor<'_>) -> Result<(), Stop> {
    match kind {
        CHASSIS | PORT => identifier(text, kind, value)?,
        TIME_TO_LIVE => {
            put!(text, ": TTL {}s", value.u16()?);
        }
        4..=6 => {
            text.out.push_str(if kind == 6 { "\n\t  " } else { ": " });
            escaped(text.out, value.rest());
        }
        CAPABILITIES => {
            for label in ["System", "Enabled"] {
                let set = value.u16()?;
                put!(text, "\n\t  {label} Capabilities [");
                capabilities(text, set);
                put!(text, "] (0x{set:04x})");
            }
        }
        MANAGEMENT => management(text, value)?,
        ORGANISATION => {
            let organisation = value.u24()?;
            let name = match organisation {
                0x00_80c2 => "Ethernet bridged",
                0x00_120f => "IEEE 802.3 Private",
                0x00_12bb => "ANSI/TIA",
                0x00_000c => "Cisco",
                _ => "Unknown",
            };
            put!(text, ": OUI {name} (0x{organisation:06x})");
            crate::hex::below(text.out, value.rest(), "\n\t  ");
        }
        _ => crate::hex::below(text.out, value.rest(), "\n\t  "),
    }
    Ok(())
}

fn identifier(text: &mut Text<'_>, kind: u16, mut value: Cursor<'_>) -> Result<(), Stop> {
    const CHASSIS_KINDS: [&str; 7] = [
        "Chassis component",
        "Interface alias",
        "Port component",
        "MAC address",
        "Network address",
        "Interface name",
        "Local",
    ];
    const PORT_KINDS: [&str; 7] = [
        "Interface alias",
        "Port component",
        "MAC address",
        "Network address",
        "Interface Name",
        "Agent circuit ID",
        "Local",
    ];
    let kinds = if kind == CHASSIS { CHASSIS_KINDS } else { PORT_KINDS };
    let subtype = value.u8()?;
    let name = usize::from(subtype).checked_sub(1).and_then(|index| kinds.get(index).copied());
    let name = name.unwrap_or("Reserved");
    put!(text, "\n\t  Subtype {name} ({subtype}): ");
    match name {
        "MAC address" => {
            put!(text, "{}", value.mac()?);
        }
        "Network address" => network_address(text, value)?,
        _ => escaped(text.out, value.rest()),
    }
    Ok(())
}

fn network_address(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let family = value.u8()?;
    match family {
        1 => {
            put!(text, "AFI IPv4 (1): {}", value.ipv4()?);
        }
        2 => {
            put!(text, "AFI IPv6 (2): {}", value.ipv6()?);
        }
        6 => {
            put!(text, "AFI 802 (6): {}", value.mac()?);
        }
        other => {
            put!(text, "AFI {other}, no AF printer !");
        }
    }
    Ok(())
}

fn management(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let bytes = usize::from(value.u8()?);
    put!(text, "\n\t  Management Address length {bytes}, ");
    network_address(text, value.part(bytes)?)?;
    let (numbering, number) = (value.u8()?, value.u32()?);
    let name = match numbering {
        2 => "Interface Index",
        3 => "System Port Number",
        _ => "Unknown",
    };
    put!(text, "\n\t  {name} Interface Numbering ({numbering}): {number}");
    let bytes = usize::from(value.u8()?);
    if bytes > 0 {
        put!(text, "\n\t  OID length {bytes}");
        crate::hex::below(text.out, value.take(bytes)?, "\n\t    ");
    }
    Ok(())
}

fn capabilities(text: &mut Text<'_>, set: u16) {
    let names = [
        (1, "Other"),
        (2, "Repeater"),
        (4, "Bridge"),
        (8, "WLAN AP"),
        (16, "Router"),
        (32, "Telephone"),
        (64, "Docsis"),
        (128, "Station Only"),
    ];
    crate::application::names::flags(text.out, set.into(), &names);
}
