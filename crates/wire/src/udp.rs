//! UDP (RFC 768).

use crate::bytes::{at_most, be16, head};
use crate::{LayerKind, Port, WireError};

/// View of a UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    header: &'a [u8; Udp::BYTES],
    rest: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes, or a length from 1 to 7.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Udp<'a>, WireError> {
        let (header, rest) = head::<{ Udp::BYTES }>(bytes, LayerKind::Udp)?;
        let udp = Udp { header, rest };
        if matches!(udp.length(), 1..8) {
            let value = u32::from(udp.length());
            return Err(WireError::Malformed { header: LayerKind::Udp, field: "length", value });
        }
        Ok(udp)
    }

    /// Source port.
    pub fn source(&self) -> Port {
        Port(be16(self.header[0], self.header[1]))
    }

    /// Destination port.
    pub fn destination(&self) -> Port {
        Port(be16(self.header[2], self.header[3]))
    }

    /// Length field: header and payload.
    pub fn length(&self) -> u16 {
        be16(self.header[4], self.header[5])
    }

    /// Checksum as it stands; 0 means none.
    pub fn checksum(&self) -> u16 {
        be16(self.header[6], self.header[7])
    }

    /// Bytes of the payload by the header; `None` where the length is 0 (RFC 2675 jumbograms).
    pub fn payload_length(&self) -> Option<usize> {
        usize::from(self.length()).checked_sub(Udp::BYTES)
    }

    /// The payload as far as it was captured; where the length is 0, all that follows.
    pub fn payload(&self) -> &'a [u8] {
        self.payload_length().map_or(self.rest, |length| at_most(self.rest, length))
    }
}
