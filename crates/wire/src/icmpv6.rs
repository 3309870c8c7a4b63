//! ICMPv6 (RFC 4443), with neighbour discovery (RFC 4861).

use crate::bytes::{be16, be32, head};
use crate::{LayerKind, WireError};
use std::net::Ipv6Addr;

/// View of an ICMPv6 header: 4 bytes, and what follows by type.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6<'a> {
    header: &'a [u8; Icmpv6::BYTES],
    payload: &'a [u8],
}

impl<'a> Icmpv6<'a> {
    /// Bytes of the header that all messages have.
    pub const BYTES: usize = 4;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Echo request.
    pub const ECHO: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Icmpv6<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Icmpv6)?;
        Ok(Icmpv6 { header, payload })
    }

    /// Type.
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Checksum as it stands.
    pub fn checksum(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// The four bytes after the checksum, as a number, if they were captured.
    pub fn rest(&self) -> Option<u32> {
        self.payload.first_chunk().map(|&[a, b, c, d]| be32(a, b, c, d))
    }

    /// Identifier of an echo.
    pub fn id(&self) -> Option<u16> {
        if matches!(self.kind(), 128 | 129) { self.rest().map(|r| (r >> 16) as u16) } else { None }
    }

    /// Sequence number of an echo.
    pub fn sequence(&self) -> Option<u16> {
        if matches!(self.kind(), 128 | 129) { self.rest().map(|r| r as u16) } else { None }
    }

    /// Target of a neighbour solicitation or advertisement.
    pub fn target(&self) -> Option<Ipv6Addr> {
        if !matches!(self.kind(), 135 | 136) {
            return None;
        }
        self.payload.get(4..)?.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes))
    }

    /// What follows the checksum.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
