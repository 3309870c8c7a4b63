//! SCTP (RFC 9260): the chunks of a packet.

use super::application::Text;
use super::cursor::{Cursor, Stop};
use super::{Line, put};
use ringside_wire::Sctp;
use std::fmt::Write;

/// Bytes before a chunk's value.
const CHUNK_BYTES: usize = 4;
/// Chunks of one packet: a jumbo packet of the shortest.
const CHUNKS_MAX: usize = 2048;

impl Line<'_> {
    pub(super) fn sctp(&mut self, index: usize, here: &[u8]) {
        let Ok(sctp) = Sctp::new(here) else { return };
        self.ends(index, sctp.source().0, sctp.destination().0);
        self.out.push_str("sctp");
        let length = self.bytes_from(index).saturating_sub(Sctp::BYTES);
        let bytes = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
        let mut text = Text { out: self.out, verbosity: self.options.verbosity };
        if chunks(&mut text, Cursor::new(bytes), length) == Err(Stop::Cut) {
            self.out.push_str(" [|sctp]");
        }
    }
}

/// The chunks in `left` bytes, of which `cursor` has what was captured.
fn chunks(text: &mut Text<'_>, mut cursor: Cursor<'_>, mut left: usize) -> Result<(), Stop> {
    for number in 1..=CHUNKS_MAX {
        if left == 0 {
            break;
        }
        let comma = if number > 1 { "," } else { "" };
        if left < CHUNK_BYTES {
            put!(text, "{comma} ({number}) [chunk descriptor cut off at end of packet]");
            break;
        }
        let [kind, flags, high, low] = cursor.array()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < CHUNK_BYTES {
            put!(
                text,
                "{comma} ({number}) [Bad chunk length {length}, < size of chunk descriptor]"
            );
            break;
        }
        let padded = length.next_multiple_of(4);
        let value = cursor.part(length - CHUNK_BYTES)?;
        cursor.part_at_most(padded - length);
        put!(text, "{comma} ({number}) ");
        chunk(text, kind, flags, value)?;
        left = left.saturating_sub(padded);
    }
    Ok(())
}

fn chunk(text: &mut Text<'_>, kind: u8, flags: u8, value: Cursor<'_>) -> Result<(), Stop> {
    const NAMES: [&str; 15] = [
        "DATA",
        "INIT",
        "INIT ACK",
        "SACK",
        "HB REQ",
        "HB ACK",
        "ABORT",
        "SHUTDOWN",
        "SHUTDOWN ACK",
        "OP ERR",
        "COOKIE ECHO",
        "COOKIE ACK",
        "ECN ECHO",
        "ECN CWR",
        "SHUTDOWN COMPLETE",
    ];
    match (NAMES.get(usize::from(kind)), kind) {
        (Some(name), _) => {
            put!(text, "[{name}]");
        }
        (None, 0xc0) => text.out.push_str("[FOR CUM TSN]"),
        (None, 0xc1) => text.out.push_str("[REL CTRL]"),
        _ => {
            put!(text, "[Unknown chunk type: 0x{kind:x}]");
        }
    }
    text.out.push(' ');
    let bytes = value.left();
    let body = match kind {
        0 => data(text, flags, value),
        1 | 2 => init(text, value),
        3 => selective(text, value),
        _ => Ok(()),
    };
    if body.is_err() {
        put!(text, "bogus chunk length {}]", bytes + CHUNK_BYTES);
        return Err(Stop::Invalid);
    }
    Ok(())
}

fn data(text: &mut Text<'_>, flags: u8, mut value: Cursor<'_>) -> Result<(), Stop> {
    let number = value.u32()?;
    let (stream, sequence, protocol) = (value.u16()?, value.u16()?, value.u32()?);
    let mut has_flags = false;
    for (bit, name) in [(4, "(U)"), (2, "(B)"), (1, "(E)")] {
        if flags & bit != 0 {
            text.out.push_str(name);
            has_flags = true;
        }
    }
    if has_flags {
        text.out.push(' ');
    }
    put!(text, "[TSN: {number}] [SID: {stream}] [SSEQ {sequence}] [PPID ");
    match payload_protocol(protocol) {
        Some(name) => text.out.push_str(name),
        None => {
            put!(text, "0x{protocol:x}");
        }
    }
    text.out.push_str("] ");
    Ok(())
}

/// Names of payload protocols.
fn payload_protocol(number: u32) -> Option<&'static str> {
    const NAMES: [&str; 28] = [
        "",
        "ISDN Q.921",
        "M2UA",
        "M3UA",
        "SUA",
        "M2PA",
        "V5.2",
        "H.248",
        "BICC",
        "TALI",
        "DUA",
        "ASAP",
        "ENRP",
        "H.323",
        "Q.IPC",
        "SIMCO",
        "DDPSC",
        "DDPSSC",
        "S1AP",
        "RUA",
        "HNBAP",
        "ForCES HP",
        "ForCES MP",
        "ForCES LP",
        "SBc-AP",
        "NBAP",
        "",
        "X2AP",
    ];
    NAMES.get(usize::try_from(number).ok()?).copied().filter(|name| !name.is_empty())
}

fn init(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let (tag, window) = (value.u32()?, value.u32()?);
    let (outbound, inbound, number) = (value.u16()?, value.u16()?, value.u32()?);
    put!(text, "[init tag: {tag}] [rwnd: {window}] [OS: {outbound}] [MIS: {inbound}] ");
    put!(text, "[init TSN: {number}] ");
    Ok(())
}

fn selective(text: &mut Text<'_>, mut value: Cursor<'_>) -> Result<(), Stop> {
    let (acknowledged, window) = (value.u32()?, value.u32()?);
    let (gaps, duplicates) = (value.u16()?, value.u16()?);
    put!(text, "[cum ack {acknowledged}] [a_rwnd {window}] ");
    put!(text, "[#gap acks {gaps}] [#dup tsns {duplicates}] ");
    for number in 1..=gaps {
        let (start, end) = (value.u16()?, value.u16()?);
        let first = acknowledged.wrapping_add(start.into());
        let last = acknowledged.wrapping_add(end.into());
        put!(text, "\n\t\t[gap ack block #{number}: start = {first}, end = {last}] ");
    }
    for number in 1..=duplicates {
        put!(text, "\n\t\t[dup TSN #{number}: {}] ", value.u32()?);
    }
    Ok(())
}
