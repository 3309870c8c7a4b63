//! Numbers and bytes from the wire as words.

use crate::cursor::Cursor;
use std::fmt::Write;

/// Appends bytes as text in the way of terminals: a control byte as `^X`, what is above 127 with
/// `M-` before it. None reaches the output as it is.
pub(crate) fn escaped(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if byte >= 0x80 {
            out.push_str("M-");
        }
        match byte & 0x7f {
            low @ (0..=0x1f | 0x7f) => {
                out.push('^');
                out.push(char::from(low ^ 0x40));
            }
            low => out.push(char::from(low)),
        }
    }
}

/// What stands before the first zero, with which a field is filled.
pub(crate) fn until_zero(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Appends bytes in hexadecimal without anything between them.
pub(crate) fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends seconds as years, weeks, days, hours, minutes and seconds, without what is zero.
pub(crate) fn duration(out: &mut String, seconds: u32) {
    const UNITS: [(u32, char); 6] =
        [(31_536_000, 'y'), (604_800, 'w'), (86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
    if seconds == 0 {
        out.push_str("0s");
    }
    let mut left = seconds;
    for (unit, letter) in UNITS {
        if left >= unit {
            let _ = write!(out, "{}{letter}", left / unit);
            left %= unit;
        }
    }
}

/// Names in DNS's form without compression; zeros pad.
pub(crate) fn domains(out: &mut String, mut value: Cursor<'_>) {
    let mut is_start = true;
    while let Ok(bytes) = value.u8() {
        let Ok(label) = value.take(usize::from(bytes)) else { return };
        if bytes == 0 {
            is_start = true;
            continue;
        }
        if is_start {
            out.push(' ');
            is_start = false;
        }
        escaped(out, label);
        out.push('.');
    }
}

/// Appends the names of the bits that are set, with commas between them.
pub(crate) fn flags(out: &mut String, set: u32, names: &[(u32, &str)]) {
    let mut comma = "";
    for (bit, name) in names {
        if set & bit != 0 {
            let _ = write!(out, "{comma}{name}");
            comma = ", ";
        }
    }
    if comma.is_empty() {
        out.push_str("none");
    }
}
