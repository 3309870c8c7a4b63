//! Whole hellos, put together of their records: the body of one handshake message (RFC 8446
//! section 4.1, RFC 5246 section 7.4.1).

use crate::outcome::Stop;

/// A ClientHello.
#[derive(Clone, Copy, Debug)]
pub struct ClientHelloBody<'a> {
    /// Version, which TLS 1.3 no longer means.
    pub legacy_version: u16,
    /// Session that it would go on with; a number without meaning in TLS 1.3.
    pub session_id: &'a [u8],
    /// Cipher suites, two bytes each.
    pub cipher_suites: Numbers<'a>,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// A ServerHello, or a HelloRetryRequest.
#[derive(Clone, Copy, Debug)]
pub struct ServerHello<'a> {
    /// Version, which TLS 1.3 no longer means.
    pub legacy_version: u16,
    /// It asks for another ClientHello.
    pub is_retry: bool,
    /// Session.
    pub session_id: &'a [u8],
    /// Cipher suite.
    pub cipher_suite: u16,
    /// Extensions.
    pub extensions: Extensions<'a>,
}

/// The random bytes by which a ServerHello is a HelloRetryRequest (RFC 8446 section 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

impl<'a> ClientHelloBody<'a> {
    /// Reads the body of a ClientHello.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(body: &'a [u8]) -> Result<ClientHelloBody<'a>, Stop> {
        let mut rest = body;
        let legacy_version = number(&mut rest)?;
        take(&mut rest, RETRY_RANDOM.len())?;
        let session_id = vector(&mut rest, 1)?;
        let cipher_suites = Numbers(vector(&mut rest, 2)?);
        vector(&mut rest, 1)?; // legacy_compression_methods
        let extensions = Extensions(if rest.is_empty() { rest } else { vector(&mut rest, 2)? });
        Ok(ClientHelloBody { legacy_version, session_id, cipher_suites, extensions })
    }
}

impl<'a> ServerHello<'a> {
    /// Reads the body of a ServerHello.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(body: &'a [u8]) -> Result<ServerHello<'a>, Stop> {
        let mut rest = body;
        let legacy_version = number(&mut rest)?;
        let is_retry = take(&mut rest, RETRY_RANDOM.len())? == RETRY_RANDOM;
        let session_id = vector(&mut rest, 1)?;
        let cipher_suite = number(&mut rest)?;
        take(&mut rest, 1)?; // legacy_compression_method
        let extensions = Extensions(if rest.is_empty() { rest } else { vector(&mut rest, 2)? });
        Ok(ServerHello { legacy_version, is_retry, session_id, cipher_suite, extensions })
    }
}

/// Numbers of two bytes each.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// Those of a vector whose length stands before it, in `width` bytes; none if it is malformed.
    pub fn of_vector(bytes: &'a [u8], width: usize) -> Numbers<'a> {
        Numbers(vector(&mut { bytes }, width).unwrap_or_default())
    }
}

impl Iterator for Numbers<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        number(&mut self.0).ok()
    }
}

/// Extensions with their types, in order; ends before one that is malformed.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a>(&'a [u8]);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let kind = number(&mut self.0).ok()?;
        Some((kind, vector(&mut self.0, 2).ok()?))
    }
}

/// Takes a vector whose length is a number of `width` bytes.
///
/// # Errors
/// It is longer than what is there.
pub fn vector<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], Stop> {
    let length = take(rest, width)?;
    take(rest, length.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

fn number(rest: &mut &[u8]) -> Result<u16, Stop> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Stop::Malformed)?;
    *rest = after;
    Ok(u16::from_be_bytes(*bytes))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Stop> {
    let (taken, after) = rest.split_at_checked(bytes).ok_or(Stop::Malformed)?;
    *rest = after;
    Ok(taken)
}
