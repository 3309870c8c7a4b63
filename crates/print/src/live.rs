//! Packets of a run as text on standard output, while they come.

use super::text::{PacketText, Style};
use indicatif::ProgressDrawTarget;
use ringside_capture::config::{Print, StreamWriter};
use ringside_store::TextWriter;
use ringside_store::writer::Describe;
use ringside_terminal::{BottomLine, open_nonblocking};
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;

/// The printer of a run to `output`, which is standard output as a stream of its own; above
/// `bottom`, the line at the bottom of the terminal.
pub fn printer(style: Style, bottom: &BottomLine, output: OwnedFd) -> Print {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal().then(|| open_nonblocking(&stdout).ok());
    if let Some(None) = terminal {
        // A write may wait for this terminal, and the line could not change meanwhile.
        bottom.bar().set_draw_target(ProgressDrawTarget::hidden());
    }
    let fd = terminal.flatten().map_or(output, OwnedFd::from);
    // Only on a terminal do the lines get in its way.
    let shares_terminal = stdout.is_terminal() && !bottom.bar().is_hidden();
    let bottom = shares_terminal.then(|| bottom.clone());
    Print {
        fd,
        writer: Box::new(move |out, interfaces| {
            // Here, and not before: interfaces have their names in the capture's namespace.
            let mut text = PacketText::live(style);
            let describe: Describe = Box::new(move |out, frame, interface| {
                text.append(out, frame, interface.link_type);
            });
            Box::new(TextWriter::new(Lines { out, bottom }, interfaces, describe))
        }),
    }
}

/// Writes whole lines where they fit one write, so that no other writer's line comes between.
struct Lines {
    out: StreamWriter,
    /// The line at the bottom of the same terminal.
    bottom: Option<BottomLine>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = whole_lines(bytes, StreamWriter::WRITE_BYTES_MAX);
        match &self.bottom {
            Some(bottom) => {
                self.out.write_by(|out| bottom.write_above(part, |part| out.write(part)))
            }
            None => self.out.write(part),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The lines at the beginning that fit `bytes_max` together; a part of the first if it does not
/// fit.
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
