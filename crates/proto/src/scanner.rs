//! Words of a start line, one after the other. HTTP/1 and SIP share this shape.

use crate::outcome::Stop;

/// Empty lines before a message that are passed over: some clients send one after a body
/// (RFC 9112 section 2.2), and SIP keeps connections open with pairs (RFC 5626 section 3.5.1).
const BLANK_LINES_MAX: usize = 4;
/// Bytes of a method. The longest that is registered has 17 (UPDATEREDIRECTREF), the longest of the
/// torture tests of RFC 4475 has 43; more is text of something else.
const METHOD_BYTES_MAX: usize = 64;

/// A place in a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    /// Starts at the message, behind empty lines.
    ///
    /// # Errors
    /// The bytes end there, or a carriage return stands alone.
    #[inline]
    pub(crate) fn at_message(payload: &'a [u8]) -> Result<Scanner<'a>, Stop> {
        let mut scanner = Scanner::at(payload);
        for _ in 0..BLANK_LINES_MAX {
            match scanner.rest.first() {
                Some(b'\r' | b'\n') => scanner.line_end()?,
                _ => break,
            }
        }
        Ok(scanner)
    }

    /// Goes on at `rest`.
    #[inline]
    pub(crate) fn at(rest: &'a [u8]) -> Scanner<'a> {
        Scanner { rest }
    }

    /// What is not read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True if the next bytes are `literal`, in any case; nothing is taken.
    #[inline]
    pub(crate) fn begins(&self, literal: &[u8]) -> Result<bool, Stop> {
        let there = self.rest.len().min(literal.len());
        let (Some(ours), Some(wanted)) = (self.rest.get(..there), literal.get(..there)) else {
            return Err(Stop::Cut);
        };
        match ours.eq_ignore_ascii_case(wanted) {
            true if there < literal.len() => Err(Stop::Cut),
            same => Ok(same),
        }
    }

    /// Takes `literal`, in exactly this case.
    #[inline]
    pub(crate) fn literal(&mut self, literal: &[u8]) -> Result<(), Stop> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => self.rest = rest,
            None if literal.starts_with(self.rest) => return Err(Stop::Cut),
            None => return Err(Stop::Malformed),
        }
        Ok(())
    }

    /// Takes `literal`, in any case.
    #[inline]
    pub(crate) fn literal_any_case(&mut self, literal: &[u8]) -> Result<(), Stop> {
        if !self.begins(literal)? {
            return Err(Stop::Malformed);
        }
        self.rest = self.rest.get(literal.len()..).unwrap_or_default();
        Ok(())
    }

    /// Takes the method of a request and the space behind it.
    #[inline]
    pub(crate) fn method(&mut self, is_token: fn(u8) -> bool) -> Result<&'a [u8], Stop> {
        let start = self.rest.get(..METHOD_BYTES_MAX + 1).unwrap_or(self.rest);
        match start.iter().position(|&byte| !is_token(byte)) {
            Some(bytes) => self.word(bytes),
            None if start.len() > METHOD_BYTES_MAX => Err(Stop::Malformed),
            None => Err(Stop::Cut),
        }
    }

    /// Takes the target of a request and the space behind it.
    #[inline]
    pub(crate) fn target(&mut self) -> Result<&'a [u8], Stop> {
        let is_target = |byte: u8| byte > b' ' && byte != 0x7f;
        let bytes = self.rest.iter().position(|&byte| !is_target(byte)).ok_or(Stop::Cut)?;
        self.word(bytes)
    }

    /// Takes a word of `bytes` bytes, which is not empty and has one space behind it.
    #[inline]
    fn word(&mut self, bytes: usize) -> Result<&'a [u8], Stop> {
        match self.rest.split_at_checked(bytes) {
            Some((word, [b' ', rest @ ..])) if !word.is_empty() => {
                self.rest = rest;
                Ok(word)
            }
            _ => Err(Stop::Malformed),
        }
    }

    /// Takes one digit.
    #[inline]
    pub(crate) fn digit(&mut self) -> Result<u8, Stop> {
        match self.rest {
            [digit @ b'0'..=b'9', rest @ ..] => {
                self.rest = rest;
                Ok(digit - b'0')
            }
            [] => Err(Stop::Cut),
            _ => Err(Stop::Malformed),
        }
    }

    /// Takes a status of three digits; a space or the line's end is behind it and stays. The reason
    /// may be absent together with its space, as several servers have it.
    #[inline]
    pub(crate) fn status(&mut self) -> Result<u16, Stop> {
        let mut status = 0;
        for _ in 0..3 {
            status = 10 * status + u16::from(self.digit()?);
        }
        match self.rest.first() {
            Some(b' ' | b'\r' | b'\n') => Ok(status),
            Some(_) => Err(Stop::Malformed),
            None => Err(Stop::Cut),
        }
    }

    /// Takes the rest of a line without `is_wrong` bytes, and its end.
    #[inline]
    pub(crate) fn line(&mut self, is_wrong: fn(u8) -> bool) -> Result<(), Stop> {
        let ends = |&byte: &u8| is_wrong(byte) || byte == b'\n' || byte == b'\r';
        let bytes = self.rest.iter().position(ends).ok_or(Stop::Cut)?;
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.line_end()
    }

    /// Takes the end of a line: CR LF, or LF alone.
    #[inline]
    pub(crate) fn line_end(&mut self) -> Result<(), Stop> {
        match self.rest {
            [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => self.rest = rest,
            [] | [b'\r'] => return Err(Stop::Cut),
            _ => return Err(Stop::Malformed),
        }
        Ok(())
    }
}

/// True for bytes that stand in no text of one line; a tab is space.
#[inline]
pub(crate) fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}
