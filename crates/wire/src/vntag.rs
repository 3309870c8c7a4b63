//! VN-Tag (EtherType 0x8926), the tag of Cisco's virtual interfaces (IEEE 802.1BR's predecessor).

use crate::bytes::{be16, be32, head};
use crate::{EtherType, LayerKind, WireError};

/// View of a VN-Tag and the EtherType after it.
#[derive(Clone, Copy, Debug)]
pub struct VnTag<'a> {
    header: &'a [u8; VnTag::BYTES],
    payload: &'a [u8],
}

impl<'a> VnTag<'a> {
    /// Bytes of the tag and the EtherType after it.
    pub const BYTES: usize = 6;

    /// Views the tag at the start of `bytes`, after its EtherType.
    ///
    /// # Errors
    /// Fewer than 6 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<VnTag<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::VnTag)?;
        Ok(VnTag { header, payload })
    }

    fn tag(&self) -> u32 {
        be32(self.header[0], self.header[1], self.header[2], self.header[3])
    }

    /// True if the frame goes from the bridge to the virtual interface.
    pub fn to_interface(&self) -> bool {
        self.tag() >> 31 != 0
    }

    /// True if the destination is a list of interfaces.
    pub fn is_pointer(&self) -> bool {
        self.tag() >> 30 & 1 != 0
    }

    /// Destination virtual interface, 14 bits.
    pub fn destination(&self) -> u16 {
        (self.tag() >> 16 & 0x3fff) as u16
    }

    /// True if the frame came back to the bridge that it left.
    pub fn is_looped(&self) -> bool {
        self.tag() >> 15 & 1 != 0
    }

    /// Version, 2 bits.
    pub fn version(&self) -> u8 {
        (self.tag() >> 12 & 3) as u8
    }

    /// Source virtual interface, 12 bits.
    pub fn source(&self) -> u16 {
        (self.tag() & 0x0fff) as u16
    }

    /// Type of what is tagged.
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header[4], self.header[5]))
    }

    /// What is tagged.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
