//! A place in a line.

use crate::language::error::{Fault, Outcome, quoted};

/// Which bytes end a word. A table, because every byte of every word is looked at.
const ENDS: [bool; 256] = {
    let signs = b" \t()!&|=,#\">";
    let mut ends = [false; 256];
    let mut index = 0;
    while index < signs.len() {
        ends[signs[index] as usize] = true;
        index += 1;
    }
    ends
};

/// A line that is read from left to right.
#[derive(Clone, Debug)]
pub struct Cursor<'t> {
    line: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// At the start of `line`.
    pub fn new(line: &'t str) -> Cursor<'t> {
        Cursor { line, at: 0 }
    }

    /// Byte of the line, from 0.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The whole line.
    pub fn line(&self) -> &'t str {
        self.line
    }

    /// Passes blanks and tabs.
    pub fn skip_blanks(&mut self) {
        let rest = &self.line.as_bytes()[self.at..];
        let blanks = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
        self.at += blanks.unwrap_or(rest.len());
    }

    /// What is left, blanks first passed.
    fn rest(&mut self) -> &'t str {
        self.skip_blanks();
        &self.line[self.at..]
    }

    /// Passes `sign` if it comes next.
    pub fn eat(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    /// Passes the word `wanted` if it comes next.
    pub fn eat_word(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted) && self.peek() == wanted;
        if found {
            self.at += wanted.len();
        }
        found
    }

    /// The next word, passed; empty if a sign or the end comes next.
    pub fn word(&mut self) -> &'t str {
        let word = self.peek();
        self.at += word.len();
        word
    }

    /// The next word; blanks before it are passed.
    pub fn peek(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(|byte| ENDS[usize::from(byte)]).unwrap_or(rest.len());
        let word = &rest[..end];
        // A foreign blank is no part of a word, however it looks.
        match word.is_ascii() {
            true => word,
            false => &word[..word.find(char::is_whitespace).unwrap_or(word.len())],
        }
    }

    /// The next byte that is no blank.
    pub fn peek_byte(&mut self) -> Option<u8> {
        self.rest().bytes().next()
    }

    /// Decimal digits, passed.
    pub fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// True if nothing but a comment is left.
    pub fn is_end(&mut self) -> bool {
        matches!(self.peek_byte(), None | Some(b'#'))
    }

    /// Refuses what is left, if there is something.
    pub fn expect_end(&mut self, fix: &str) -> Outcome<()> {
        if self.is_end() { Ok(()) } else { Err(self.unexpected(fix)) }
    }

    /// What comes next does not belong here.
    pub fn unexpected(&mut self, fix: impl Into<String>) -> Fault {
        let word = self.peek();
        let what = match self.rest().chars().next() {
            None | Some('#') => "the line ends here".to_owned(),
            Some(_) if !word.is_empty() => format!("unexpected {}", quoted(word)),
            Some(c) if c.is_ascii_graphic() => format!("unexpected `{c}`"),
            Some(c) => format!("unexpected character U+{:04X}", u32::from(c)),
        };
        Fault::new(self.at, what, fix)
    }

    /// A text in quotation marks, passed, with its escapes read; none if no quotation mark comes
    /// next.
    pub fn string(&mut self) -> Outcome<Option<Vec<u8>>> {
        if self.peek_byte() != Some(b'"') {
            return Ok(None);
        }
        let start = self.at;
        let bytes = self.line.as_bytes();
        let mut text = Vec::new();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                None => {
                    let fix = "write `\"` at its end, and \\\" for one within";
                    return Err(Fault::new(start, "the text does not end", fix));
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    let (byte, width) = escape(&bytes[at..]).ok_or_else(|| {
                        let fix =
                            "escapes are \\\" \\\\ \\n \\r \\t and \\xHH; write \\\\ for `\\`";
                        Fault::new(at, "unknown escape", fix)
                    })?;
                    text.push(byte);
                    at += width;
                }
                Some(&byte) => {
                    text.push(byte);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        Ok(Some(text))
    }
}

/// The byte that an escape stands for, and how long the escape is.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let simple = |byte| Some((byte, 2));
    match bytes.get(1)? {
        byte @ (b'"' | b'\\') => simple(*byte),
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'x' => match bytes.get(2..4)? {
            &[high, low] => Some((super::bytes::digit(high)? << 4 | super::bytes::digit(low)?, 4)),
            _ => None,
        },
        _ => None,
    }
}
