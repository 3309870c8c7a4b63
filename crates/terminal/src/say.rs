//! Saying things: messages on standard error, data on standard output.
//!
//! The reader may have gone. Then messages are lost without harm, and data ends the work as a
//! closed pipe does everywhere.

use std::fmt::Display;
use std::io::{self, Write};

/// A message for people, on a line of its own, which is written at once: who waits for a word of it
/// finds the whole line, and lines of two processes do not mix.
pub fn message(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A line of data.
///
/// # Errors
/// The other end is closed, or the disk behind it is full.
pub fn data(line: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
