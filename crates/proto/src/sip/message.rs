//! A whole SIP message: its head, what of that makes a dialog, and its body.

use super::{Address, GRAMMAR, Sip, is_space, outside_quotes, read_start, take};
use crate::header_lines::{HeaderLines, HeaderValue};
use crate::outcome::{Outcome, Stop};
use crate::scanner::Scanner;

/// The head of a message, and what there is of its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// What the start says.
    pub start: Sip<'a>,
    /// Number and method of CSeq: which transaction of a dialog it is.
    pub cseq: Option<(u32, &'a [u8])>,
    /// Content-Length.
    pub content_length: Option<usize>,
    /// Content-Type.
    pub content_type: Option<HeaderValue<'a>>,
    /// User-Agent or Server: what program wrote it.
    pub agent: Option<HeaderValue<'a>>,
    /// Bytes of the head, the empty line behind it included.
    pub head_bytes: usize,
    /// Everything behind the head.
    pub body: &'a [u8],
}

/// Reads the message at the start of `payload` to the end of its head.
pub fn message(payload: &[u8]) -> Outcome<Message<'_>> {
    let mut found = Message::default();
    let end = read(payload, &mut found);
    Outcome::of(end, found)
}

fn read<'a>(payload: &'a [u8], found: &mut Message<'a>) -> Result<(), Stop> {
    let mut scanner = Scanner::at_message(payload)?;
    read_start(&mut scanner, &mut found.start)?;
    let mut lines = HeaderLines::new(scanner, &GRAMMAR);
    while let Some((name, value)) = lines.next()? {
        take(name, value, &mut found.start);
        take_more(name, value, found)?;
    }
    // Lines beyond those that are looked at are passed over.
    let rest = lines.rest();
    let behind = match lines.is_at_end() {
        true => rest,
        false => behind_empty_line(rest).ok_or(Stop::Cut)?,
    };
    found.head_bytes = payload.len() - behind.len();
    found.body = behind;
    Ok(())
}

fn take_more<'a>(name: &[u8], value: HeaderValue<'a>, found: &mut Message<'a>) -> Result<(), Stop> {
    let is = |names: [&[u8]; 2]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    if is([b"cseq", b"cseq"]) {
        found.cseq = found.cseq.or(cseq(value.raw()));
    } else if is([b"content-length", b"l"]) {
        // Two lengths, or none that can be read: it is not known where the message ends.
        let length = number(value.raw()).ok_or(Stop::Malformed)? as usize;
        if found.content_length.is_some_and(|other| other != length) {
            return Err(Stop::Malformed);
        }
        found.content_length = Some(length);
    } else if is([b"content-type", b"c"]) {
        found.content_type.get_or_insert(value);
    } else if is([b"user-agent", b"server"]) {
        found.agent.get_or_insert(value);
    }
    Ok(())
}

/// What follows the first empty line.
fn behind_empty_line(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        rest = rest.get(end + 1..)?;
        match rest {
            [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..] => return Some(behind),
            _ => {}
        }
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn cseq(value: &[u8]) -> Option<(u32, &[u8])> {
    let space = value.iter().position(|&byte| is_space(byte))?;
    let (digits, method) = value.split_at_checked(space)?;
    Some((number(digits)?, HeaderValue::new(method).word()?))
}

impl<'a> Message<'a> {
    /// True if the body is a description of a session (SDP).
    pub fn has_sdp(&self) -> bool {
        let is_sdp = |value: HeaderValue<'_>| {
            let kind = value.raw().get(..b"application/sdp".len());
            kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/sdp"))
        };
        self.content_type.is_some_and(is_sdp)
    }
}

impl<'a> Address<'a> {
    /// The tag: which party of the dialog it is. `None` where there is none.
    pub fn tag(self) -> Option<&'a [u8]> {
        let value = self.value().raw();
        let behind_uri = match outside_quotes(value, b'<') {
            Some(bracket) => {
                let rest = value.get(bracket..)?;
                rest.get(rest.iter().position(|&byte| byte == b'>')? + 1..)?
            }
            None => value,
        };
        let mut rest = behind_uri;
        while let Some(at) = outside_quotes(rest, b';') {
            rest = rest.get(at + 1..)?;
            let end = outside_quotes(rest, b';').unwrap_or(rest.len());
            let parameter = rest.get(..end)?;
            let equals = parameter.iter().position(|&byte| byte == b'=').unwrap_or(end);
            let (name, value) = parameter.split_at_checked(equals)?;
            if HeaderValue::new(name).raw().eq_ignore_ascii_case(b"tag") {
                return HeaderValue::new(value.get(1..)?).word();
            }
        }
        None
    }
}
