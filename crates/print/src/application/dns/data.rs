//! The data of records, of the types that are printed: names, addresses, texts, and OPT (RFC 6891).

use super::super::names::{escaped, hex};
use super::{Text, name};
use crate::cursor::{Cursor, Stop};
use crate::put;
use ringside_proto::dns::Record;
use std::fmt::Write;

/// Type of the pseudo record that holds options.
pub(super) const OPT: u16 = 41;
/// Options of one record; six are in use.
const OPTIONS_MAX: usize = 64;

pub(super) fn data(text: &mut Text<'_>, record: &Record<'_>) -> Result<(), Stop> {
    let mut data = Cursor::new(record.data);
    match record.rtype {
        1 => {
            let address = data.ipv4()?;
            put!(text, " {address}");
        }
        28 => {
            let address = data.ipv6()?;
            put!(text, " {address}");
        }
        // NS, CNAME, PTR, DNAME.
        2 | 5 | 12 | 39 => {
            text.out.push(' ');
            if record.data.is_empty() {
                return Err(Stop::Cut);
            }
            name(text, record.name_in_data(0))?;
        }
        6 if text.verbosity > 0 => start_of_authority(text, record)?,
        15 => {
            text.out.push(' ');
            let preference = data.u16()?;
            name(text, record.name_in_data(2))?;
            put!(text, " {preference}");
        }
        16 => strings(text, data)?,
        33 => {
            text.out.push(' ');
            let [priority, weight, port] = [data.u16()?, data.u16()?, data.u16()?];
            name(text, record.name_in_data(6))?;
            put!(text, ":{port} {priority} {weight}");
        }
        38 => prefix_and_name(text, record)?,
        // RFC 7553.
        256 => {
            let (priority, weight) = (data.u16()?, data.u16()?);
            put!(text, " {priority} {weight} ");
            escaped(text.out, data.rest());
        }
        250 if text.verbosity > 0 => signature(text, record)?,
        _ => {}
    }
    complete(record)
}

/// Data that is cut says so.
fn complete(record: &Record<'_>) -> Result<(), Stop> {
    match record.data.len() < usize::from(record.data_bytes) {
        true => Err(Stop::Cut),
        false => Ok(()),
    }
}

fn start_of_authority(text: &mut Text<'_>, record: &Record<'_>) -> Result<(), Stop> {
    text.out.push(' ');
    name(text, record.name_in_data(0))?;
    text.out.push(' ');
    let behind = record.behind_name(0).map_err(|_| Stop::Cut)?;
    let skip = record.data.len() - behind.len();
    name(text, record.name_in_data(skip))?;
    let mut numbers = Cursor::new(record.behind_name(skip).map_err(|_| Stop::Cut)?);
    for _ in 0..5 {
        let number = numbers.u32()?;
        put!(text, " {number}");
    }
    Ok(())
}

fn strings(text: &mut Text<'_>, mut data: Cursor<'_>) -> Result<(), Stop> {
    while !data.is_empty() {
        let length = usize::from(data.u8()?);
        text.out.push_str(" \"");
        let part = data.part_at_most(length);
        escaped(text.out, part.rest());
        if part.left() < length {
            return Err(Stop::Cut);
        }
        text.out.push('"');
    }
    Ok(())
}

/// A6 (RFC 2874): the end of an address, and the name that has its beginning.
fn prefix_and_name(text: &mut Text<'_>, record: &Record<'_>) -> Result<(), Stop> {
    let mut data = Cursor::new(record.data);
    let prefix_bits = data.u8()?;
    put!(text, " {prefix_bits}");
    if prefix_bits > 128 {
        return Ok(());
    }
    let suffix_bytes = usize::from((128 - prefix_bits).div_ceil(8));
    let mut address = [0; 16];
    let suffix = data.take(suffix_bytes)?;
    address.iter_mut().skip(16 - suffix_bytes).zip(suffix).for_each(|(to, from)| *to = *from);
    if prefix_bits < 128 {
        put!(text, " {}", std::net::Ipv6Addr::from(address));
    }
    if prefix_bits > 0 {
        text.out.push(' ');
        name(text, record.name_in_data(1 + suffix_bytes))?;
    }
    Ok(())
}

/// TSIG (RFC 8945): algorithm, tolerance, length of the signature, number, error, other data.
fn signature(text: &mut Text<'_>, record: &Record<'_>) -> Result<(), Stop> {
    text.out.push(' ');
    name(text, record.name_in_data(0))?;
    let mut data = Cursor::new(record.behind_name(0).map_err(|_| Stop::Cut)?);
    data.take(6)?;
    let (tolerance, length) = (data.u16()?, data.u16()?);
    data.take(usize::from(length))?;
    let [id, error, other] = [data.u16()?, data.u16()?, data.u16()?];
    put!(text, " fudge={tolerance} maclen={length} origid={id} error={error} otherlen={other}");
    Ok(())
}

pub(super) fn options(text: &mut Text<'_>, record: &Record<'_>) -> Result<(), Stop> {
    put!(text, " UDPsize={}", record.class);
    if record.ttl & 0x8000 != 0 {
        text.out.push_str(" DO");
    }
    let mut data = Cursor::new(record.data);
    for _ in 0..OPTIONS_MAX {
        if data.is_empty() {
            break;
        }
        let (code, length) = (data.u16()?, usize::from(data.u16()?));
        text.out.push_str(" [");
        let value = data.take(length)?;
        option(text, code, value);
        text.out.push(']');
    }
    complete(record)
}

fn option(text: &mut Text<'_>, code: u16, value: &[u8]) {
    const NAMES: [&str; 14] = [
        "LLQ",
        "UL",
        "NSID",
        "",
        "DAU",
        "DHU",
        "N3U",
        "ECS",
        "EXPIRE",
        "COOKIE",
        "KEEPALIVE",
        "PADDING",
        "CHAIN",
        "KEY-TAG",
    ];
    match usize::from(code).checked_sub(1).and_then(|index| NAMES.get(index)) {
        Some(name) if !name.is_empty() => text.out.push_str(name),
        _ => {
            put!(text, "Opt{code}");
        }
    }
    match (code, value) {
        (8, _) => client_subnet(text, value),
        (11, [high, low]) => {
            let tenths = u16::from_be_bytes([*high, *low]);
            put!(text, " {}.{} sec", tenths / 10, tenths % 10);
        }
        (12, _) => {
            put!(text, " ({})", value.len());
        }
        (14, _) => {
            for tag in value.chunks_exact(2) {
                let tag = tag.iter().fold(0, |tag: u32, byte| tag << 8 | u32::from(*byte));
                put!(text, " {tag}");
            }
        }
        (5, _) => value.iter().for_each(|algorithm| self::algorithm(text, *algorithm)),
        (_, []) => {}
        _ => {
            text.out.push(' ');
            hex(text.out, value);
        }
    }
}

/// Algorithms of DNSSEC.
fn algorithm(text: &mut Text<'_>, number: u8) {
    let name = match number {
        1 => "RSAMD5",
        2 => "DH",
        3 => "DS",
        5 => "RSASHA1",
        6 => "DSA-NSEC3-SHA1",
        7 => "RSASHA1-NSEC3-SHA1",
        8 => "RSASHA256",
        10 => "RSASHA512",
        12 => "ECC-GOST",
        13 => "ECDSAP256SHA256",
        14 => "ECDSAP384SHA384",
        15 => "ED25519",
        16 => "ED448",
        _ => "Unknown",
    };
    put!(text, " {name}");
}

/// The part of a client's address that a resolver passes on (RFC 7871).
fn client_subnet(text: &mut Text<'_>, value: &[u8]) {
    let mut data = Cursor::new(value);
    let mut address = [0; 16];
    let mut fields = || Ok::<_, Stop>((data.u16()?, data.u8()?, data.u8()?));
    let Ok((family, source, scope)) = fields() else {
        text.out.push_str("  (invalid)");
        return;
    };
    address.iter_mut().zip(data.rest()).for_each(|(to, from)| *to = *from);
    match family {
        1 => {
            let [a, b, c, d, ..] = address;
            put!(text, " {}/{source}/{scope}", std::net::Ipv4Addr::new(a, b, c, d));
        }
        2 => {
            put!(text, " {}/{source}/{scope}", std::net::Ipv6Addr::from(address));
        }
        _ => text.out.push_str("  (invalid)"),
    }
}
