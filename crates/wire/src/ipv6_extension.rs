//! Extension headers of IPv6: hop-by-hop, destination options and routing (RFC 8200), and the
//! authentication header (RFC 4302), which also follows IPv4.

use crate::bytes::{be32_at, head, part};
use crate::{IpProtocol, LayerKind, WireError};

/// View of one extension header other than the fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Extension<'a> {
    kind: LayerKind,
    next_header: IpProtocol,
    body: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv6Extension<'a> {
    /// Views the header of `kind` (`HopByHop`, `Routing`, `DestinationOptions` or `Auth`) at the
    /// start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it.
    pub fn new(bytes: &'a [u8], kind: LayerKind) -> Result<Ipv6Extension<'a>, WireError> {
        let (&[next_header, length], rest) = head::<2>(bytes, kind)?;
        // RFC 8200 counts units of 8 bytes without the first; RFC 4302 units of 4 without two.
        let header_bytes = match kind {
            LayerKind::Auth => 4 * (usize::from(length) + 2),
            _ => 8 * (usize::from(length) + 1),
        };
        let (body, payload) = part(rest, header_bytes - 2, 2, kind)?;
        Ok(Ipv6Extension { kind, next_header: IpProtocol(next_header), body, payload })
    }

    /// Which header it is.
    pub fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Kind of the header that follows.
    pub fn next_header(&self) -> IpProtocol {
        self.next_header
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        2 + self.body.len()
    }

    /// What follows the length: the options, the routing data, or the authentication fields.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Routing type and segments left, for a routing header.
    pub fn routing(&self) -> Option<(u8, u8)> {
        match (self.kind, self.body) {
            (LayerKind::Routing, &[kind, left, ..]) => Some((kind, left)),
            _ => None,
        }
    }

    /// Security parameters index and sequence number, for an authentication header.
    pub fn auth(&self) -> Option<(u32, u32)> {
        match self.kind {
            LayerKind::Auth => Some((be32_at(self.body, 2)?, be32_at(self.body, 6)?)),
            _ => None,
        }
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
