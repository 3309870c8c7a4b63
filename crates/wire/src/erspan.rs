//! ERSPAN types II and III, inside GRE (draft-foschiano-erspan-03). Type I has no header.

use crate::bytes::{be16, be32, be32_at, head, part};
use crate::{LayerKind, WireError};

/// View of an ERSPAN header: 8 bytes for type II, 12 or 20 for type III.
#[derive(Clone, Copy, Debug)]
pub struct Erspan<'a> {
    header: &'a [u8; 8],
    rest: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Erspan<'a> {
    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it, or the version is not 1 (type II) or 2 (type III).
    pub fn new(bytes: &'a [u8]) -> Result<Erspan<'a>, WireError> {
        let (header, after) = head::<8>(bytes, LayerKind::Erspan)?;
        let more = match header[0] >> 4 {
            1 => 0,
            2 => {
                let (fixed, _) = part(after, 4, 8, LayerKind::Erspan)?;
                // The last bit announces eight bytes that depend on the platform.
                if fixed.last().is_some_and(|flags| flags & 1 != 0) { 12 } else { 4 }
            }
            version => {
                let value = u32::from(version);
                let header = LayerKind::Erspan;
                return Err(WireError::Malformed { header, field: "version", value });
            }
        };
        let (rest, payload) = part(after, more, 8, LayerKind::Erspan)?;
        Ok(Erspan { header, rest, payload })
    }

    /// Version: 1 for type II, 2 for type III.
    pub fn version(&self) -> u8 {
        self.header[0] >> 4
    }

    /// VLAN of the mirrored frame.
    pub fn vlan_id(&self) -> u16 {
        be16(self.header[0], self.header[1]) & 0x0fff
    }

    /// Class of service of the mirrored frame.
    pub fn class_of_service(&self) -> u8 {
        self.header[2] >> 5
    }

    /// True if the mirrored frame was cut.
    pub fn is_cut(&self) -> bool {
        self.header[2] & 0x04 != 0
    }

    /// Session id, 10 bits.
    pub fn session(&self) -> u16 {
        be16(self.header[2], self.header[3]) & 0x03ff
    }

    /// Index of port and direction, in type II.
    pub fn index(&self) -> Option<u32> {
        let index = be32(0, self.header[5], self.header[6], self.header[7]) & 0x000f_ffff;
        (self.version() == 1).then_some(index)
    }

    /// Timestamp as it stands, in type III.
    pub fn timestamp(&self) -> Option<u32> {
        let h = self.header;
        (self.version() == 2).then_some(be32(h[4], h[5], h[6], h[7]))
    }

    /// Kind of the mirrored frame in type III: 0 Ethernet, 2 IP. Type II mirrors Ethernet.
    pub fn frame_type(&self) -> u8 {
        be32_at(self.rest, 0).map_or(0, |word| (word >> 10 & 0x1f) as u8)
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        8 + self.rest.len()
    }

    /// The mirrored frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
