//! Cisco HDLC (LINKTYPE_C_HDLC).

use crate::bytes::{be16, head};
use crate::{EtherType, LayerKind, WireError};

/// View of a Cisco HDLC header.
#[derive(Clone, Copy, Debug)]
pub struct Chdlc<'a> {
    header: &'a [u8; Chdlc::BYTES],
    payload: &'a [u8],
}

impl<'a> Chdlc<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 4;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Chdlc<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Chdlc)?;
        Ok(Chdlc { header, payload })
    }

    /// Address: 0x0f unicast, 0x8f multicast.
    pub fn address(&self) -> u8 {
        self.header[0]
    }

    /// Control, 0.
    pub fn control(&self) -> u8 {
        self.header[1]
    }

    /// Type of the payload: EtherTypes, and 0x8035 for SLARP.
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header[2], self.header[3]))
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
