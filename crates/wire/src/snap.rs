//! SNAP (IEEE 802, section 9.4; RFC 1042).

use crate::bytes::{be16, be32, head};
use crate::{EtherType, LayerKind, WireError};

/// View of a SNAP header, after its LLC header.
#[derive(Clone, Copy, Debug)]
pub struct Snap<'a> {
    header: &'a [u8; Snap::BYTES],
    payload: &'a [u8],
}

impl<'a> Snap<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 5;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 5 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Snap<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Snap)?;
        Ok(Snap { header, payload })
    }

    /// Organisation code, 24 bits.
    pub fn organisation(&self) -> u32 {
        be32(0, self.header[0], self.header[1], self.header[2])
    }

    /// Protocol id within the organisation.
    pub fn protocol(&self) -> u16 {
        be16(self.header[3], self.header[4])
    }

    /// The EtherType, for the organisation codes 0 (RFC 1042) and 0x0000f8 (802.1H).
    pub fn ether_type(&self) -> Option<EtherType> {
        matches!(self.organisation(), 0 | 0xf8).then_some(EtherType(self.protocol()))
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
