//! A text that is shown anew in its place on the terminal behind standard output.

use crate::{BottomLine, open_nonblocking};
use console::Term;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};

/// Rows and columns of a terminal that does not say.
const USUAL_SIZE: (u16, u16) = (24, 80);

/// A text of some lines that is shown anew in place of the one before. A terminal that stands still
/// misses some, and nothing waits for it.
pub struct Screen {
    term: Term,
    file: File,
    /// What found no room yet.
    waiting: Vec<u8>,
    /// Lines of the text that is shown.
    lines: usize,
}

impl Screen {
    /// On standard output, if that is a terminal which need not be waited for.
    pub fn of_stdout() -> Option<Screen> {
        let stdout = io::stdout();
        let file = stdout.is_terminal().then(|| open_nonblocking(&stdout).ok()).flatten()?;
        Some(Screen { term: Term::stdout(), file, waiting: Vec::new(), lines: 0 })
    }

    /// Rows of the terminal.
    pub fn rows(&self) -> usize {
        self.size().0.into()
    }

    fn size(&self) -> (u16, u16) {
        self.term.size_checked().unwrap_or(USUAL_SIZE)
    }

    /// Shows a text, above the line at the bottom. Lines are cut where the terminal ends.
    pub fn show(&mut self, text: &str, bottom: &BottomLine) {
        if !self.waiting.is_empty() {
            return self.go_on(bottom);
        }
        let (mut drawing, columns) = (self.erasing(), self.size().1.into());
        for line in text.lines() {
            let line = console::truncate_str(line, columns, "");
            // Writing to a String.
            let _ = writeln!(drawing, "{line}");
            self.lines += 1;
        }
        self.waiting = drawing.into_bytes();
        self.go_on(bottom);
    }

    /// Takes the text away, after the line at the bottom has gone.
    pub fn clear(&mut self) {
        let erasing = self.erasing();
        self.waiting.extend(erasing.into_bytes());
        // A terminal that has gone, or has no room, shows what it shows.
        let _ = self.file.write_all(&self.waiting);
        self.waiting.clear();
    }

    /// Up to the first line of the text, and everything below it away (console_codes(4)).
    fn erasing(&mut self) -> String {
        match std::mem::take(&mut self.lines) {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        }
    }

    /// Writes what waits, as far as there is room.
    fn go_on(&mut self, bottom: &BottomLine) {
        while !self.waiting.is_empty() {
            let Screen { file, waiting, .. } = self;
            match bottom.write_above(waiting, |bytes| file.write(bytes)) {
                Ok(count @ 1..) => drop(waiting.drain(..count)),
                Ok(_) | Err(_) => return,
            }
        }
    }
}
