//! PPP over Ethernet (RFC 2516).

use crate::bytes::{at_most, be16, head};
use crate::{LayerKind, WireError};

/// View of a PPPoE header, of discovery or session.
#[derive(Clone, Copy, Debug)]
pub struct Pppoe<'a> {
    header: &'a [u8; Pppoe::BYTES],
    rest: &'a [u8],
}

impl<'a> Pppoe<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 6;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 6 bytes, or a version and type that are not 1 and 1.
    pub fn new(bytes: &'a [u8]) -> Result<Pppoe<'a>, WireError> {
        let (header, rest) = head(bytes, LayerKind::Pppoe)?;
        if header[0] != 0x11 {
            let value = u32::from(header[0]);
            let field = "version and type";
            return Err(WireError::Malformed { header: LayerKind::Pppoe, field, value });
        }
        Ok(Pppoe { header, rest })
    }

    /// Code: 0 for session data, else a stage of discovery.
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Session id.
    pub fn session(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// Bytes of the payload, by the header.
    pub fn length(&self) -> u16 {
        be16(self.header[4], self.header[5])
    }

    /// The payload as far as it was captured, without Ethernet's padding.
    pub fn payload(&self) -> &'a [u8] {
        at_most(self.rest, usize::from(self.length()))
    }
}
