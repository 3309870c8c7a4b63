//! NTP (RFC 5905); with -v all fields.

use super::Text;
use super::names::{escaped, hex};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

/// Bytes of a header.
const HEADER_BYTES: usize = 48;
/// Bytes of a control message before its data (RFC 9327).
const CONTROL_BYTES: usize = 12;
/// Modes that are no time.
const CONTROL: u8 = 6;
const PRIVATE: u8 = 7;
/// Seconds from the start of NTP's time to that of Unix.
const TO_UNIX_SECONDS: i64 = 2_208_988_800;

pub(super) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    const MODES: [&str; 8] = [
        "unspecified",
        "symmetric active",
        "symmetric passive",
        "Client",
        "Server",
        "Broadcast",
        "Control Message",
        "Reserved",
    ];
    const LEAPS: [&str; 4] = ["", "+1s", "-1s", "clock unsynchronized"];
    let mut cursor = payload.cursor();
    let first = cursor.u8()?;
    let mode = first & 7;
    let name = MODES[usize::from(mode)];
    put!(text, "NTPv{}, {name}, length {}", first >> 3 & 7, payload.length);
    if text.verbosity == 0 {
        return Ok(());
    }
    put!(text, "\n\tLeap indicator: {} ({})", LEAPS[usize::from(first >> 6)], first & 0xc0);
    match mode {
        CONTROL => control(text, cursor, payload.length),
        PRIVATE => Ok(()),
        _ if payload.length < HEADER_BYTES => Err(Stop::Invalid),
        _ => header(text, cursor, payload.length - HEADER_BYTES),
    }
}

fn header(text: &mut Text<'_>, mut cursor: Cursor<'_>, behind_bytes: usize) -> Result<(), Stop> {
    let stratum = cursor.u8()?;
    let kind = match stratum {
        0 => "unspecified",
        1 => "primary reference",
        2..16 => "secondary reference",
        16.. => "reserved",
    };
    put!(text, ", Stratum {stratum} ({kind})");
    let poll = cursor.u8()? as i8;
    put!(text, ", poll {poll}");
    match poll {
        0..32 => {
            put!(text, " ({}s)", 1_u32 << poll);
        }
        -31..0 => {
            put!(text, " (1/{}s)", 1_u32 << -poll);
        }
        _ => {}
    }
    put!(text, ", precision {}", cursor.u8()? as i8);
    for label in ["\n\tRoot Delay: ", ", Root dispersion: "] {
        let value = cursor.u32()?;
        let millionths = (u64::from(value & 0xffff) * 1_000_000) >> 16;
        put!(text, "{label}{}.{millionths:06}", value >> 16);
    }
    text.out.push_str(", Reference-ID: ");
    let reference = cursor.array::<4>()?;
    match stratum {
        0 => text.out.push_str("(unspec)"),
        1 => escaped(text.out, &reference),
        _ => {
            put!(text, "0x{:08x}", u32::from_be_bytes(reference));
        }
    }
    timestamps(text, &mut cursor)?;
    authentication(text, cursor, behind_bytes)
}

fn timestamps(text: &mut Text<'_>, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    let mut times = [0; 4];
    let labels = [
        "Reference Timestamp:  ",
        "Originator Timestamp: ",
        "Receive Timestamp:    ",
        "Transmit Timestamp:   ",
    ];
    for (label, time) in labels.into_iter().zip(&mut times) {
        *time = cursor.u64()?;
        put!(text, "\n\t  {label}");
        timestamp(text, *time);
    }
    let [_, originator, receive, transmit] = times;
    for (label, time) in [("Receive Timestamp:  ", receive), ("Transmit Timestamp: ", transmit)] {
        put!(text, "\n\t    Originator - {label}");
        if originator == 0 {
            timestamp(text, time);
            continue;
        }
        let sign = if time > originator { '+' } else { '-' };
        let span = time.abs_diff(originator);
        put!(text, "{sign}{}.{:09}", span >> 32, nanoseconds(span));
    }
    Ok(())
}

/// The fraction of a second.
fn nanoseconds(time: u64) -> u64 {
    ((time & 0xffff_ffff) * 1_000_000_000) >> 32
}

fn timestamp(text: &mut Text<'_>, time: u64) {
    let seconds = time >> 32;
    put!(text, "{seconds}.{:09}", nanoseconds(time));
    let unix = jiff::Timestamp::from_second(seconds as i64 - TO_UNIX_SECONDS);
    if let (Ok(unix), true) = (unix, seconds > 0) {
        put!(text, " ({unix})");
    }
}

/// The number of a key and a digest of 16 or 20 bytes.
fn authentication(
    text: &mut Text<'_>,
    mut cursor: Cursor<'_>,
    behind_bytes: usize,
) -> Result<(), Stop> {
    match behind_bytes {
        0 => {}
        4 | 20 | 24 => {
            put!(text, "\n\tKey id: {}", cursor.u32()?);
            if behind_bytes > 4 {
                text.out.push_str("\n\tAuthentication: ");
                hex(text.out, cursor.take(behind_bytes - 4)?);
            }
        }
        _ => {
            put!(text, "\n\t({behind_bytes} more bytes after the header)");
        }
    }
    Ok(())
}

fn control(text: &mut Text<'_>, mut cursor: Cursor<'_>, length: usize) -> Result<(), Stop> {
    if length < CONTROL_BYTES {
        return Err(Stop::Invalid);
    }
    let bits = cursor.u8()?;
    let chosen = |bit: u8, set, unset| if bits & bit != 0 { set } else { unset };
    let (kind, result) = (chosen(0x80, "Response", "Request"), chosen(0x40, "Error", "OK"));
    let (more, code) = (chosen(0x20, "More", "Last"), bits & 0x1f);
    put!(text, ", {kind}, {result}, {more}, OpCode={code}");
    let [sequence, status, association] = [cursor.u16()?, cursor.u16()?, cursor.u16()?];
    let (offset, count) = (cursor.u16()?, cursor.u16()?);
    put!(text, "\n\tSequence={sequence}, Status=0x{status:x}, Assoc.={association}");
    put!(text, ", Offset={offset}, Count={count}");
    if CONTROL_BYTES + usize::from(count) > length {
        return Err(Stop::Invalid);
    }
    if count > 0 {
        text.out.push_str("\n\tTO-BE-DONE: data not interpreted");
    }
    Ok(())
}
