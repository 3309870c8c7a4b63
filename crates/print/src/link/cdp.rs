//! Cisco's discovery protocol.

use crate::application::Text;
use crate::application::names::escaped;
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

const DEVICE: u16 = 1;

/// Version, time to live and the device's name; with -v every field.
pub(crate) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (version, ttl, sum) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    put!(text, "CDPv{version}, ttl: {ttl}s");
    let is_verbose = text.verbosity > 0;
    if is_verbose {
        put!(text, ", checksum: 0x{sum:04x} (unverified), length {}", payload.length);
    }
    while !cursor.is_empty() {
        let (kind, length) = (cursor.u16()?, usize::from(cursor.u16()?));
        let bytes = length.checked_sub(4).ok_or(Stop::Invalid)?;
        if bytes > cursor.left() && !payload.is_cut() {
            put!(text, " (TLV length {length} > {})", cursor.left() + 4);
            return Err(Stop::Invalid);
        }
        let value = cursor.part(bytes)?;
        if is_verbose {
            let plural = if bytes == 1 { "" } else { "s" };
            let name = name(kind);
            put!(text, "\n\t{name} (0x{kind:02x}), value length: {bytes} byte{plural}: ");
            field(text, kind, value)?;
        } else if kind == DEVICE {
            text.out.push_str(", Device-ID ");
            quoted(text, value);
        }
    }
    if !is_verbose {
        put!(text, ", length {}", payload.length);
    }
    Ok(())
}

fn name(kind: u16) -> &'static str {
    match kind {
        DEVICE => "Device-ID",
        2 => "Address",
        3 => "Port-ID",
        4 => "Capability",
        5 => "Version String",
        6 => "Platform",
        7 => "Prefixes",
        8 => "Protocol-Hello option",
        9 => "VTP Management Domain",
        10 => "Native VLAN ID",
        11 => "Duplex",
        14 => "ATA-186 VoIP VLAN assignment",
        15 => "ATA-186 VoIP VLAN request",
        16 => "power consumption",
        17 => "MTU",
        18 => "AVVID trust bitmap",
        19 => "AVVID untrusted ports CoS",
        20 => "System Name",
        21 => "System Object ID (not decoded)",
        22 => "Management Addresses",
        23 => "Physical Location",
        _ => "Unknown field type",
    }
}

fn quoted(text: &mut Text<'_>, value: Cursor<'_>) {
    text.out.push('\'');
    escaped(text.out, value.rest());
    text.out.push('\'');
}

fn field(text: &mut Text<'_>, kind: u16, mut value: Cursor<'_>) -> Result<(), Stop> {
    match kind {
        DEVICE | 3 | 6 | 9 | 20 => quoted(text, value),
        2 | 22 => addresses(text, value)?,
        4 => capabilities(text, value.u32()?),
        5 => {
            for line in value.rest().split(|byte| *byte == b'\n') {
                text.out.push_str("\n\t  ");
                escaped(text.out, line);
            }
        }
        7 => {
            put!(text, " IPv4 Prefixes ({}):", value.left() / 5);
            while let (Ok(address), Ok(bits)) = (value.ipv4(), value.u8()) {
                put!(text, " {address}/{bits}");
            }
        }
        10 => {
            put!(text, "{}", value.u16()?);
        }
        11 => text.out.push_str(if value.u8()? != 0 { "full" } else { "half" }),
        17 => {
            put!(text, "{} bytes", value.u32()?);
        }
        18 | 19 => {
            put!(text, "0x{:02x}", value.u8()?);
        }
        _ => crate::hex::below(text.out, value.rest(), "\n\t  "),
    }
    Ok(())
}

/// Each with the kind of its protocol.
fn addresses(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let count = value.u32()?;
    let mut comma = "";
    for _ in 0..count {
        if value.is_empty() {
            return Err(Stop::Cut);
        }
        let (kind, bytes) = (value.u8()?, usize::from(value.u8()?));
        let protocol = value.take(bytes)?;
        let bytes = usize::from(value.u16()?);
        let mut address = value.part(bytes)?;
        match (kind, protocol, bytes) {
            (1, [0xcc], 4) => {
                put!(text, "{comma}IPv4 ({count}) {}", address.ipv4()?);
            }
            (2, _, 16) => {
                put!(text, "{comma}IPv6 ({count}) {}", address.ipv6()?);
            }
            _ => {
                put!(text, "{comma}pt=0x{kind:02x}, pl={}, al={bytes}", protocol.len());
            }
        }
        comma = ", ";
    }
    Ok(())
}

fn capabilities(text: &mut Text<'_>, set: u32) {
    let names = [
        (1, "Router"),
        (2, "TB Bridge"),
        (4, "SR Bridge"),
        (8, "L2 Switch"),
        (16, "L3 capable"),
        (32, "IGMP snooping"),
        (64, "L1 capable"),
    ];
    put!(text, "(0x{set:08x}): ");
    crate::application::names::flags(text.out, set, &names);
}
