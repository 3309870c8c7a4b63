//! The bytes of a packet below its line, as tcpdump's -x, -X and -A.

use super::HexDump;
use std::fmt::Write;

/// Appends the bytes, 16 a line.
pub(super) fn dump(out: &mut String, bytes: &[u8], style: HexDump) {
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "\n\t0x{:04x}: ", 16 * row);
        pairs(out, chunk);
        if style == HexDump::WithAscii {
            let width = chunk.len() * 2 + chunk.len().div_ceil(2);
            out.extend(std::iter::repeat_n(' ', 40 - width + 2));
            let printable =
                |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
            out.extend(chunk.iter().map(printable));
        }
    }
}

/// Appends the bytes in hexadecimal, 16 a line, each line behind `before`.
pub(super) fn below(out: &mut String, bytes: &[u8], before: &str) {
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "{before}0x{:04x}: ", 16 * row);
        pairs(out, chunk);
    }
}

fn pairs(out: &mut String, bytes: &[u8]) {
    for pair in bytes.chunks(2) {
        out.push(' ');
        for byte in pair {
            let _ = write!(out, "{byte:02x}");
        }
    }
}

/// Appends the bytes as text: line feeds, tabs and blanks as they are, a carriage return at the
/// end of a line not at all, and a dot for whatever else is no graphic character.
pub(super) fn ascii(out: &mut String, bytes: &[u8]) {
    out.push('\n');
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if matches!(bytes.get(index + 1), Some(b'\n') | None) => {}
            b'\n' | b'\t' | b' ' => out.push(char::from(byte)),
            byte if byte.is_ascii_graphic() => out.push(char::from(byte)),
            _ => out.push('.'),
        }
    }
}
