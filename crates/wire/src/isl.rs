//! Cisco Inter-Switch Link: a whole Ethernet frame behind a header of 26 bytes (Cisco document
//! 17056, "Inter-Switch Link and IEEE 802.1Q Frame Format").

use crate::bytes::{be16, head};
use crate::{LayerKind, MacAddr, WireError};

/// View of an ISL header.
#[derive(Clone, Copy, Debug)]
pub struct Isl<'a> {
    header: &'a [u8; Isl::BYTES],
    payload: &'a [u8],
}

impl<'a> Isl<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 26;

    /// True if the destination address is one of those that Cisco reserved for ISL.
    pub fn is_isl(bytes: &[u8]) -> bool {
        matches!(bytes, [0x01 | 0x03 | 0x0c, 0x00, 0x0c, 0x00, 0x00, ..])
    }

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 26 bytes, or an address that is not ISL's.
    pub fn new(bytes: &'a [u8]) -> Result<Isl<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Isl)?;
        if !Isl::is_isl(bytes) {
            let value = u32::from(header[0]);
            return Err(WireError::Malformed { header: LayerKind::Isl, field: "address", value });
        }
        Ok(Isl { header, payload })
    }

    /// Kind of the encapsulated frame: 0 Ethernet, 1 Token Ring, 2 FDDI, 3 ATM.
    pub fn frame_type(&self) -> u8 {
        self.header[5] >> 4
    }

    /// User-defined bits: the priority for Ethernet.
    pub fn user(&self) -> u8 {
        self.header[5] & 0x0f
    }

    /// Source address.
    pub fn source(&self) -> MacAddr {
        let h = self.header;
        MacAddr([h[6], h[7], h[8], h[9], h[10], h[11]])
    }

    /// Length field: the frame without address, type, user, source, length and check sequence.
    pub fn length(&self) -> u16 {
        be16(self.header[12], self.header[13])
    }

    /// VLAN id, 15 bits of which 10 are used.
    pub fn vlan_id(&self) -> u16 {
        be16(self.header[20], self.header[21]) >> 1
    }

    /// True for spanning tree, CDP and VTP frames.
    pub fn is_bpdu(&self) -> bool {
        self.header[21] & 1 != 0
    }

    /// Port index of the source.
    pub fn index(&self) -> u16 {
        be16(self.header[22], self.header[23])
    }

    /// The encapsulated frame and the outer check sequence.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
