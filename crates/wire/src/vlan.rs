//! VLAN tags: IEEE 802.1Q, and the service tags of 802.1ad (QinQ).

use crate::bytes::{be16, head};
use crate::{EtherType, LayerKind, WireError};

/// View of what follows a tag protocol identifier: the tag and the type of what it tags.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<'a> {
    header: &'a [u8; Vlan::BYTES],
    payload: &'a [u8],
}

impl<'a> Vlan<'a> {
    /// Bytes of the tag control information and the EtherType after it.
    pub const BYTES: usize = 4;

    /// Views the tag at the start of `bytes`, after its identifier.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Vlan<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Vlan)?;
        Ok(Vlan { header, payload })
    }

    /// Tag control information: priority, drop eligibility and id.
    pub fn tci(&self) -> u16 {
        be16(self.header[0], self.header[1])
    }

    /// VLAN id, 0 to 4095; 0 is a priority tag.
    pub fn id(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Drop eligible indicator.
    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// The type field after the tag: an EtherType, or a length up to 1500.
    pub fn type_or_length(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// The type of what is tagged.
    pub fn ether_type(&self) -> EtherType {
        EtherType(self.type_or_length())
    }

    /// What is tagged.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
