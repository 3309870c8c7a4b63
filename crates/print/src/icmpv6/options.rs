//! Router advertisements, and the options of neighbour discovery (RFC 4861, 4191, 6275, 8106).

use crate::application::Text;
use crate::application::names::{self, domains};
use crate::cursor::{Cursor, Stop};
use crate::put;
use std::fmt::Write;
use std::net::Ipv6Addr;

/// The fields of a router advertisement, of which `rest` is the first word.
pub(super) fn router(text: &mut Text<'_>, rest: u32, fields: &mut Cursor<'_>) -> Result<(), Stop> {
    let flags = [(1 << 23, "managed"), (1 << 22, "other stateful"), (1 << 21, "home agent")];
    put!(text, "\n\thop limit {}, Flags [", rest >> 24);
    names::flags(text.out, rest, &flags);
    let (reachable, retransmit) = (fields.u32()?, fields.u32()?);
    put!(text, "], pref {}, router lifetime {}s", preference(rest >> 16), rest & 0xffff);
    put!(text, ", reachable time {reachable}ms, retrans timer {retransmit}ms");
    Ok(())
}

/// RFC 4191 section 2.1.
fn preference(flags: u32) -> &'static str {
    ["medium", "high", "rsv", "low"][(flags >> 3 & 3) as usize]
}

pub(super) fn print(text: &mut Text<'_>, mut cursor: Cursor<'_>) -> Result<(), Stop> {
    while !cursor.is_empty() {
        let (kind, units) = (cursor.u8()?, cursor.u8()?);
        if units == 0 {
            return Err(Stop::Cut);
        }
        let bytes = 8 * usize::from(units);
        put!(text, "\n\t  {} option ({kind}), length {bytes} ({units}): ", name(kind));
        let value = cursor.part(bytes - 2)?;
        option(text, kind, value)?;
    }
    Ok(())
}

fn name(kind: u8) -> &'static str {
    match kind {
        1 => "source link-address",
        2 => "destination link-address",
        3 => "prefix info",
        4 => "redirected header",
        5 => "mtu",
        7 => "advertisement interval",
        8 => "homeagent information",
        24 => "route info",
        25 => "rdnss",
        31 => "dnssl",
        _ => "unknown",
    }
}

fn option(text: &mut Text<'_>, kind: u8, mut value: Cursor<'_>) -> Result<(), Stop> {
    match kind {
        1 | 2 => {
            for (index, byte) in value.rest().iter().enumerate() {
                let colon = if index > 0 { ":" } else { "" };
                put!(text, "{colon}{byte:02x}");
            }
        }
        3 => prefix(text, value)?,
        4 => crate::hex::below(text.out, value.take(6).map(|_| value.rest())?, "\n\t    "),
        5 => {
            value.u16()?;
            put!(text, " {}", value.u32()?);
        }
        7 => {
            value.u16()?;
            put!(text, " {}ms", value.u32()?);
        }
        8 => {
            value.u16()?;
            let (preference, lifetime) = (value.u16()?, value.u16()?);
            put!(text, " preference {preference}, lifetime {lifetime}");
        }
        24 => {
            let (bits, flags) = (value.u8()?, value.u8()?);
            put!(text, " ");
            let lifetime = value.u32()?;
            let mut prefix = [0; 16];
            prefix.iter_mut().zip(value.rest()).for_each(|(to, from)| *to = *from);
            put!(text, "{}/{bits}, ", Ipv6Addr::from(prefix));
            put!(text, "pref={}, lifetime=", preference(flags.into()));
            lifetime_of(text, lifetime);
        }
        25 => {
            value.u16()?;
            text.out.push_str(" lifetime ");
            lifetime_of(text, value.u32()?);
            text.out.push(',');
            while let Ok(address) = value.ipv6() {
                put!(text, " addr: {address}");
            }
        }
        31 => {
            value.u16()?;
            text.out.push_str(" lifetime ");
            lifetime_of(text, value.u32()?);
            text.out.push_str(", domain(s):");
            domains(text.out, value);
        }
        _ => crate::hex::below(text.out, value.rest(), "\n\t  "),
    }
    Ok(())
}

fn prefix(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let (bits, flags) = (value.u8()?, value.u8()?);
    let (valid, preferred, _) = (value.u32()?, value.u32()?, value.u32()?);
    put!(text, "{}/{bits}, Flags [", value.ipv6()?);
    names::flags(text.out, flags.into(), &[(0x80, "onlink"), (0x40, "auto"), (0x20, "router")]);
    text.out.push_str("], valid time ");
    lifetime_of(text, valid);
    text.out.push_str(", pref. time ");
    lifetime_of(text, preferred);
    Ok(())
}

fn lifetime_of(text: &mut Text<'_>, seconds: u32) {
    match seconds {
        u32::MAX => text.out.push_str("infinity"),
        _ => {
            put!(text, "{seconds}s");
        }
    }
}
