//! SCTP (RFC 9260): the common header and its chunks.

use crate::bytes::{at_most, be16, be32, head};
use crate::{LayerKind, Port, WireError};

/// View of an SCTP common header.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    header: &'a [u8; Sctp::BYTES],
    payload: &'a [u8],
}

/// One chunk of an SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SctpChunk<'a> {
    /// Chunk type: 0 DATA, 1 INIT, …
    pub kind: u8,
    /// Flags, by type.
    pub flags: u8,
    /// Length by the header, the four bytes of the chunk header included.
    pub length: u16,
    /// The value as far as it was captured.
    pub value: &'a [u8],
}

impl<'a> Sctp<'a> {
    /// Bytes of the common header.
    pub const BYTES: usize = 12;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 12 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Sctp<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Sctp)?;
        Ok(Sctp { header, payload })
    }

    /// Source port.
    pub fn source(&self) -> Port {
        Port(be16(self.header[0], self.header[1]))
    }

    /// Destination port.
    pub fn destination(&self) -> Port {
        Port(be16(self.header[2], self.header[3]))
    }

    /// Verification tag.
    pub fn verification_tag(&self) -> u32 {
        be32(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// Checksum (CRC-32C) as it stands, least significant byte first.
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes([self.header[8], self.header[9], self.header[10], self.header[11]])
    }

    /// The chunks.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The chunks one by one; ends at one whose length is below 4.
    pub fn chunks(&self) -> SctpChunks<'a> {
        SctpChunks { rest: self.payload }
    }
}

/// Iterator over the chunks of a packet.
#[derive(Clone, Copy, Debug)]
pub struct SctpChunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for SctpChunks<'a> {
    type Item = SctpChunk<'a>;

    fn next(&mut self) -> Option<SctpChunk<'a>> {
        let (&[kind, flags, high, low], after) = self.rest.split_first_chunk::<4>()?;
        let length = be16(high, low);
        let value_bytes = usize::from(length).checked_sub(4)?;
        let padded = value_bytes.next_multiple_of(4);
        self.rest = after.get(padded..).unwrap_or(&[]);
        Some(SctpChunk { kind, flags, length, value: at_most(after, value_bytes) })
    }
}
