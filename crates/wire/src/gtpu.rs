//! GTP-U version 1 (3GPP TS 29.281), with its extension headers.

use crate::bytes::{at_most, be16, be32, head, part};
use crate::{LayerKind, WireError};

/// Extension headers that are followed; PDU session, PDCP number and a few more exist.
const EXTENSIONS_MAX: usize = 8;

/// View of a GTP-U header with its extension headers.
#[derive(Clone, Copy, Debug)]
pub struct GtpU<'a> {
    header: &'a [u8; GtpU::BYTES_MIN],
    optional: &'a [u8],
    rest: &'a [u8],
}

impl<'a> GtpU<'a> {
    /// Bytes of a header without optional fields.
    pub const BYTES_MIN: usize = 8;
    /// Message type of user data.
    pub const USER_DATA: u8 = 255;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it; it is not version 1 of GTP; an extension header of length 0, or
    /// more than eight of them.
    pub fn new(bytes: &'a [u8]) -> Result<GtpU<'a>, WireError> {
        let (header, rest) = head::<{ GtpU::BYTES_MIN }>(bytes, LayerKind::GtpU)?;
        if header[0] >> 4 != 3 {
            return Err(malformed("version and protocol type", header[0] >> 4));
        }
        let optional_bytes = match header[0] & 7 {
            0 => 0,
            flags => extensions(rest, flags & 4 != 0)?,
        };
        let (optional, rest) = part(rest, optional_bytes, GtpU::BYTES_MIN, LayerKind::GtpU)?;
        Ok(GtpU { header, optional, rest })
    }

    /// Message type; 255 carries a user's packet.
    pub fn message_type(&self) -> u8 {
        self.header[1]
    }

    /// Length field: what follows the first 8 bytes.
    pub fn length(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// Tunnel endpoint identifier of the receiver.
    pub fn teid(&self) -> u32 {
        be32(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// Sequence number, where there is one.
    pub fn sequence(&self) -> Option<u16> {
        match self.optional {
            &[a, b, ..] if self.header[0] & 2 != 0 => Some(be16(a, b)),
            _ => None,
        }
    }

    /// Extension headers: type and content of each.
    pub fn extensions(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut kind = self.optional.get(3).copied().unwrap_or(0);
        let mut rest = self.optional.get(4..).unwrap_or(&[]);
        if self.header[0] & 4 == 0 {
            kind = 0;
        }
        std::iter::from_fn(move || {
            let (&units, _) = rest.split_first()?;
            let (extension, after) = rest.split_at_checked(4 * usize::from(units))?;
            let (&next, content) = extension.split_last()?;
            let item = (kind, content.get(1..).unwrap_or(&[]));
            (kind, rest) = (next, after);
            Some(item)
        })
    }

    /// Bytes of the header, extension headers included.
    pub fn header_bytes(&self) -> usize {
        GtpU::BYTES_MIN + self.optional.len()
    }

    /// Bytes of the payload by the header; 0 where the length is shorter than the header.
    pub fn payload_length(&self) -> usize {
        usize::from(self.length()).saturating_sub(self.optional.len())
    }

    /// The payload as far as it was captured.
    pub fn payload(&self) -> &'a [u8] {
        at_most(self.rest, self.payload_length())
    }
}

/// Bytes of the optional fields and the extension headers: 4, and a multiple of 4 for each.
fn extensions(rest: &[u8], follow: bool) -> Result<usize, WireError> {
    let (fixed, _) = part(rest, 4, GtpU::BYTES_MIN, LayerKind::GtpU)?;
    let mut next = if follow { fixed.last().copied().unwrap_or(0) } else { 0 };
    let mut at = 4;
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Ok(at);
        }
        let here = rest.get(at..).unwrap_or(&[]);
        let (units, _) = part(here, 1, GtpU::BYTES_MIN + at, LayerKind::GtpU)?;
        let bytes = 4 * usize::from(units.first().copied().unwrap_or(0));
        if bytes == 0 {
            return Err(malformed("extension length", 0));
        }
        let (extension, _) = part(here, bytes, GtpU::BYTES_MIN + at, LayerKind::GtpU)?;
        next = extension.last().copied().unwrap_or(0);
        at += bytes;
    }
    if next == 0 { Ok(at) } else { Err(malformed("extension headers", EXTENSIONS_MAX as u8)) }
}

fn malformed(field: &'static str, value: u8) -> WireError {
    WireError::Malformed { header: LayerKind::GtpU, field, value: u32::from(value) }
}
