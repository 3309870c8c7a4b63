//! Objects behind the packet that an ICMP error quotes (RFC 4884, 4950, 5837).

use crate::application::Text;
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use ringside_wire::Mpls;
use ringside_wire::checksum::checksum;
use std::fmt::Write;

/// Bytes of a packet that is quoted, where objects follow.
pub(super) const QUOTED_BYTES: usize = 128;
/// Bytes of an object before its value.
const OBJECT_BYTES: usize = 4;
/// The only version there is.
const VERSION: u8 = 2;

pub(super) fn print(text: &mut Text<'_>, part: &Payload<'_>) -> Result<(), Stop> {
    let mut cursor = part.cursor();
    if part.length <= OBJECT_BYTES {
        return Err(Stop::Cut);
    }
    let version = cursor.u8()? >> 4;
    put!(text, "\n\tICMP Multi-Part extension v{version}");
    if version != VERSION {
        text.out.push_str(" packet not supported");
        return Ok(());
    }
    let (_, sum) = (cursor.u8()?, cursor.u16()?);
    if !part.is_cut() {
        let verdict = if checksum(part.bytes) == 0 { "correct" } else { "incorrect" };
        put!(text, ", checksum 0x{sum:04x} ({verdict}), length {}", part.length);
    }
    while !cursor.is_empty() {
        let (length, class, kind) = (cursor.u16()?, cursor.u8()?, cursor.u8()?);
        let name = match class {
            1 => "MPLS Stack Entry",
            2 => "Interface Identification",
            _ => "unknown",
        };
        put!(text, "\n\t  {name} Object ({class}), Class-Type: {kind}, length {length}");
        let bytes = usize::from(length).checked_sub(OBJECT_BYTES).ok_or(Stop::Invalid)?;
        let value = cursor.part_at_most(bytes);
        object(text, class, kind, value);
        if value.left() < bytes {
            return Err(Stop::Cut);
        }
    }
    Ok(())
}

fn object(text: &mut Text<'_>, class: u8, kind: u8, value: Cursor<'_>) {
    match (class, kind) {
        (1, 1) => {
            let Ok(stack) = Mpls::new(value.rest()) else { return };
            for label in stack.labels() {
                let bottom = if label.is_bottom() { ", [S]" } else { "" };
                let (value, class) = (label.value(), label.traffic_class());
                put!(text, "\n\t    label {value}, tc {class}{bottom}, ttl {}", label.ttl());
            }
        }
        _ => crate::hex::below(text.out, value.rest(), "\n\t    "),
    }
}
