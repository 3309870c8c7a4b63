//! Options of DHCPv6.

use super::{DEPTH_MAX, message};
use crate::application::Text;
use crate::application::names::{domains, hex};
use crate::cursor::{Cursor, Stop};
use crate::put;
use std::fmt::Write;

/// Names by number; those that are empty here are `opt_N`.
const NAMES: [&str; 65] = [
    "",
    "client-ID",
    "server-ID",
    "IA_NA",
    "IA_TA",
    "IA_ADDR",
    "option-request",
    "preference",
    "elapsed-time",
    "relay-message",
    "",
    "authentication",
    "server-unicast",
    "status-code",
    "rapid-commit",
    "user-class",
    "vendor-class",
    "vendor-specific-info",
    "interface-ID",
    "reconfigure-message",
    "reconfigure-accept",
    "SIP-servers-domain",
    "SIP-servers-address",
    "DNS-server",
    "DNS-search-list",
    "IA_PD",
    "IA_PD-prefix",
    "NIS-server",
    "NIS+-server",
    "NIS-domain-name",
    "NIS+-domain-name",
    "SNTP-servers",
    "lifetime",
    "BCMCS-domain-name",
    "BCMCS-server",
    "",
    "Geoconf-Civic",
    "Remote-ID",
    "Subscriber-ID",
    "Client-FQDN",
    "PANA-agent",
    "POSIX-timezone",
    "POSIX-tz-database",
    "Echo-request-option",
    "Lease-query",
    "LQ-client-data",
    "Clt-time",
    "LQ-relay-data",
    "LQ-client-link",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "NTP-server",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "AFTR-Name",
];

fn name(text: &mut Text<'_>, code: u16) {
    match NAMES.get(usize::from(code)) {
        Some(name) if !name.is_empty() => text.out.push_str(name),
        _ => {
            put!(text, "opt_{code}");
        }
    }
}

/// All options; where one is cut, the mark.
pub(super) fn print(text: &mut Text<'_>, mut cursor: Cursor<'_>, depth: u8) {
    while !cursor.is_empty() {
        let Ok((code, value)) = next(&mut cursor) else {
            text.out.push_str(" [|dhcp6]");
            return;
        };
        text.out.push_str(" (");
        name(text, code);
        if option(text, code, value, depth).is_err() {
            text.out.push_str(" ?");
        }
        text.out.push(')');
    }
}

fn next<'a>(cursor: &mut Cursor<'a>) -> Result<(u16, Cursor<'a>), Stop> {
    let (code, length) = (cursor.u16()?, cursor.u16()?);
    Ok((code, cursor.part(usize::from(length))?))
}

/// The value of an option; an error if it is too short for what it is.
fn option(text: &mut Text<'_>, code: u16, mut value: Cursor<'_>, depth: u8) -> Result<(), Stop> {
    match code {
        1 | 2 => identifier(text, value)?,
        3 | 25 => {
            let (id, renew, rebind) = (value.u32()?, value.u32()?, value.u32()?);
            put!(text, " IAID:{id} T1:{renew} T2:{rebind}");
            nested(text, value, depth);
        }
        4 => {
            put!(text, " IAID:{}", value.u32()?);
            nested(text, value, depth);
        }
        5 => {
            let address = value.ipv6()?;
            let (preferred, valid) = (value.u32()?, value.u32()?);
            put!(text, " {address} pltime:{preferred} vltime:{valid}");
            nested(text, value, depth);
        }
        26 => {
            let (preferred, valid) = (value.u32()?, value.u32()?);
            let (bits, prefix) = (value.u8()?, value.ipv6()?);
            put!(text, " {prefix}/{bits} pltime:{preferred} vltime:{valid}");
            nested(text, value, depth);
        }
        6 | 43 => requested(text, value)?,
        7 => {
            put!(text, " {}", value.u8()?);
        }
        8 => {
            put!(text, " {}", value.u16()?);
        }
        9 => {
            text.out.push_str(" (");
            if depth < DEPTH_MAX && message_within(text, value, depth).is_err() {
                text.out.push_str(" [|dhcp6]");
            }
        }
        11 => authentication(text, value)?,
        13 => status(text, value.u16()?),
        18 | 38 => {
            text.out.push(' ');
            let shown = value.part_at_most(10);
            hex(text.out, shown.rest());
            text.out.push_str("...");
        }
        19 => reconfigured(text, value.u8()?),
        21 | 24 => domains(text.out, value),
        22 | 23 | 27 | 28 | 31 | 34 | 40 => addresses(text, value)?,
        32 | 46 => {
            put!(text, " {}", value.u32()?);
        }
        37 => {
            put!(text, " {} ", value.u32()?);
            let shown = value.part_at_most(10);
            hex(text.out, shown.rest());
            text.out.push_str("...");
        }
        45 => nested(text, value, depth),
        64 => {
            if value.left() < 3 {
                return Err(Stop::Cut);
            }
            domains(text.out, value);
        }
        _ => {}
    }
    Ok(())
}

fn message_within(text: &mut Text<'_>, value: Cursor<'_>, depth: u8) -> Result<(), Stop> {
    text.out.push_str("dhcp6");
    message(text, value.rest(), depth + 1)
}

fn nested(text: &mut Text<'_>, value: Cursor<'_>, depth: u8) {
    if depth < DEPTH_MAX && !value.is_empty() {
        print(text, value, depth + 1);
    }
}

/// A DUID (RFC 8415 section 11).
fn identifier(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    match value.u16()? {
        1 => {
            let (kind, time) = (value.u16()?, value.u32()?);
            put!(text, " hwaddr/time type {kind} time {time} ");
            hex(text.out, value.rest());
        }
        2 => {
            let number = value.array::<8>()?;
            text.out.push_str(" vid ");
            hex(text.out, &number);
        }
        3 => {
            put!(text, " hwaddr type {} ", value.u16()?);
            hex(text.out, value.rest());
        }
        other => {
            put!(text, " type {other}");
        }
    }
    Ok(())
}

/// Numbers of options.
fn requested(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    if !value.left().is_multiple_of(2) {
        return Err(Stop::Invalid);
    }
    while let Ok(code) = value.u16() {
        text.out.push(' ');
        name(text, code);
    }
    Ok(())
}

fn authentication(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let (fixed, rest) = (value.array::<11>()?, value.left());
    let [protocol, algorithm, method, detection @ ..] = fixed;
    put!(text, " proto: {protocol}, alg: {algorithm}, RDM: {method}, RD:");
    for pair in detection.chunks(2) {
        text.out.push(' ');
        hex(text.out, pair);
    }
    if rest == 0 {
        text.out.push_str(" ??");
    }
    Ok(())
}

fn status(text: &mut Text<'_>, code: u16) {
    const NAMES: [&str; 11] = [
        "Success",
        "UnspecFail",
        "NoAddrsAvail",
        "NoBinding",
        "NotOnLink",
        "UseMulticast",
        "NoPrefixAvail",
        "UnknownQueryType",
        "MalformedQuery",
        "NotConfigured",
        "NotAllowed",
    ];
    match NAMES.get(usize::from(code)) {
        Some(name) => {
            put!(text, " {name}");
        }
        None => {
            put!(text, " code{code}");
        }
    }
}

fn reconfigured(text: &mut Text<'_>, kind: u8) {
    match kind {
        5 => text.out.push_str(" for renew"),
        6 => text.out.push_str(" for rebind"),
        11 => text.out.push_str(" for inf-req"),
        other => {
            put!(text, " for ?\\{other:03o}");
        }
    }
}

fn addresses(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    if !value.left().is_multiple_of(16) {
        return Err(Stop::Invalid);
    }
    while let Ok(address) = value.ipv6() {
        put!(text, " {address}");
    }
    Ok(())
}
