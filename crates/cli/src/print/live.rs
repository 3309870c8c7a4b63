//! Packets of a run as text on standard output, while they come.

use super::text::{PacketText, Style};
use crate::open;
use indicatif::ProgressBar;
use ringside_capture::config::{Print, StreamWriter};
use ringside_store::TextWriter;
use ringside_store::writer::Describe;
use std::io::{self, IsTerminal, Write};

/// The printer of a run. `bar` is the line at the bottom of the terminal, if there is one.
///
/// # Errors
/// There is no standard output.
pub fn printer(style: Style, bar: &ProgressBar) -> anyhow::Result<Print> {
    // Only there do the lines get in its way.
    let shares_terminal = io::stdout().is_terminal() && !bar.is_hidden();
    let bar = shares_terminal.then(|| bar.clone());
    let mut text = PacketText::live(style);
    Ok(Print {
        fd: open::stdout_stream()?,
        writer: Box::new(move |out, interfaces| {
            let describe: Describe = Box::new(move |out, frame, interface| {
                text.append(out, frame, interface.link_type);
            });
            Box::new(TextWriter::new(Lines { out, bar }, interfaces, describe))
        }),
    })
}

/// Writes whole lines where they fit one write, so that no other writer's line comes between.
struct Lines {
    out: StreamWriter,
    /// The line at the bottom of the same terminal.
    bar: Option<ProgressBar>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = whole_lines(bytes, StreamWriter::WRITE_BYTES_MAX);
        match &self.bar {
            Some(bar) => bar.suspend(|| self.out.write(part)),
            None => self.out.write(part),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The lines at the beginning that fit `bytes_max` together; so much of the first if it does not.
fn whole_lines(bytes: &[u8], bytes_max: usize) -> &[u8] {
    let part = &bytes[..bytes.len().min(bytes_max)];
    let end = part.iter().rposition(|&byte| byte == b'\n');
    end.map_or(part, |end| &part[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_at_the_end_of_a_line_if_one_fits() {
        for (bytes, expected) in [
            ("", ""),
            ("ab", "ab"),
            ("a\n", "a\n"),
            ("a\nb", "a\n"),
            ("a\nb\ncd\n", "a\nb\n"),
            ("abcdefgh\n", "abcdef"),
            ("abcde\nx\n", "abcde\n"),
        ] {
            let part = whole_lines(bytes.as_bytes(), 6);
            assert_eq!(part, expected.as_bytes(), "{bytes:?}");
        }
    }
}
