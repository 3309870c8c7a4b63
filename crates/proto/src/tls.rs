//! TLS (RFC 8446): the server's name in a ClientHello.

use crate::name::{Name, WIRE_BYTES_MAX};
use crate::outcome::{Outcome, Stop};

mod handshake;
mod hello;

pub use hello::{ClientHelloBody, Extensions, Numbers, ServerHello, vector};

use handshake::{CHANGE_CIPHER_SPEC, Handshake, RECORD_BYTES_MAX};

/// Extensions that are looked at. Some sixty kinds are assigned, browsers send about twenty, and
/// none may come twice.
const EXTENSIONS_MAX: usize = 64;
/// Extension type of the server's name (RFC 6066 section 3).
const SERVER_NAME: usize = 0;
/// The only kind of name that was ever defined.
const HOST_NAME: usize = 0;

/// What a ClientHello says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientHello<'n> {
    /// The server's name (SNI) in lower case, as [`Name`] writes it. One that is longer than names
    /// of hosts can be is left out.
    pub sni: Option<&'n [u8]>,
}

/// Reads the ClientHello at the start of a TCP payload; `name` holds the name that is found.
///
/// It may lie in several records, cut anywhere, as some clients do to hide the name. A second
/// hello, which the server asked for, has a record without meaning in front.
#[inline]
pub fn parse<'n>(payload: &[u8], name: &'n mut Name) -> Outcome<ClientHello<'n>> {
    match read(payload, name) {
        Ok(has_name) => Outcome::Fields(ClientHello { sni: has_name.then_some(name.as_bytes()) }),
        Err(stop) => Outcome::of(Err(stop), ClientHello::default()),
    }
}

/// True if the first bytes are a record with a ClientHello.
#[inline]
pub fn looks_like(payload: &[u8]) -> bool {
    match payload.strip_prefix(CHANGE_CIPHER_SPEC).unwrap_or(payload) {
        [22, 3, 0..=4, high, low, 1, ..] => {
            (1..=RECORD_BYTES_MAX).contains(&usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => false,
    }
}

/// True if a name was found and written to `name`.
fn read(payload: &[u8], name: &mut Name) -> Result<bool, Stop> {
    let mut hello = Handshake::client_hello(payload)?;
    hello.skip_version_and_random()?;
    hello.skip_vector(1, 0..=32)?; // legacy_session_id
    hello.skip_vector(2, 2..=0xfffe)?; // cipher_suites
    hello.skip_vector(1, 1..=0xff)?; // legacy_compression_methods
    if hello.left() == 0 {
        return Ok(false);
    }
    if hello.number(2)? != hello.left() {
        return Err(Stop::Malformed);
    }
    for _ in 0..EXTENSIONS_MAX {
        if hello.left() == 0 {
            break;
        }
        let kind = hello.number(2)?;
        let bytes = hello.number(2)?;
        if kind == SERVER_NAME {
            return server_name(&mut hello, bytes, name);
        }
        hello.skip(bytes)?;
    }
    Ok(false)
}

/// Writes the first name of a list, in an extension of `bytes` bytes.
fn server_name(hello: &mut Handshake<'_>, bytes: usize, name: &mut Name) -> Result<bool, Stop> {
    if bytes > hello.left() || hello.number(2)? + 2 != bytes {
        return Err(Stop::Malformed);
    }
    let kind = hello.number(1)?;
    let name_bytes = hello.number(2)?;
    if name_bytes == 0 || name_bytes + 5 > bytes {
        return Err(Stop::Malformed);
    }
    if kind != HOST_NAME || name_bytes > WIRE_BYTES_MAX {
        return Ok(false);
    }
    name.clear();
    for _ in 0..name_bytes {
        name.push(hello.byte()?);
    }
    Ok(true)
}
