//! A whole head: start line and header lines. What peers let pass is let pass here: a log that
//! leaves out what is odd leaves out attacks.

use crate::header_lines::{HeaderValue, is_space};

/// The start of a message and its header lines.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The first line.
    pub start: Start<'a>,
    lines: &'a [u8],
}

/// The first line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// Of a request.
    Request {
        /// Method, as `GET`.
        method: &'a [u8],
        /// Target as it stands, spaces within it included.
        target: &'a [u8],
        /// The digit after `HTTP/1.`; none of HTTP/0.9, which has no versions.
        minor_version: Option<u8>,
    },
    /// Of a response.
    Response {
        /// Status code.
        status: u16,
        /// What it means, for people; it may be empty.
        reason: &'a [u8],
        /// The digit after `HTTP/1.`
        minor_version: u8,
    },
}

/// Where a head ends: behind its empty line. The first `seen` bytes were looked at before, and no
/// end was found. Empty lines in front do not end it.
pub fn head_end(bytes: &[u8], seen: usize) -> Option<usize> {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    // The end may lie over the border.
    let mut at = seen.saturating_sub(3).max(blank);
    loop {
        let rest = bytes.get(at..)?;
        at += rest.iter().position(|&byte| byte == b'\n')? + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

impl<'a> Head<'a> {
    /// Reads a head that is all there, its empty line included. `None` if the first line is that of
    /// no message.
    pub fn parse(bytes: &'a [u8]) -> Option<Head<'a>> {
        let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let bytes = bytes.get(blank..)?;
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (line, lines) = bytes.split_at_checked(end + 1)?;
        let line = line.trim_ascii_end();
        let start = match line.strip_prefix(b"HTTP/1.") {
            Some(rest) => response(rest)?,
            None => request(line)?,
        };
        Some(Head { start, lines })
    }

    /// The header lines, in order: name and value. Lines without a colon are passed over.
    pub fn lines(&self) -> Lines<'a> {
        Lines { rest: self.lines }
    }

    /// The first value of a header, by its name in lower case.
    pub fn value(&self, name: &[u8]) -> Option<HeaderValue<'a>> {
        self.lines().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn response(rest: &[u8]) -> Option<Start<'_>> {
    let [minor @ b'0'..=b'9', b' ', status @ ..] = rest else { return None };
    let status = status.trim_ascii_start();
    let (digits, reason) = status.split_at_checked(3)?;
    let number = |sum: Option<u16>, digit: &u8| {
        Some(10 * sum? + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?))
    };
    let status = digits.iter().fold(Some(0), number)?;
    if reason.first().is_some_and(|&byte| !is_space(byte)) {
        return None;
    }
    Some(Start::Response { status, reason: reason.trim_ascii(), minor_version: minor - b'0' })
}

fn request(line: &[u8]) -> Option<Start<'_>> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    let (method, rest) = line.split_at_checked(space)?;
    let rest = rest.trim_ascii_start();
    let version = rest.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1);
    let (before, last) = rest.split_at_checked(version)?;
    let (target, minor_version) = match last {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9'] => {
            (before, Some(minor - b'0'))
        }
        _ => (rest, None),
    };
    let target = target.trim_ascii_end();
    let is_whole = !method.is_empty() && !target.is_empty();
    is_whole.then_some(Start::Request { method, target, minor_version })
}

/// Header lines of a head.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], HeaderValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line_bytes = line_end(self.rest)?;
            let (line, rest) = self.rest.split_at_checked(line_bytes)?;
            if line.trim_ascii().is_empty() {
                return None;
            }
            self.rest = rest;
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, value) = line.split_at_checked(colon)?;
            return Some((name.trim_ascii(), HeaderValue::new(value.get(1..)?)));
        }
    }
}

/// Where a line ends, with those that continue it.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == b'\n')? + 1;
        // A line of nothing but space is no header, and continues none.
        match bytes.get(at..)? {
            [b' ' | b'\t', ..] if at > 2 => {}
            _ => return Some(at),
        }
    }
}
