//! VXLAN (RFC 7348).

use crate::bytes::{be16, be32, head};
use crate::{LayerKind, WireError};

/// View of a VXLAN header.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan<'a> {
    header: &'a [u8; Vxlan::BYTES],
    payload: &'a [u8],
}

impl<'a> Vxlan<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes, or the flag that says that the network identifier is valid is not set.
    pub fn new(bytes: &'a [u8]) -> Result<Vxlan<'a>, WireError> {
        let (header, payload) = head::<{ Vxlan::BYTES }>(bytes, LayerKind::Vxlan)?;
        if header[0] & 0x08 == 0 {
            let value = u32::from(header[0]);
            return Err(WireError::Malformed { header: LayerKind::Vxlan, field: "flags", value });
        }
        Ok(Vxlan { header, payload })
    }

    /// Flags and the reserved bits after them; 0x0800 is set.
    pub fn flags(&self) -> u16 {
        be16(self.header[0], self.header[1])
    }

    /// Group policy id, where the extension for it is in use.
    pub fn group_policy(&self) -> Option<u16> {
        (self.header[0] & 0x80 != 0).then_some(be16(self.header[2], self.header[3]))
    }

    /// Network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        be32(0, self.header[4], self.header[5], self.header[6])
    }

    /// The Ethernet frame inside.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
