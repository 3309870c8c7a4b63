//! Lines of a text that anybody may have written.

use super::error::{Collected, Fault, Outcome, RuleErrors};
use super::limits::LINE_BYTES_MAX;
use ringside_core::shown::is_direction;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Gives every line of `text` to `read`, with its number from 1: without a byte order mark and line
/// ends, checked to be UTF-8 without control characters. Collects what is wrong.
///
/// # Errors
/// Every line that is wrong, the first [`ERRORS_MAX`](super::limits::ERRORS_MAX) of them.
pub fn each_line(
    text: &[u8],
    mut read: impl FnMut(usize, &str) -> Outcome<()>,
) -> Result<(), RuleErrors> {
    let mut collected = Collected::default();
    let mut rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut number = 0;
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let (line, behind) = rest.split_at(end);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        rest = behind.get(1..).unwrap_or_default();
        number += 1;
        let outcome = checked(line).and_then(|line| read(number, line));
        if let Err(fault) = outcome
            && !collected.add(fault.in_line(number, line))
        {
            break;
        }
    }
    collected.into_result(!rest.is_empty())
}

/// A line as text.
///
/// # Errors
/// It is too long, not UTF-8, or has characters that do not belong in a line.
pub fn checked(line: &[u8]) -> Outcome<&str> {
    if line.len() > LINE_BYTES_MAX {
        let problem = format!("the line has {} bytes, {LINE_BYTES_MAX} are allowed", line.len());
        return Err(Fault::new(0, problem, "write several rules, or an address file (`@FILE`)"));
    }
    let text = std::str::from_utf8(line).map_err(|error| {
        let at = error.valid_up_to();
        let utf_16 = line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]);
        let fix = match utf_16 {
            true => "it looks like UTF-16: save the file as UTF-8",
            false => "save the file as UTF-8; in a payload write the byte as \\xHH",
        };
        Fault::new(at, format!("byte 0x{:02x} is not UTF-8 here", line[at]), fix)
    })?;
    // Nearly every line is plain ASCII, and a look at its bytes is enough.
    if line.iter().any(|&byte| !(b' '..=b'~').contains(&byte) && byte != b'\t') {
        let is_wrong = |c: char| (c.is_control() && c != '\t') || is_direction(c);
        if let Some((at, c)) = text.char_indices().find(|&(_, c)| is_wrong(c)) {
            return Err(refused(at, c));
        }
    }
    Ok(text)
}

fn refused(at: usize, c: char) -> Fault {
    let (name, fix) = match c {
        '\0' => (" (NUL)", "remove it; in a payload write \\x00"),
        '\r' => (" (a carriage return)", "end lines with \\n or \\r\\n; in a payload write \\r"),
        '\n' => (" (a line end)", "give one rule a line"),
        _ => ("", "remove it; in a payload write its bytes as \\xHH"),
    };
    let problem = format!("character U+{:04X}{name} does not belong in a line", u32::from(c));
    Fault::new(at, problem, fix)
}
