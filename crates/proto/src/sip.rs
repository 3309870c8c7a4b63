//! SIP (RFC 3261): start line, and the headers that name a call. Over UDP and TCP alike.

mod message;

pub use message::{Message, message};

use crate::header_lines::{Grammar, HeaderLines, HeaderValue, is_space};
use crate::outcome::{Outcome, Stop};
use crate::scanner::{Scanner, is_control};

/// In a quoted string of a value, every byte may stand behind a backslash.
const GRAMMAR: Grammar = Grammar { is_token, space_before_colon: true, is_wrong: |_| false };
const VERSION: &[u8] = b"SIP/2.0";

/// What the start of a SIP message says. A request has a method and a URI, a response a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sip<'a> {
    /// Method, as `INVITE`. Its case matters.
    pub method: Option<&'a [u8]>,
    /// Request-URI: where the request goes.
    pub uri: Option<&'a [u8]>,
    /// Status code.
    pub status: Option<u16>,
    /// From: the sender of the request.
    pub from: Option<Address<'a>>,
    /// To: the receiver of the request.
    pub to: Option<Address<'a>>,
    /// The first Via: the last hop.
    pub via: Option<HeaderValue<'a>>,
    /// Call-ID.
    pub call_id: Option<&'a [u8]>,
}

/// Reads the message at the start of `payload`.
///
/// A request that is cut before its version gives its method if its URI begins as those of
/// telephones do; any other could still become HTTP or RTSP.
#[inline]
pub fn parse(payload: &[u8]) -> Outcome<Sip<'_>> {
    let mut found = Sip::default();
    Outcome::of(read(payload, &mut found), found)
}

/// True if the first bytes are a response, or a method and the URI of a telephone.
#[inline]
pub fn looks_like(payload: &[u8]) -> bool {
    let Ok(mut scanner) = Scanner::at_message(payload) else { return false };
    scanner.begins(b"SIP/2.0 ") == Ok(true)
        || (scanner.method(is_token).is_ok() && is_telephone(&scanner))
}

fn read<'a>(payload: &'a [u8], found: &mut Sip<'a>) -> Result<(), Stop> {
    let mut scanner = Scanner::at_message(payload)?;
    read_start(&mut scanner, found)?;
    let mut lines = HeaderLines::new(scanner, &GRAMMAR);
    while !is_complete(found) {
        let Some((name, value)) = lines.next()? else { break };
        take(name, value, found);
    }
    Ok(())
}

/// The first line.
fn read_start<'a>(scanner: &mut Scanner<'a>, found: &mut Sip<'a>) -> Result<(), Stop> {
    if !scanner.begins(b"SIP/")? {
        return start_line(scanner, found);
    }
    scanner.literal_any_case(VERSION)?;
    scanner.literal(b" ")?;
    found.status = Some(scanner.status()?);
    scanner.line(is_control)
}

/// The first line of a request.
fn start_line<'a>(scanner: &mut Scanner<'a>, found: &mut Sip<'a>) -> Result<(), Stop> {
    let method = scanner.method(is_token)?;
    let is_telephone = is_telephone(scanner);
    if is_telephone {
        found.method = Some(method);
    }
    let uri = scanner.target()?;
    if is_telephone {
        found.uri = Some(uri);
    }
    scanner.literal_any_case(VERSION)?;
    (found.method, found.uri) = (Some(method), Some(uri));
    scanner.line_end()
}

fn is_complete(found: &Sip<'_>) -> bool {
    let Sip { from, to, via, call_id, .. } = found;
    from.is_some() && to.is_some() && via.is_some() && call_id.is_some()
}

/// Keeps the value of a header that is looked for, the first time (RFC 3261 section 7.3.3 has the
/// one-letter names).
fn take<'a>(name: &[u8], value: HeaderValue<'a>, found: &mut Sip<'a>) {
    let is = |names: [&[u8]; 2]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    if value.raw().is_empty() {
        return;
    }
    if is([b"from", b"f"]) {
        found.from.get_or_insert(Address(value));
    } else if is([b"to", b"t"]) {
        found.to.get_or_insert(Address(value));
    } else if is([b"via", b"v"]) {
        found.via.get_or_insert(first_of_list(value));
    } else if is([b"call-id", b"i"]) && found.call_id.is_none() {
        found.call_id = value.word();
    }
}

impl<'a> Sip<'a> {
    /// The host in the first Via, without its port; an IPv6 address is in brackets (RFC 3261
    /// section 20.42: protocol, version and transport with slashes between, space, host). `None`
    /// where there is none.
    pub fn via_host(&self) -> Option<&'a [u8]> {
        let mut parts = self.via?.raw().splitn(3, |&byte| byte == b'/');
        let transport = HeaderValue::new(parts.nth(2)?).raw();
        let space = transport.iter().position(|&byte| is_space(byte))?;
        let sent_by = HeaderValue::new(transport.get(space..)?).raw();
        let is_end = |byte: &u8| matches!(byte, b':' | b';') || is_space(*byte);
        let bytes = match sent_by {
            [b'[', ..] => sent_by.iter().position(|&byte| byte == b']')? + 1,
            _ => sent_by.iter().position(is_end).unwrap_or(sent_by.len()),
        };
        sent_by.get(..bytes).filter(|host| !host.is_empty())
    }
}

/// A party of a call: a URI, perhaps with a name to show before it and parameters behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a>(HeaderValue<'a>);

impl<'a> Address<'a> {
    /// The whole header.
    pub fn value(self) -> HeaderValue<'a> {
        self.0
    }

    /// The URI: what is between angle brackets, or else all before the first parameter (RFC 3261
    /// section 20.10). `None` where there is none.
    pub fn uri(self) -> Option<&'a [u8]> {
        let value = self.0.raw();
        let uri = match outside_quotes(value, b'<') {
            Some(bracket) => {
                let rest = value.get(bracket + 1..)?;
                rest.get(..rest.iter().position(|&byte| byte == b'>')?)?
            }
            None => value.get(..outside_quotes(value, b';').unwrap_or(value.len()))?,
        };
        let is_wrong = |byte: &u8| matches!(byte, b'<' | b'>' | b'"');
        HeaderValue::new(uri).word().filter(|uri| !uri.iter().any(is_wrong))
    }
}

/// The first element of a value that is a list.
fn first_of_list(value: HeaderValue<'_>) -> HeaderValue<'_> {
    let bytes = value.raw();
    let end = outside_quotes(bytes, b',').unwrap_or(bytes.len());
    HeaderValue::new(bytes.get(..end).unwrap_or_default())
}

/// Where `wanted` stands first outside quoted strings, in which a backslash escapes a quote.
fn outside_quotes(value: &[u8], wanted: u8) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    value.iter().position(|&byte| {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'"' {
            is_quoted = !is_quoted;
        } else if is_quoted {
            is_escaped = byte == b'\\';
        } else {
            return byte == wanted;
        }
        false
    })
}

/// True if a URI of SIP, of a telephone number or of a service (RFC 5031) begins here.
#[inline]
fn is_telephone(uri: &Scanner<'_>) -> bool {
    let schemes: [&[u8]; 4] = [b"sip:", b"sips:", b"tel:", b"urn:"];
    schemes.iter().any(|scheme| uri.begins(scheme) == Ok(true))
}

/// Bytes of a method or a header's name (RFC 3261 section 25.1).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}
