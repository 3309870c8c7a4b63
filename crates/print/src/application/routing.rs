//! Routing over UDP: RIP (RFC 1058, 2453), RIPng (RFC 2080), HSRP (RFC 2281).

use super::Text;
use super::names::{escaped, until_zero};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Bytes of a route.
const ROUTE_BYTES: usize = 20;
/// Bytes before the routes.
const HEADER_BYTES: usize = 4;

pub(super) fn rip(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (command, version, _) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    if text.verbosity > 0 {
        text.out.push_str("\n\t");
    }
    put!(text, "RIPv{version}, ");
    match command {
        1 => text.out.push_str("Request"),
        2 => text.out.push_str("Response"),
        other => {
            put!(text, "unknown command ({other})");
        }
    }
    put!(text, ", length: {}", payload.length);
    if text.verbosity == 0 {
        return Ok(());
    }
    if !matches!(command, 1 | 2) {
        crate::hex::below(text.out, payload.bytes, "\n\t");
        return Ok(());
    }
    let routes = payload.length.saturating_sub(HEADER_BYTES) / ROUTE_BYTES;
    let least = if version > 1 { " or less" } else { "" };
    put!(text, ", routes: {routes}{least}");
    while cursor.left() >= ROUTE_BYTES {
        let route = cursor.part(ROUTE_BYTES)?;
        route_text(text, version, route)?;
    }
    Ok(())
}

fn route_text(text: &mut Text<'_>, version: u8, mut route: Cursor<'_>) -> Result<(), Stop> {
    const AUTHENTICATION: u16 = 0xffff;
    let (family, tag) = (route.u16()?, route.u16()?);
    if family == AUTHENTICATION && version > 1 {
        if tag == 2 {
            let secret = route.rest();
            let secret = until_zero(secret);
            text.out.push_str("\n\t  Simple Text Authentication data: ");
            escaped(text.out, secret);
        }
        return Ok(());
    }
    let (network, mask, next) = (route.ipv4()?, route.u32()?, route.ipv4()?);
    let metric = route.u32()?;
    match (version, family) {
        (1, 2) => {
            put!(text, "\n\t  {network}, metric: {metric}");
        }
        (_, 2) => {
            let network = format!("{network}/{}", mask.leading_ones());
            put!(text, "\n\t  AFI IPv4, {network:>18}, tag 0x{tag:04x}, metric: {metric}");
            match next.is_unspecified() {
                true => text.out.push_str(", next-hop: self"),
                false => {
                    put!(text, ", next-hop: {next}");
                }
            }
        }
        _ => {
            put!(text, "\n\t  AFI {family}, {network}, metric: {metric}");
        }
    }
    Ok(())
}

/// A route of IPv6: prefix, tag, length of the prefix, metric.
pub(super) fn ripng(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const REQUEST: u8 = 1;
    const RESPONSE: u8 = 2;
    if payload.length < HEADER_BYTES {
        return Err(Stop::Invalid);
    }
    let mut cursor = payload.cursor();
    let (command, version, _) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    let length = payload.length - HEADER_BYTES;
    if version != 1 {
        put!(text, " [vers {version}]");
        return Err(Stop::Invalid);
    }
    let kind = match command {
        REQUEST => "req",
        RESPONSE => "resp",
        other => {
            put!(text, " ripng-{other} ?? {length}");
            return Err(Stop::Invalid);
        }
    };
    let routes = length / ROUTE_BYTES;
    let is_all = command == REQUEST && routes == 1 && cursor.rest().get(19) == Some(&16);
    if is_all {
        text.out.push_str(" ripng-req dump");
        return Ok(());
    }
    match text.verbosity {
        0 | 1 => {
            put!(text, " ripng-{kind} {routes}:");
        }
        _ => {
            put!(text, " ripng-{kind}[{length}] {routes}:");
        }
    }
    while cursor.left() >= ROUTE_BYTES {
        let (prefix, tag) = (cursor.ipv6()?, cursor.u16()?);
        let (bits, metric) = (cursor.u8()?, cursor.u8()?);
        text.out.push_str(if text.verbosity > 0 { "\n\t" } else { " " });
        put!(text, "{prefix}/{bits}");
        if tag > 0 {
            put!(text, " [{tag}]");
        }
        put!(text, " ({metric})");
    }
    Ok(())
}

pub(super) fn hsrp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (version, code, state) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
    put!(text, "HSRPv{version}");
    if version != 0 {
        return Ok(());
    }
    let code = ["hello", "coup", "resign"].get(usize::from(code)).copied().unwrap_or("unknown");
    let state = match state {
        0 => "initial",
        1 => "learn",
        2 => "listen",
        4 => "speak",
        8 => "standby",
        16 => "active",
        _ => "unknown",
    };
    let (hello, hold, priority, group, reserved) =
        (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    put!(text, "-{code} {}: state={state} group={group}", payload.length);
    if reserved != 0 {
        put!(text, " [reserved={reserved}!]");
    }
    let secret = cursor.take(8)?;
    put!(text, " addr={}", cursor.ipv4()?);
    if text.verbosity > 0 {
        text.out.push_str(" hellotime=");
        super::names::duration(text.out, hello.into());
        text.out.push_str(" holdtime=");
        super::names::duration(text.out, hold.into());
        put!(text, " priority={priority} auth=\"");
        let secret = until_zero(secret);
        escaped(text.out, secret);
        text.out.push('"');
    }
    Ok(())
}
