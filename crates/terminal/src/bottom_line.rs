//! A terminal that lines and one line at its bottom share. It may stand still (Ctrl-S, a
//! connection that hangs), and nothing that watches a run may wait for it: each write takes what
//! there is room for.

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that are drawn and wait for room: some twenty drawings of the bottom line. Of what comes
/// while a terminal stands still for longer, the last is enough.
const WAITING_BYTES_MAX: usize = 4096;
/// How often the bottom line is drawn at most, in hertz, as indicatif does by itself.
const DRAWINGS_PER_SECOND: u8 = 20;
/// To the beginning of the line, and erase it (console_codes(4)).
const ERASE_LINE: &[u8] = b"\r\x1b[2K";

/// A second opening of the terminal behind `fd`, whose writes do not wait. On the first this
/// setting would apply to all processes that have it open, also to the shell.
///
/// # Errors
/// It is the terminal of another user (after su), or cannot be opened otherwise.
pub fn open_nonblocking(fd: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// A line at the bottom of the terminal behind standard error that is drawn anew, and lines above
/// it, of one other writer.
#[derive(Clone)]
pub struct BottomLine {
    bar: ProgressBar,
    /// None where nothing is drawn.
    pen: Option<Pen>,
}

impl BottomLine {
    /// Nothing is drawn where standard error is no terminal, or one that can only be waited for.
    pub fn new() -> BottomLine {
        let stderr = io::stderr();
        let file = stderr.is_terminal().then(|| open_nonblocking(&stderr).ok()).flatten();
        let pen = file.map(Pen::new);
        let target = match &pen {
            // Nothing is read.
            Some(pen) => ProgressDrawTarget::term(
                Term::read_write_pair(io::stdin(), pen.clone()),
                DRAWINGS_PER_SECOND,
            ),
            None => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
        BottomLine { bar, pen }
    }

    /// The line itself.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Has `write` write some of `bytes` above the line; it must not wait, because the line cannot
    /// change meanwhile.
    ///
    /// # Errors
    /// Those of `write`, or there is no room.
    pub fn write_above(
        &self,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(pen) = &self.pen else { return write(bytes) };
        let is_within_line = {
            let mut drawing = pen.drawing();
            drawing.go_on()?;
            drawing.is_within_line
        };
        let write = || pen.drawing().write_line(bytes, write);
        // Within a line the bottom line does not stand there, and need not be taken away.
        if is_within_line { write() } else { self.bar.suspend(write) }
    }

    /// Shows what is drawn and waits for room, ahead of messages: they too wait for the terminal.
    pub fn settle(&self) {
        let waiting = self.pen.as_ref().map(|pen| std::mem::take(&mut pen.drawing().waiting));
        // A terminal that has gone shows nothing.
        let _ = io::stderr().write_all(&waiting.unwrap_or_default());
    }
}

impl Default for BottomLine {
    fn default() -> BottomLine {
        BottomLine::new()
    }
}

/// What the terminal shows of the bottom line.
#[derive(Debug)]
struct Drawing {
    file: File,
    /// What found no room yet.
    waiting: Vec<u8>,
    /// The lines above have come to the middle of one: nothing may be drawn there.
    is_within_line: bool,
}

impl Drawing {
    /// Writes what waits, as far as it may stand there now.
    ///
    /// # Errors
    /// There is no room for all of it ([`WouldBlock`](ErrorKind::WouldBlock)).
    fn go_on(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() && !self.is_within_line {
            match self.file.write(&self.waiting) {
                Ok(0) => return Err(ErrorKind::WouldBlock.into()),
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A terminal that has gone shows nothing.
                Err(_) => self.waiting.clear(),
            }
        }
        Ok(())
    }

    /// Draws, or has what is drawn wait for room.
    fn draw(&mut self, bytes: &[u8]) {
        if self.waiting.len() + bytes.len() > WAITING_BYTES_MAX {
            self.waiting.clear();
            self.waiting.extend_from_slice(ERASE_LINE);
        }
        self.waiting.extend_from_slice(bytes);
        // What does not go now goes with the next.
        let _ = self.go_on();
    }

    /// Lines of the other writer, behind all that is drawn.
    fn write_line(
        &mut self,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.go_on()?;
        let count = write(bytes)?;
        if let Some(last) = bytes[..count].last() {
            self.is_within_line = *last != b'\n';
        }
        Ok(count)
    }
}

/// Draws, for the bottom line and for the writer above it.
#[derive(Clone, Debug)]
struct Pen(Arc<Mutex<Drawing>>);

impl Pen {
    fn new(file: File) -> Pen {
        let drawing = Drawing { file, waiting: Vec::new(), is_within_line: false };
        Pen(Arc::new(Mutex::new(drawing)))
    }

    fn drawing(&self) -> MutexGuard<'_, Drawing> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.drawing().draw(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Pen {
    fn as_raw_fd(&self) -> RawFd {
        self.drawing().file.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, PipeWriter, Read};

    /// What is drawn on it, as on a terminal that shows what is read.
    fn screen() -> (PipeReader, PipeWriter, Drawing) {
        let (reader, writer) = io::pipe().unwrap();
        let file = open_nonblocking(&writer).unwrap();
        (reader, writer, Drawing { file, waiting: Vec::new(), is_within_line: false })
    }

    fn read(reader: &mut PipeReader, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn nothing_is_drawn_within_a_line() {
        let (mut reader, mut writer, mut drawing) = screen();
        for part in ["one ", "line\n", "next"] {
            let written = drawing.write_line(part.as_bytes(), |bytes| writer.write(bytes));
            assert_eq!(written.unwrap(), part.len());
            drawing.draw(b"[bar]");
        }
        assert_eq!(read(&mut reader, 23), b"one line\n[bar][bar]next");
        assert_eq!(drawing.waiting, b"[bar]");
    }

    #[test]
    fn what_is_drawn_waits_for_room_and_goes_before_lines() {
        let (mut reader, writer, mut drawing) = screen();
        let mut filler = open_nonblocking(&writer).unwrap();
        let mut filled = 0;
        while let Ok(count) = filler.write(&[b'.'; 4096]) {
            filled += count;
        }
        drawing.draw(b"[bar]");
        let early = drawing.write_line(b"line\n", |_| panic!("ahead of what is drawn"));
        assert_eq!(early.unwrap_err().kind(), ErrorKind::WouldBlock);
        for _ in 0..1000 {
            drawing.draw(b"[bar]");
            assert!(drawing.waiting.len() <= WAITING_BYTES_MAX);
        }
        read(&mut reader, filled);
        drawing.write_line(b"line\n", |bytes| filler.write(bytes)).unwrap();
        let shown = read(&mut reader, ERASE_LINE.len() + 5);
        assert_eq!(shown, [ERASE_LINE, b"[bar]"].concat());
    }
}
