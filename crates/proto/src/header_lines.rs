//! Header lines, as HTTP/1 (RFC 9112 section 5) and SIP (RFC 3261 section 7.3) have them.

use crate::outcome::Stop;
use crate::scanner::Scanner;

/// Header lines that are looked at: as many as Apache takes. What is sought stands among the first
/// ten; a message of more lines costs no more than this.
const LINES_MAX: usize = 100;

/// How the header lines of one protocol are written.
pub(crate) struct Grammar {
    /// True for the bytes of a name.
    pub(crate) is_token: fn(u8) -> bool,
    /// True if a name may have spaces behind it. In HTTP that is refused, because peers disagree
    /// over what it means.
    pub(crate) space_before_colon: bool,
    /// True for bytes that stand in no value; ends of lines are never part of it.
    pub(crate) is_wrong: fn(u8) -> bool,
}

/// The lines of one header block, in order.
pub(crate) struct HeaderLines<'a> {
    scanner: Scanner<'a>,
    grammar: &'static Grammar,
    lines_left: usize,
    is_at_end: bool,
}

impl<'a> HeaderLines<'a> {
    /// Starts behind the start line.
    #[inline]
    pub(crate) fn new(scanner: Scanner<'a>, grammar: &'static Grammar) -> HeaderLines<'a> {
        HeaderLines { scanner, grammar, lines_left: LINES_MAX, is_at_end: false }
    }

    /// The next line: name and value. `None` behind the last line, or where no more are looked at.
    ///
    /// # Errors
    /// The bytes end within the line, or before it is seen that no other line continues it.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(&'a [u8], HeaderValue<'a>)>, Stop> {
        if self.lines_left == 0 {
            return Ok(None);
        }
        self.lines_left -= 1;
        if let Some(b'\r' | b'\n') = self.scanner.rest().first() {
            self.scanner.line_end()?;
            self.is_at_end = true;
            return Ok(None);
        }
        let name = self.name()?;
        let start = self.scanner.rest();
        loop {
            self.scanner.line(self.grammar.is_wrong)?;
            match self.scanner.rest().first() {
                Some(b' ' | b'\t') => {}
                Some(_) => break,
                None => return Err(Stop::Cut),
            }
        }
        let bytes = start.len() - self.scanner.rest().len();
        Ok(Some((name, HeaderValue::new(start.get(..bytes).unwrap_or_default()))))
    }

    /// What is not read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.scanner.rest()
    }

    /// True if the empty line behind the last one was read.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Takes the name and the colon behind it.
    #[inline]
    fn name(&mut self) -> Result<&'a [u8], Stop> {
        let line = self.scanner.rest();
        let is_token = self.grammar.is_token;
        let bytes = line.iter().position(|&byte| !is_token(byte)).ok_or(Stop::Cut)?;
        let (name, mut rest) = line.split_at_checked(bytes).ok_or(Stop::Cut)?;
        while let ([b' ' | b'\t', after @ ..], true) = (rest, self.grammar.space_before_colon) {
            rest = after;
        }
        match rest {
            [b':', after @ ..] if !name.is_empty() => {
                self.scanner = Scanner::at(after);
                Ok(name)
            }
            [] => Err(Stop::Cut),
            _ => Err(Stop::Malformed),
        }
    }
}

/// The value of a header, without the space around it. It may go over several lines, of which each
/// but the first begins with space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderValue<'a>(&'a [u8]);

impl<'a> HeaderValue<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> HeaderValue<'a> {
        HeaderValue(trim(bytes))
    }

    /// The bytes as they stand in the payload, ends of inner lines included.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// What the bytes mean: lines joined by one space each.
    pub fn bytes(self) -> impl Iterator<Item = u8> + use<'a> {
        let lines = self.0.split(|&byte| byte == b'\n').map(trim).filter(|line| !line.is_empty());
        lines.enumerate().flat_map(|(index, line)| {
            let joint: &[u8] = if index == 0 { b"" } else { b" " };
            joint.iter().chain(line).copied()
        })
    }

    /// The elements of a list (RFC 9110 section 5.6.1), without space around them and without
    /// empty ones. Commas within quotes are taken for commas.
    pub fn elements(self) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        self.0.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
    }

    /// The bytes, if they are one word without space in it.
    pub(crate) fn word(self) -> Option<&'a [u8]> {
        let is_word = !self.0.is_empty() && !self.0.iter().any(|&byte| is_space(byte));
        is_word.then_some(self.0)
    }
}

impl core::fmt::Debug for HeaderValue<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Space in a value: within a line, or between lines.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim(bytes: &[u8]) -> &[u8] {
    let Some(start) = bytes.iter().position(|&byte| !is_space(byte)) else { return &[] };
    let end = bytes.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
    bytes.get(start..end).unwrap_or_default()
}
