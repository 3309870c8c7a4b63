//! Ethernet II and IEEE 802.3.

use crate::bytes::{be16, head};
use crate::{EtherType, LayerKind, MacAddr, WireError};

/// View of an Ethernet header: 14 bytes, tags not included.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    header: &'a [u8; Ethernet::BYTES],
    payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 14;
    /// Largest value of the type field that is a length (IEEE 802.3, 3.2.6).
    pub const LENGTH_MAX: u16 = 1500;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 14 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Ethernet<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Ethernet)?;
        Ok(Ethernet { header, payload })
    }

    /// Destination address.
    pub fn destination(&self) -> MacAddr {
        let h = self.header;
        MacAddr([h[0], h[1], h[2], h[3], h[4], h[5]])
    }

    /// Source address.
    pub fn source(&self) -> MacAddr {
        let h = self.header;
        MacAddr([h[6], h[7], h[8], h[9], h[10], h[11]])
    }

    /// The type field as it stands: an EtherType, or a length up to 1500.
    pub fn type_or_length(&self) -> u16 {
        be16(self.header[12], self.header[13])
    }

    /// The type, or `None` for an IEEE 802.3 frame.
    pub fn ether_type(&self) -> Option<EtherType> {
        let value = self.type_or_length();
        (value > Ethernet::LENGTH_MAX).then_some(EtherType(value))
    }

    /// What follows the header, padding included.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
