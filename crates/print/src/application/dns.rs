//! DNS and multicast DNS: `ID[+] TYPE? NAME (LENGTH)`, `ID RCODE COUNTS RECORDS (LENGTH)`.

mod data;
mod words;

use super::Text;
use super::names::{duration, escaped};
use crate::cursor::{Payload, Stop};
use crate::put;
use ringside_proto::Stop as DnsStop;
use ringside_proto::dns::{Entries, Labels, Message, Question, Record};
use std::fmt::Write;
use words::{OPCODES, RCODES, type_name};

/// Bytes of a header.
const HEADER_BYTES: usize = 12;
/// Entries of a section that are listed: a datagram of 64 KiB holds 10,000 of the shortest, each
/// with a name of a thousand characters; real messages have tens.
pub(crate) const ENTRIES_MAX: u16 = 256;
/// The highest bit of a class means something in multicast DNS (RFC 6762).
const TOP_BIT: u16 = 0x8000;

pub(super) fn over_udp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    message(text, payload, false)
}

pub(super) fn multicast(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    message(text, payload, true)
}

/// Of a segment that is exactly one message with its length.
pub(super) fn over_tcp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let length = payload.length;
    if length < 2 {
        put!(text, " [DNS over TCP: length {length} < 2]");
        return Err(Stop::Invalid);
    }
    let mut cursor = payload.cursor();
    let declared = usize::from(cursor.u16()?);
    if declared != length - 2 {
        put!(text, " [prefix length({declared}) != length({})]", length - 2);
        return Err(Stop::Invalid);
    }
    text.out.push(' ');
    message(text, Payload { bytes: cursor.rest(), length: declared }, false)
}

fn message(text: &mut Text<'_>, payload: Payload<'_>, is_multicast: bool) -> Result<(), Stop> {
    if payload.length < HEADER_BYTES {
        put!(text, "domain [length {} < {HEADER_BYTES}]", payload.length);
        return Err(Stop::Invalid);
    }
    let message = Message::new(payload.bytes).ok_or(Stop::Cut)?;
    put!(text, "{}", message.id());
    let mut entries = message.entries();
    if message.is_response() {
        response(text, &message, &mut entries, is_multicast)?;
    } else {
        query(text, &message, &mut entries, is_multicast)?;
    }
    put!(text, " ({})", payload.length);
    Ok(())
}

fn response(
    text: &mut Text<'_>,
    message: &Message<'_>,
    entries: &mut Entries<'_>,
    is_multicast: bool,
) -> Result<(), Stop> {
    let flags = message.flags();
    let rcode = RCODES.get(usize::from(message.rcode())).copied().unwrap_or_default();
    put!(text, "{}{rcode}", opcode(message));
    let signs = [(0x400, true, "*"), (0x80, false, "-"), (0x200, true, "|"), (0x20, true, "$")];
    for (bit, set, sign) in signs {
        if (flags & bit != 0) == set {
            text.out.push_str(sign);
        }
    }
    let [questions, answers, authority, additional] = message.counts();
    if questions != 1 {
        put!(text, " [{questions}q]");
    }
    for number in 0..questions {
        enough(number)?;
        if text.verbosity > 1 {
            text.out.push_str(if number == 0 { " q:" } else { ", q:" });
            let question = entries.question().map_err(|_| Stop::Cut)?;
            self::question(text, &question, is_multicast)?;
            continue;
        }
        if number > 0 {
            text.out.push(',');
        }
        entries.question().map_err(|_| Stop::Cut)?;
    }
    put!(text, " {answers}/{authority}/{additional}");
    records(text, entries, answers, is_multicast)?;
    if text.verbosity > 1 {
        sections(text, entries, [authority, additional], is_multicast)?;
    }
    Ok(())
}

fn query(
    text: &mut Text<'_>,
    message: &Message<'_>,
    entries: &mut Entries<'_>,
    is_multicast: bool,
) -> Result<(), Stop> {
    /// Bits of flags and result that mean nothing in a query.
    const WITHOUT_MEANING: u16 = 0x64f;
    let flags = message.flags();
    put!(text, "{}", opcode(message));
    if flags & 0x100 != 0 {
        text.out.push('+');
    }
    if flags & 0x10 != 0 {
        text.out.push('%');
    }
    if flags & WITHOUT_MEANING != 0 {
        put!(text, " [b2&3=0x{flags:x}]");
    }
    let [questions, answers, authority, additional] = message.counts();
    // An inverse query has the answer and asks for the question.
    let is_inverse = message.opcode() == 1;
    let usual = if is_inverse { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
    let counts = [(answers, usual[1], "a"), (questions, usual[0], "q"), (authority, 0, "n")];
    let order: [usize; 3] = if is_inverse { [1, 0, 2] } else { [0, 1, 2] };
    for (count, usual, letter) in order.map(|index| counts[index]) {
        if count != usual {
            put!(text, " [{count}{letter}]");
        }
    }
    if additional > 0 {
        put!(text, " [{additional}au]");
    }
    for number in 0..questions {
        enough(number)?;
        let question = entries.question().map_err(|_| Stop::Cut)?;
        self::question(text, &question, is_multicast)?;
    }
    if text.verbosity > 1 {
        records(text, entries, answers, is_multicast)?;
        sections(text, entries, [authority, additional], is_multicast)?;
    }
    Ok(())
}

fn opcode(message: &Message<'_>) -> &'static str {
    OPCODES.get(usize::from(message.opcode())).copied().unwrap_or_default()
}

/// Authority and additional records, with -vv.
fn sections(
    text: &mut Text<'_>,
    entries: &mut Entries<'_>,
    counts: [u16; 2],
    is_multicast: bool,
) -> Result<(), Stop> {
    for (count, name) in counts.into_iter().zip([" ns:", " ar:"]) {
        if count > 0 && !entries.rest().is_empty() {
            text.out.push_str(name);
            records(text, entries, count, is_multicast)?;
        }
    }
    Ok(())
}

/// The records of a section. One that is cut before its data ends the text quietly unless it is the
/// first, as tcpdump has it.
fn records(
    text: &mut Text<'_>,
    entries: &mut Entries<'_>,
    count: u16,
    is_multicast: bool,
) -> Result<(), Stop> {
    for number in 0..count {
        enough(number)?;
        if number > 0 && entries.rest().is_empty() {
            return Err(Stop::Cut);
        }
        if number > 0 {
            text.out.push(',');
        }
        match entries.record() {
            Ok(record) => self::record(text, &record, is_multicast)?,
            Err(_) if number > 0 => break,
            Err(_) => return Err(Stop::Cut),
        }
    }
    Ok(())
}

/// Ends the text behind [`ENTRIES_MAX`] entries of a section.
fn enough(number: u16) -> Result<(), Stop> {
    if number < ENTRIES_MAX { Ok(()) } else { Err(Stop::Cut) }
}

fn question(text: &mut Text<'_>, asked: &Question<'_>, is_multicast: bool) -> Result<(), Stop> {
    put!(text, " {}", type_name(asked.qtype));
    class(text, asked.class, is_multicast);
    if is_multicast {
        let by_unicast = asked.class & TOP_BIT != 0;
        text.out.push_str(if by_unicast { " (QU)" } else { " (QM)" });
    }
    text.out.push_str("? ");
    name(text, asked.name)
}

fn record(text: &mut Text<'_>, record: &Record<'_>, is_multicast: bool) -> Result<(), Stop> {
    if text.verbosity > 0 {
        text.out.push(' ');
        name(text, record.name)?;
    }
    if record.rtype == data::OPT {
        text.out.push_str(" OPT");
        return data::options(text, record);
    }
    if text.verbosity > 2 {
        text.out.push_str(" [");
        duration(text.out, record.ttl);
        text.out.push(']');
    }
    class(text, record.class, is_multicast);
    if is_multicast && record.class & TOP_BIT != 0 {
        text.out.push_str(" (Cache flush)");
    }
    put!(text, " {}", type_name(record.rtype));
    data::data(text, record)
}

fn class(text: &mut Text<'_>, class: u16, is_multicast: bool) {
    let class = if is_multicast { class & !TOP_BIT } else { class };
    match class {
        1 => {}
        3 => text.out.push_str(" CHAOS"),
        4 => text.out.push_str(" HS"),
        255 => text.out.push_str(" ANY"),
        other => {
            put!(text, " (Class {other})");
        }
    }
}

/// A name with the dot of the root behind it.
fn name(text: &mut Text<'_>, labels: Labels<'_>) -> Result<(), Stop> {
    let mut is_root = true;
    for label in labels {
        match label {
            Ok(label) => escaped(text.out, label),
            Err(DnsStop::Malformed) => {
                text.out.push_str("<BAD PTR>");
                return Err(Stop::Cut);
            }
            Err(DnsStop::Cut) => return Err(Stop::Cut),
        }
        text.out.push('.');
        is_root = false;
    }
    if is_root {
        text.out.push('.');
    }
    Ok(())
}

/// Name and type of a question, as lines have them.
pub(crate) fn question_fields(asked: &Question<'_>) -> (String, String) {
    (plain_name(asked.name), type_name(asked.qtype).into_owned())
}

/// Name, type and data of a record, as lines have them.
pub(crate) fn record_fields(record: &Record<'_>) -> (String, String, String) {
    let mut out = String::new();
    let mut text = Text { out: &mut out, verbosity: 1 };
    // What is cut is left out.
    let _ = match record.rtype {
        data::OPT => data::options(&mut text, record),
        _ => data::data(&mut text, record),
    };
    (plain_name(record.name), type_name(record.rtype).into_owned(), out.trim().to_owned())
}

fn plain_name(labels: Labels<'_>) -> String {
    let mut out = String::new();
    let _ = name(&mut Text { out: &mut out, verbosity: 0 }, labels);
    out
}
