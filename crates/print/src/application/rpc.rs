//! ONC RPC (RFC 5531): which procedure of which program is called, and how it was answered. Of
//! NFS the arguments are not shown: they begin with a handle, whose bytes are the server's own.

use super::Text;
use crate::cursor::{Cursor, Payload, Stop};
use crate::put;
use std::fmt::Write;

const VERSION: u32 = 2;
const PORTMAP: u32 = 100_000;
const NFS: u32 = 100_003;

/// Procedures of the port mapper (RFC 1833), by number.
const PORTMAP_PROCEDURES: [&str; 6] = ["null", "set", "unset", "getport", "dump", "callit"];
/// Those of NFS 2 (RFC 1094); the writing to a cache was never made.
const NFS2_PROCEDURES: [&str; 18] = [
    "null",
    "getattr",
    "setattr",
    "root",
    "lookup",
    "readlink",
    "read",
    "writecache",
    "write",
    "create",
    "remove",
    "rename",
    "link",
    "symlink",
    "mkdir",
    "rmdir",
    "readdir",
    "fsstat",
];
/// Those of NFS 3 (RFC 1813).
const NFS3_PROCEDURES: [&str; 22] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];
/// Those of NFS 4 (RFC 7530).
const NFS4_PROCEDURES: [&str; 2] = ["null", "compound"];

/// Calls of the port mapper, and answers.
pub(super) fn portmap(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    datagram(text, payload, "RPC")
}

/// Calls of NFS, and answers.
pub(super) fn nfs(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    datagram(text, payload, "NFS")
}

/// As [`portmap`], in a stream.
pub(super) fn portmap_over_tcp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    segment(text, payload, "RPC")
}

/// As [`nfs`], in a stream.
pub(super) fn nfs_over_tcp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    segment(text, payload, "NFS")
}

fn datagram(text: &mut Text<'_>, payload: Payload<'_>, name: &str) -> Result<(), Stop> {
    if !is_message(payload.bytes) {
        put!(text, "UDP, length {}", payload.length);
        return Ok(());
    }
    message(text, payload.cursor(), payload.length, name)
}

/// A segment is shown that begins with the mark of a record (RFC 5531, section 11).
fn segment(text: &mut Text<'_>, payload: Payload<'_>, name: &str) -> Result<(), Stop> {
    let Some((mark, bytes)) = payload.bytes.split_first_chunk::<4>() else { return Ok(()) };
    if !is_message(bytes) {
        return Ok(());
    }
    let fragment = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
    text.out.push_str(": ");
    message(text, Cursor::new(bytes), fragment.min(payload.length - mark.len()), name)
}

/// True for bytes that begin like a call or an answer; others are the middle of one.
fn is_message(bytes: &[u8]) -> bool {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word));
    match word(4) {
        Some(0) => word(8) == Some(VERSION),
        Some(1) => matches!(word(8), Some(0 | 1)),
        _ => false,
    }
}

fn message(
    text: &mut Text<'_>,
    mut cursor: Cursor<'_>,
    length: usize,
    name: &str,
) -> Result<(), Stop> {
    let (id, is_answer) = (cursor.u32()?, cursor.u32()? == 1);
    if is_answer {
        put!(text, "{name} reply xid {id} ");
        return answer(text, cursor, length);
    }
    cursor.u32()?;
    let (program, version, procedure) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let name = procedure_name(program, version, procedure);
    if program == NFS {
        put!(text, "NFS request xid {id} {length} ");
    } else {
        put!(text, "RPC request xid {id} {length} program {program}.{version} ");
    }
    match name {
        Some(name) => text.out.push_str(name),
        None => {
            put!(text, "proc-{procedure}");
        }
    }
    if program == PORTMAP && matches!(name, Some("getport" | "set" | "unset")) {
        // Who asks, and what proves it.
        for _ in 0..2 {
            cursor.u32()?;
            let bytes = cursor.u32()? as usize;
            cursor.take(bytes.next_multiple_of(4))?;
        }
        put!(text, " {}.{}", cursor.u32()?, cursor.u32()?);
    }
    Ok(())
}

fn procedure_name(program: u32, version: u32, procedure: u32) -> Option<&'static str> {
    let names: &[&'static str] = match (program, version) {
        (PORTMAP, _) => &PORTMAP_PROCEDURES,
        (NFS, 2) => &NFS2_PROCEDURES,
        (NFS, 3) => &NFS3_PROCEDURES,
        (NFS, 4) => &NFS4_PROCEDURES,
        _ => &[],
    };
    names.get(usize::try_from(procedure).ok()?).copied()
}

fn answer(text: &mut Text<'_>, mut cursor: Cursor<'_>, length: usize) -> Result<(), Stop> {
    if cursor.u32()? == 0 {
        put!(text, "reply ok {length}");
        return Ok(());
    }
    put!(text, "reply ERR {length}: ");
    match cursor.u32()? {
        0 => {
            put!(text, "RPC Version mismatch ({}-{})", cursor.u32()?, cursor.u32()?);
        }
        1 => {
            let reason = cursor.u32()?;
            put!(text, "Auth {}", refusal(reason));
        }
        other => {
            put!(text, "Unknown reason for rejecting rpc message {other}");
        }
    }
    Ok(())
}

/// Why who asks is not believed.
fn refusal(reason: u32) -> String {
    match reason {
        0 => "OK".into(),
        1 => "Bogus Credentials (seal broken)".into(),
        2 => "Rejected Credentials (client should begin new session)".into(),
        3 => "Bogus Verifier (seal broken)".into(),
        4 => "Verifier expired or was replayed".into(),
        5 => "Credentials are too weak".into(),
        other => format!("error {other}"),
    }
}
