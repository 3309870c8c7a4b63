//! The spanning tree's messages (IEEE 802.1D, 802.1w, 802.1s).

use crate::application::Text;
use crate::application::names::{self, hex, until_zero};
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

const CONFIG: u8 = 0;
const RAPID: u8 = 2;
const TOPOLOGY_CHANGE: u8 = 0x80;
/// Bytes of a configuration, and of a message of several trees before those trees.
const CONFIG_BYTES: usize = 35;
const MULTIPLE_BYTES: usize = 102;

pub(crate) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    if payload.length < 4 {
        return Err(Stop::Invalid);
    }
    let mut cursor = payload.cursor();
    let (protocol, version, kind) = (cursor.u16()?, cursor.u8()?, cursor.u8()?);
    if protocol != 0 {
        put!(text, "unknown STP version, length {}", payload.length);
        return Ok(());
    }
    match version {
        0 => text.out.push_str("STP 802.1d"),
        2 => text.out.push_str("STP 802.1w"),
        3 => text.out.push_str("STP 802.1s"),
        4 => text.out.push_str("STP 802.1aq"),
        _ => {
            put!(text, "STP Unknown STP protocol (0x{version:02x})");
            return Ok(());
        }
    }
    match kind {
        CONFIG => text.out.push_str(", Config"),
        RAPID => text.out.push_str(", Rapid STP"),
        TOPOLOGY_CHANGE => text.out.push_str(", Topology Change"),
        _ => {
            put!(text, ", Unknown BPDU Type (0x{kind:02x})");
        }
    }
    let is_multiple = version >= 3 && kind == RAPID;
    match kind {
        CONFIG | RAPID if payload.length < CONFIG_BYTES => Err(Stop::Invalid),
        RAPID if is_multiple && payload.length < MULTIPLE_BYTES => Err(Stop::Invalid),
        RAPID if is_multiple => several_trees(text, cursor, payload.length),
        CONFIG | RAPID => one_tree(text, cursor, version, payload.length),
        _ => Ok(()),
    }
}

/// A bridge: priority and address.
fn bridge(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    let priority = cursor.u16()?;
    Ok(format!("{priority:04x}.{}", cursor.mac()?))
}

fn flags(text: &mut Text<'_>, flags: u8) {
    let names = [
        (0x01, "Topology change"),
        (0x02, "Proposal"),
        (0x10, "Learn"),
        (0x20, "Forward"),
        (0x40, "Agreement"),
        (0x80, "Topology change ACK"),
    ];
    names::flags(text.out, flags.into(), &names);
}

fn role(flags: u8) -> &'static str {
    ["Unknown", "Alternate", "Root", "Designated"][usize::from(flags >> 2 & 3)]
}

/// A time, in units of 1/256 s.
fn seconds(cursor: &mut Cursor<'_>) -> Result<String, Stop> {
    Ok(format!("{:.2}s", f64::from(cursor.u16()?) / 256.0))
}

fn times(text: &mut Text<'_>, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    let labels = ["message-age", ", max-age", ", hello-time", ", forwarding-delay"];
    text.out.push_str("\n\t");
    for label in labels {
        put!(text, "{label} {}", seconds(cursor)?);
    }
    Ok(())
}

fn one_tree(
    text: &mut Text<'_>,
    mut cursor: Cursor<'_>,
    version: u8,
    length: usize,
) -> Result<(), Stop> {
    let set = cursor.u8()?;
    text.out.push_str(", Flags [");
    flags(text, set);
    let (root, cost) = (bridge(&mut cursor)?, cursor.u32()?);
    let (this, port) = (bridge(&mut cursor)?, cursor.u16()?);
    put!(text, "], bridge-id {this}.{port:04x}, length {length}");
    if text.verbosity == 0 {
        return Ok(());
    }
    times(text, &mut cursor)?;
    put!(text, "\n\troot-id {root}, root-pathcost {cost}");
    if version == 2 {
        put!(text, ", port-role {}", role(set));
    }
    Ok(())
}

fn several_trees(text: &mut Text<'_>, mut cursor: Cursor<'_>, length: usize) -> Result<(), Stop> {
    let set = cursor.u8()?;
    text.out.push_str(", CIST Flags [");
    flags(text, set);
    put!(text, "], length {length}");
    if text.verbosity == 0 {
        return Ok(());
    }
    let (root, cost) = (bridge(&mut cursor)?, cursor.u32()?);
    put!(text, "\n\tport-role {}, CIST root-id {root}, CIST ext-pathcost {cost}", role(set));
    let (regional, port) = (bridge(&mut cursor)?, cursor.u16()?);
    put!(text, "\n\tCIST regional-root-id {regional}, CIST port-id {port:04x},");
    times(text, &mut cursor)?;
    let (_, bytes, _) = (cursor.u8()?, cursor.u16()?, cursor.u8()?);
    put!(text, "\n\tv3len {bytes}, MCID Name ");
    let name = cursor.take(32)?;
    let name = until_zero(name);
    crate::application::names::escaped(text.out, name);
    put!(text, ", rev {},\n\t\tdigest ", cursor.u16()?);
    hex(text.out, cursor.take(16)?);
    put!(text, ", CIST int-root-pathcost {},", cursor.u32()?);
    put!(text, "\n\tCIST bridge-id {}, CIST remaining-hops {}", bridge(&mut cursor)?, cursor.u8()?);
    Ok(())
}
