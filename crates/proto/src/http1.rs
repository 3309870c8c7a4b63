//! HTTP/1.0 and 1.1 (RFC 9112): start line and host of a payload; whole heads, and where bodies
//! end, for those who put streams together. SSDP, which puts the same messages into UDP datagrams,
//! is read alike.

mod body;
mod chunks;
mod head;

pub use body::Body;
pub use chunks::Chunks;
pub use head::{Head, Lines, Start, head_end};

use crate::header_lines::{Grammar, HeaderLines};
use crate::outcome::{Outcome, Stop};
use crate::scanner::{Scanner, is_control};

const GRAMMAR: Grammar = Grammar { is_token, space_before_colon: false, is_wrong: is_control };
const VERSION: &[u8] = b"HTTP/1.";

/// What the start of an HTTP/1 message says. A request has a method and a target, a response a
/// status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http1<'a> {
    /// Method, as `GET`. Its case matters.
    pub method: Option<&'a [u8]>,
    /// Target as it stands: path and query, or a whole URI for a proxy.
    pub target: Option<&'a [u8]>,
    /// Status code.
    pub status: Option<u16>,
    /// The digit after `HTTP/1.`
    pub minor_version: Option<u8>,
    /// Host that is asked, without port; an IPv6 address is in brackets. Its case does not matter.
    /// From the target where that has one, else from the first Host header (RFC 9112 section
    /// 3.2.2). A Host that is no host is left out.
    pub host: Option<&'a [u8]>,
}

/// Reads the message at the start of `payload`.
///
/// A request that is cut within its target gives its method if the target begins as HTTP's do and
/// those of SIP and RTSP do not: with a slash or `http`.
#[inline]
pub fn parse(payload: &[u8]) -> Outcome<Http1<'_>> {
    let mut found = Http1::default();
    Outcome::of(read(payload, &mut found), found)
}

/// True if the first bytes are a request with a method in capitals, or a response.
#[inline]
pub fn looks_like(payload: &[u8]) -> bool {
    matches!(beginning(payload), Beginning::Request | Beginning::Response)
}

/// What bytes are the beginning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A request, as [`looks_like`] has it.
    Request,
    /// A response.
    Response,
    /// Too few to say; the empty string for one.
    Undecided,
    /// Neither.
    Other,
}

/// What the first bytes are the beginning of. More bytes never take back what fewer said.
#[inline]
pub fn beginning(payload: &[u8]) -> Beginning {
    match begins(payload) {
        Ok(beginning) => beginning,
        Err(Stop::Cut) => Beginning::Undecided,
        Err(Stop::Malformed) => Beginning::Other,
    }
}

fn begins(payload: &[u8]) -> Result<Beginning, Stop> {
    let mut scanner = Scanner::at_message(payload)?;
    let is_response = scanner.rest().starts_with(VERSION);
    if is_response {
        return Ok(Beginning::Response);
    }
    if VERSION.starts_with(scanner.rest()) {
        return Err(Stop::Cut);
    }
    let method = scanner.method(|byte| byte.is_ascii_uppercase() || byte == b'-')?;
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'[';
    if method == b"CONNECT" && scanner.rest().first().is_some_and(is_host) {
        return Ok(Beginning::Request);
    }
    for target in [b"/".as_slice(), b"http://", b"https://", b"* HTTP/1."] {
        match scanner.begins(target) {
            Ok(false) => {}
            Ok(true) => return Ok(Beginning::Request),
            Err(stop) => return Err(stop),
        }
    }
    Ok(Beginning::Other)
}

fn read<'a>(payload: &'a [u8], found: &mut Http1<'a>) -> Result<(), Stop> {
    let mut scanner = Scanner::at_message(payload)?;
    if scanner.begins(b"HTTP/")? {
        scanner.literal(VERSION)?;
        let minor_version = scanner.digit()?;
        scanner.literal(b" ")?;
        found.status = Some(scanner.status()?);
        found.minor_version = Some(minor_version);
        return Ok(());
    }
    start_line(&mut scanner, found)?;
    if found.host.is_some() {
        return Ok(());
    }
    let mut lines = HeaderLines::new(scanner, &GRAMMAR);
    while let Some((name, value)) = lines.next()? {
        if name.eq_ignore_ascii_case(b"host") {
            found.host = value.word().and_then(host_of);
            break;
        }
    }
    Ok(())
}

/// The first line of a request.
fn start_line<'a>(scanner: &mut Scanner<'a>, found: &mut Http1<'a>) -> Result<(), Stop> {
    let method = scanner.method(is_token)?;
    let is_plain = is_plain(method, scanner);
    if is_plain {
        found.method = Some(method);
    }
    let target = scanner.target()?;
    if is_plain {
        found.target = Some(target);
    }
    scanner.literal(VERSION)?;
    let host = authority(method, target).and_then(host_of);
    (found.method, found.target, found.host) = (Some(method), Some(target), host);
    let minor_version = scanner.digit()?;
    scanner.line_end()?;
    found.minor_version = Some(minor_version);
    Ok(())
}

/// True if the target behind `method` is one of HTTP, before the version is seen.
#[inline]
fn is_plain(method: &[u8], target: &Scanner<'_>) -> bool {
    let begins = |literal| target.begins(literal) == Ok(true);
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'[';
    begins(b"/")
        || begins(b"http://")
        || begins(b"https://")
        || (method == b"CONNECT" && target.rest().first().is_some_and(is_host))
}

/// The part of a target that names host and port.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Option<&'a [u8]> {
    if method == b"CONNECT" {
        return Some(target);
    }
    let colon = target.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    let rest = target.get(colon..)?.strip_prefix(b"://")?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    // A name and password may stand before the host.
    let user = authority.iter().rposition(|&byte| byte == b'@');
    authority.get(user.map_or(0, |at| at + 1)..)
}

/// The host of `host:port` (RFC 3986 section 3.2.2), if it is one.
fn host_of(authority: &[u8]) -> Option<&[u8]> {
    let is_literal =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:%".contains(byte);
    let is_name = |byte: &u8| is_literal(byte) && *byte != b':';
    let bytes = match authority {
        [b'[', rest @ ..] => rest.iter().position(|byte| !is_literal(byte))? + 2,
        name => name.iter().position(|byte| !is_name(byte)).unwrap_or(name.len()),
    };
    let (host, port) = authority.split_at_checked(bytes)?;
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let is_host = match host {
        [b'[', rest @ ..] => matches!(rest, [_, .., b']']),
        name => !name.is_empty(),
    };
    (is_port && is_host).then_some(host)
}

/// Bytes of a method or a header's name (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
