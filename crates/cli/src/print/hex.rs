//! The bytes of a packet below its line, as tcpdump's -x and -X.

use super::HexDump;
use std::fmt::Write;

/// Appends the bytes from `from` on, 16 a line.
pub(super) fn dump(out: &mut String, bytes: &[u8], from: usize, style: HexDump) {
    let shown = bytes.get(from..).unwrap_or(&[]);
    for (row, chunk) in shown.chunks(16).enumerate() {
        let _ = write!(out, "\n\t0x{:04x}: ", 16 * row);
        for pair in chunk.chunks(2) {
            out.push(' ');
            for byte in pair {
                let _ = write!(out, "{byte:02x}");
            }
        }
        if style == HexDump::WithAscii {
            let width = chunk.len() * 2 + chunk.len().div_ceil(2);
            out.extend(std::iter::repeat_n(' ', 40 - width + 2));
            let printable =
                |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
            out.extend(chunk.iter().map(printable));
        }
    }
}
