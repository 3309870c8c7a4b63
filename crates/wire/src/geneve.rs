//! Geneve (RFC 8926).

use crate::bytes::{be16, be32, head, part};
use crate::{EtherType, LayerKind, WireError};

/// View of a Geneve header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Geneve<'a> {
    header: &'a [u8; Geneve::BYTES_MIN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Geneve<'a> {
    /// Bytes of a header without options.
    pub const BYTES_MIN: usize = 8;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it, or the version is not 0.
    pub fn new(bytes: &'a [u8]) -> Result<Geneve<'a>, WireError> {
        let (header, rest) = head::<{ Geneve::BYTES_MIN }>(bytes, LayerKind::Geneve)?;
        let version = header[0] >> 6;
        if version != 0 {
            let value = u32::from(version);
            return Err(WireError::Malformed {
                header: LayerKind::Geneve,
                field: "version",
                value,
            });
        }
        let option_bytes = 4 * usize::from(header[0] & 0x3f);
        let (options, payload) = part(rest, option_bytes, Geneve::BYTES_MIN, LayerKind::Geneve)?;
        Ok(Geneve { header, options, payload })
    }

    /// True for a control message.
    pub fn is_control(&self) -> bool {
        self.header[1] & 0x80 != 0
    }

    /// True if an option must be understood.
    pub fn has_critical_options(&self) -> bool {
        self.header[1] & 0x40 != 0
    }

    /// Type of the payload.
    pub fn protocol(&self) -> EtherType {
        EtherType(be16(self.header[2], self.header[3]))
    }

    /// Network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        be32(0, self.header[4], self.header[5], self.header[6])
    }

    /// Options as bytes.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        Geneve::BYTES_MIN + self.options.len()
    }

    /// What follows the options.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
