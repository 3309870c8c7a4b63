//! IGMP (RFC 1112, 2236, 3376).

use super::application::Text;
use super::cursor::{Cursor, Payload, Stop};
use super::{Line, put};
use ringside_wire::Igmp;
use ringside_wire::checksum::checksum;
use std::fmt::Write;

/// Bytes of a message before its groups, and of a query of version 3.
const HEADER_BYTES: usize = 8;
const QUERY_V3_BYTES: usize = 12;

impl Line<'_> {
    pub(super) fn igmp(&mut self, index: usize, here: &[u8]) {
        if Igmp::new(here).is_err() {
            return;
        }
        let length = self.bytes_from(index);
        let payload = Payload { bytes: here.get(..length).unwrap_or(here), length };
        let mut text = Text { out: self.out, verbosity: self.options.verbosity };
        if message(&mut text, &payload) == Err(Stop::Cut) {
            self.out.push_str(" [|igmp]");
        }
        let is_judged = self.options.verbosity > 0 && !payload.is_cut();
        if is_judged && checksum(payload.bytes) != 0 {
            put!(self, " bad igmp cksum {:x}!", sum_of(payload.bytes));
        }
    }
}

/// The checksum as it stands.
fn sum_of(message: &[u8]) -> u16 {
    message.get(2..).and_then(|sum| sum.first_chunk()).map_or(0, |sum| u16::from_be_bytes(*sum))
}

fn message(text: &mut Text<'_>, payload: &Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (kind, code) = (cursor.u8()?, cursor.u8()?);
    cursor.u16()?;
    let group = cursor.ipv4()?;
    match kind {
        Igmp::QUERY if payload.length >= QUERY_V3_BYTES => {
            text.out.push_str("igmp query v3");
            return query_v3(text, cursor, code, group, payload.length - QUERY_V3_BYTES);
        }
        Igmp::QUERY => {
            put!(text, "igmp query v{}", if code == 0 { 1 } else { 2 });
            if !matches!(code, 0 | 100) {
                put!(text, " [max resp time {code}]");
            }
            if !group.is_unspecified() {
                put!(text, " [gaddr {group}]");
            }
        }
        Igmp::REPORT_V1 => {
            put!(text, "igmp v1 report {group}");
        }
        Igmp::REPORT_V2 => {
            put!(text, "igmp v2 report {group}");
        }
        Igmp::LEAVE => {
            put!(text, "igmp leave {group}");
        }
        Igmp::REPORT_V3 => {
            text.out.push_str("igmp v3 report");
            let [_, _, high, low] = group.octets();
            return report_v3(text, cursor, u16::from_be_bytes([high, low]), payload.length);
        }
        0x13 => dvmrp(text, code),
        0x14 => text.out.push_str("igmp pimv1"),
        other => {
            put!(text, "igmp-{other}");
        }
    }
    Ok(())
}

/// Distance vector multicast routing.
fn dvmrp(text: &mut Text<'_>, code: u8) {
    let name = match code {
        1 => "Probe",
        2 => "Report",
        3 => "Ask-neighbors",
        4 => "Neighbors",
        5 => "Ask-neighbors2",
        6 => "Neighbors2",
        7 => "Prune",
        8 => "Graft",
        9 => "Graft-ACK",
        other => {
            put!(text, "igmp dvmrp [type {other}]");
            return;
        }
    };
    put!(text, "igmp dvmrp {name}");
}

fn query_v3(
    text: &mut Text<'_>,
    mut cursor: Cursor<'_>,
    code: u8,
    group: std::net::Ipv4Addr,
    sources_bytes: usize,
) -> Result<(), Stop> {
    cursor.u16()?;
    let sources = cursor.u16()?;
    // RFC 3376 section 4.1.1: from 128 on it is a floating-point number.
    let tenths = match code {
        128.. => u32::from(code & 0xf | 0x10) << ((code >> 4 & 7) + 3),
        _ => u32::from(code),
    };
    if tenths != 100 {
        text.out.push_str(" [max resp time ");
        match tenths {
            0..600 => {
                put!(text, "{}.{}s", tenths / 10, tenths % 10);
            }
            _ => super::application::names::duration(text.out, tenths / 10),
        }
        text.out.push(']');
    }
    if group.is_unspecified() && sources == 0 {
        return Ok(());
    }
    put!(text, " [gaddr {group}");
    if sources_bytes / 4 < usize::from(sources) {
        text.out.push_str(" [invalid number of sources]");
    } else if text.verbosity > 1 {
        text.out.push_str(" {");
        for _ in 0..sources {
            put!(text, " {}", cursor.ipv4()?);
        }
        text.out.push_str(" }");
    } else if sources > 0 {
        put!(text, ", {sources} source(s)");
    }
    text.out.push(']');
    Ok(())
}

fn report_v3(
    text: &mut Text<'_>,
    cursor: Cursor<'_>,
    records: u16,
    length: usize,
) -> Result<(), Stop> {
    let least = HEADER_BYTES + HEADER_BYTES * usize::from(records);
    if length < 16 || !length.is_multiple_of(4) || length < least {
        put!(text, " [invalid len {length}]");
        return Ok(());
    }
    put!(text, ", {records} group record(s)");
    if text.verbosity == 0 {
        return Ok(());
    }
    group_records(text, cursor, records, Cursor::ipv4)
}

/// Group records of IGMPv3 and MLDv2, which differ in their addresses.
pub(super) fn group_records<'a, T: std::fmt::Display>(
    text: &mut Text<'_>,
    mut cursor: Cursor<'a>,
    records: u16,
    address: fn(&mut Cursor<'a>) -> Result<T, Stop>,
) -> Result<(), Stop> {
    const KINDS: [&str; 6] = ["is_in", "is_ex", "to_in", "to_ex", "allow", "block"];
    for _ in 0..records {
        let (kind, auxiliary) = (cursor.u8()?, usize::from(cursor.u8()?));
        let sources = cursor.u16()?;
        let group = address(&mut cursor)?;
        put!(text, " [gaddr {group} ");
        match usize::from(kind).checked_sub(1).and_then(|index| KINDS.get(index)) {
            Some(name) => text.out.push_str(name),
            None => {
                put!(text, " [v3-report-#{kind}]");
            }
        }
        if text.verbosity > 1 {
            text.out.push_str(" {");
            for _ in 0..sources {
                put!(text, " {}", address(&mut cursor)?);
            }
            text.out.push_str(" }]");
        } else {
            put!(text, ", {sources} source(s)]");
            for _ in 0..sources {
                address(&mut cursor)?;
            }
        }
        cursor.take(4 * auxiliary)?;
    }
    Ok(())
}
