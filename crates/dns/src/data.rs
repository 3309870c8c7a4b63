//! The data of records as text, as in the files of a zone (RFC 1035 section 5.1).

use crate::domain_name::{DomainName, escape};
use crate::limits::DATA_CHARS_MAX;
use ringside_proto::Stop;
use ringside_proto::dns::Record;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const SRV: u16 = 33;
const DNAME: u16 = 39;
const SPF: u16 = 99;
const CAA: u16 = 257;
/// Addresses.
pub(crate) const A: u16 = 1;
pub(crate) const AAAA: u16 = 28;

/// The data; of a type that is not read here, or of other bytes than its type has, as hexadecimal
/// digits (RFC 3597 section 5).
pub(crate) fn text(record: &Record<'_>) -> String {
    let mut text = known(record).unwrap_or_else(|| unknown(record.data));
    if let Some((at, _)) = text.char_indices().nth(DATA_CHARS_MAX) {
        text.truncate(at);
    }
    text
}

fn known(record: &Record<'_>) -> Option<String> {
    let data = record.data;
    match record.rtype {
        A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string()),
        AAAA => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string()),
        NS | CNAME | PTR | DNAME => name(record, 0).ok(),
        MX => Some(format!("{} {}", number(data, 0)?, name(record, 2).ok()?)),
        SRV => {
            let [priority, weight, port] = [number(data, 0)?, number(data, 2)?, number(data, 4)?];
            Some(format!("{priority} {weight} {port} {}", name(record, 6).ok()?))
        }
        SOA => start_of_authority(record),
        TXT | SPF => strings(data),
        CAA => authority_to_issue(data),
        _ => None,
    }
}

fn name(record: &Record<'_>, skip: usize) -> Result<String, Stop> {
    DomainName::read(record.name_in_data(skip)).map(|name| name.to_string())
}

fn number(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn start_of_authority(record: &Record<'_>) -> Option<String> {
    let primary = name(record, 0).ok()?;
    let skip = record.data.len() - record.behind_name(0).ok()?.len();
    let mut text = format!("{primary} {}", name(record, skip).ok()?);
    let numbers = record.behind_name(skip).ok()?;
    for four in numbers.first_chunk::<20>()?.chunks_exact(4) {
        let number = four.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let _ = write!(text, " {number}");
    }
    Some(text)
}

/// Strings, each after its length, in quotation marks.
fn strings(mut data: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let [bytes, rest @ ..] = data {
        let (string, rest) = rest.split_at_checked(usize::from(*bytes))?;
        let space = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{space}\"{}\"", quoted(string));
        data = rest;
    }
    Some(text)
}

/// CAA (RFC 8659): flags, tag and value.
fn authority_to_issue(data: &[u8]) -> Option<String> {
    let [flags, bytes, rest @ ..] = data else { return None };
    let (tag, value) = rest.split_at_checked(usize::from(*bytes))?;
    Some(format!("{flags} {} \"{}\"", quoted(tag), quoted(value)))
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        let _ = escape(&mut text, byte, b"\"\\");
    }
    text
}

fn unknown(data: &[u8]) -> String {
    let mut text = format!("\\# {}", data.len());
    for (index, byte) in data.iter().take(DATA_CHARS_MAX / 2).enumerate() {
        let space = if index == 0 { " " } else { "" };
        let _ = write!(text, "{space}{byte:02x}");
    }
    text
}
