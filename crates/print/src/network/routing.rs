//! Small protocols of routers: PIM (RFC 7761), VRRP (RFC 5798), EIGRP (RFC 7868).

use crate::application::Text;
use crate::application::names::{self, duration, escaped, until_zero};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use ringside_wire::checksum::checksum;
use std::fmt::Write;

pub(super) fn pim(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const NAMES: [&str; 11] = [
        "Hello",
        "Register",
        "Register Stop",
        "Join / Prune",
        "Bootstrap",
        "Assert",
        "Graft",
        "Graft Acknowledgement",
        "Candidate RP Advertisement",
        "Prune Refresh",
        "DF Election",
    ];
    let mut cursor = payload.cursor();
    let first = cursor.u8()?;
    let (version, kind) = (first >> 4, first & 0xf);
    put!(text, "PIMv{version}");
    let name = NAMES.get(usize::from(kind)).filter(|_| version == 2);
    if text.verbosity == 0 {
        if let Some(name) = name {
            put!(text, ", {name}");
        }
        put!(text, ", length {}", payload.length);
        return Ok(());
    }
    put!(text, ", length {}", payload.length);
    let Some(name) = name else { return Ok(()) };
    cursor.u8()?;
    let sum = cursor.u16()?;
    let verdict = match payload.is_cut() || sum == 0 {
        true => "unverified",
        false if checksum(payload.bytes) == 0 => "correct",
        false => "incorrect",
    };
    put!(text, "\n\t{name}, cksum 0x{sum:04x} ({verdict})");
    if kind == 0 { pim_hello(text, cursor) } else { Ok(()) }
}

fn pim_hello(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    while !cursor.is_empty() {
        let (kind, length) = (cursor.u16()?, cursor.u16()?);
        let name = match kind {
            1 => "Hold Time",
            2 => "LAN Prune Delay",
            18 => "DR Priority (deprecated)",
            19 => "DR Priority",
            20 => "Generation ID",
            21 => "State Refresh Capability",
            22 => "Bi-Directional Capability",
            24 | 65001 => "Address List",
            _ => "Unknown",
        };
        put!(text, "\n\t  {name} Option ({kind}), length {length}, Value: ");
        let mut value = cursor.part(length.into())?;
        match (kind, length) {
            (1, 2) => match value.u16()? {
                u16::MAX => text.out.push_str("infinite"),
                seconds => duration(text.out, seconds.into()),
            },
            (2, 4) => {
                let (delay, interval) = (value.u16()?, value.u16()?);
                put!(text, "\n\t    T-bit={}, LAN delay {}ms", delay >> 15, delay & 0x7fff);
                put!(text, ", Override interval {interval}ms");
            }
            (19, 4) => {
                put!(text, "{}", value.u32()?);
            }
            (20, 4) => {
                put!(text, "0x{:08x}", value.u32()?);
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn vrrp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const ADVERTISEMENT: u8 = 1;
    let mut cursor = payload.cursor();
    let first = cursor.u8()?;
    let (version, kind) = (first >> 4, first & 0xf);
    put!(text, "VRRPv{version}");
    match kind {
        ADVERTISEMENT => text.out.push_str(", Advertisement"),
        _ => {
            put!(text, ", unknown type ({kind})");
        }
    }
    if !matches!(version, 2 | 3) || kind != ADVERTISEMENT {
        return Ok(());
    }
    let (router, priority, count) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
    put!(text, ", vrid {router}, prio {priority}");
    let (kind, interval) = (cursor.u8()?, cursor.u8()?);
    if version == 2 {
        let name = match kind {
            0 => "none",
            1 => "simple",
            2 => "ah",
            _ => "unknown",
        };
        put!(text, ", authtype {name}, intvl {interval}s");
    } else {
        put!(text, ", intvl {}cs", u16::from(kind & 0xf) << 8 | u16::from(interval));
    }
    put!(text, ", length {}", payload.length);
    if text.verbosity == 0 {
        return Ok(());
    }
    let sum = cursor.u16()?;
    if version == 2 && !payload.is_cut() && checksum(payload.bytes) != 0 {
        put!(text, ", (bad vrrp cksum {sum:x})");
    }
    text.out.push_str(", addrs");
    if count != 1 {
        put!(text, "({count})");
    }
    let mut separator = ": ";
    for _ in 0..count {
        put!(text, "{separator}{}", cursor.ipv4()?);
        separator = ",";
    }
    if kind == 1 && version == 2 {
        let secret = cursor.take(8)?;
        let secret = until_zero(secret);
        text.out.push_str(" auth \"");
        escaped(text.out, secret);
        text.out.push('"');
    }
    Ok(())
}

pub(super) fn eigrp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (version, code) = (cursor.u8()?, cursor.u8()?);
    if version != 2 {
        put!(text, "EIGRP version {version} packet not supported");
        return Ok(());
    }
    let name = match code {
        1 => "Update",
        3 => "Query",
        4 => "Reply",
        5 => "Hello",
        6 => "IPX SAP",
        7 => "Probe",
        _ => "unknown",
    };
    let unknown = if name == "unknown" { format!(" ({code})") } else { String::new() };
    if text.verbosity == 0 {
        put!(text, "EIGRP {name}{unknown}, length: {}", payload.length);
        return Ok(());
    }
    let (sum, set) = (cursor.u16()?, cursor.u32()?);
    put!(text, "\n\tEIGRP v2, opcode: {name} ({code}), chksum: 0x{sum:04x}, Flags: [");
    names::flags(text.out, set, &[(1, "Init"), (2, "Conditional Receive")]);
    let (sequence, acknowledged) = (cursor.u32()?, cursor.u32()?);
    let (router, system) = (cursor.u16()?, cursor.u16()?);
    put!(text, "]\n\tseq: 0x{sequence:08x}, ack: 0x{acknowledged:08x}, VRID: {router}");
    put!(text, ", AS: {system}, length: {}", payload.length.saturating_sub(20));
    Ok(())
}
