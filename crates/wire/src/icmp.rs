//! ICMP (RFC 792).

use crate::bytes::{be16, be32, head};
use crate::{LayerKind, WireError};

/// View of an ICMP header: 8 bytes, the last four by type.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    header: &'a [u8; Icmp::BYTES],
    payload: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 8;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Timestamp request.
    pub const TIMESTAMP: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Icmp<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Icmp)?;
        Ok(Icmp { header, payload })
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

    /// The four bytes after the checksum, as a number.
    pub fn rest(&self) -> u32 {
        be32(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// Identifier, for the types that have one: echo, timestamp, information, address mask.
    pub fn id(&self) -> Option<u16> {
        matches!(self.kind(), 0 | 8 | 13..=18).then_some(be16(self.header[4], self.header[5]))
    }

    /// Sequence number, for the same types.
    pub fn sequence(&self) -> Option<u16> {
        self.id().map(|_| be16(self.header[6], self.header[7]))
    }

    /// True for the messages that quote the packet they are about.
    pub fn is_error(&self) -> bool {
        matches!(self.kind(), 3 | 4 | 5 | 11 | 12)
    }

    /// What follows the header: echo data, or the quoted packet.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
