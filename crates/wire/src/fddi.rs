//! FDDI (LINKTYPE_FDDI, ANSI X3.139).

use crate::bytes::head;
use crate::{LayerKind, MacAddr, WireError};

/// View of an FDDI header.
#[derive(Clone, Copy, Debug)]
pub struct Fddi<'a> {
    header: &'a [u8; Fddi::BYTES],
    payload: &'a [u8],
}

impl<'a> Fddi<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 13;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 13 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Fddi<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Fddi)?;
        Ok(Fddi { header, payload })
    }

    /// Frame control: class, length of the addresses, kind and priority.
    pub fn control(&self) -> u8 {
        self.header[0]
    }

    /// True if LLC follows: asynchronous frames with data.
    pub fn is_llc(&self) -> bool {
        self.control() & 0xf0 == 0x50
    }

    /// Destination. Some systems write the bits of addresses in reverse order; Linux does not.
    pub fn destination(&self) -> MacAddr {
        let h = self.header;
        MacAddr([h[1], h[2], h[3], h[4], h[5], h[6]])
    }

    /// Source, as the destination.
    pub fn source(&self) -> MacAddr {
        let h = self.header;
        MacAddr([h[7], h[8], h[9], h[10], h[11], h[12]])
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
