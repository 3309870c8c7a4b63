//! GRE: version 0 (RFC 2784, RFC 2890, the routing of RFC 1701; NVGRE is RFC 7637) and version 1,
//! which carries PPTP (RFC 2637).

use crate::bytes::{be16, be16_at, be32_at, head, part};
use crate::{EtherType, LayerKind, WireError};

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACKNOWLEDGMENT: u16 = 0x0080;

/// Source route entries that are followed. RFC 2784 withdrew them; some is all that is ever seen.
const ROUTE_ENTRIES_MAX: usize = 16;

/// View of a GRE header.
#[derive(Clone, Copy, Debug)]
pub struct Gre<'a> {
    flags: u16,
    protocol: EtherType,
    fields: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Gre<'a> {
    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it; the version is not 0 or 1; more than 16 source routes.
    pub fn new(bytes: &'a [u8]) -> Result<Gre<'a>, WireError> {
        let (&[a, b, c, d], rest) = head::<4>(bytes, LayerKind::Gre)?;
        let flags = be16(a, b);
        let count = |mask: u16| usize::from(flags & mask != 0) * 4;
        let mut field_bytes = match flags & 7 {
            0 => count(CHECKSUM | ROUTING) + count(KEY) + count(SEQUENCE),
            1 => 4 + count(SEQUENCE) + count(ACKNOWLEDGMENT),
            version => return Err(malformed("version", version)),
        };
        if flags & 7 == 0 && flags & ROUTING != 0 {
            field_bytes = routes(rest, field_bytes)?;
        }
        let (fields, payload) = part(rest, field_bytes, 4, LayerKind::Gre)?;
        Ok(Gre { flags, protocol: EtherType(be16(c, d)), fields, payload })
    }

    /// Version: 0, or 1 for PPTP.
    pub fn version(&self) -> u8 {
        (self.flags & 7) as u8
    }

    /// Flags and version as they stand.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Type of the payload.
    pub fn protocol(&self) -> EtherType {
        self.protocol
    }

    /// Checksum, where there is one.
    pub fn checksum(&self) -> Option<u16> {
        if self.version() == 0 && self.flags & CHECKSUM != 0 {
            be16_at(self.fields, 0)
        } else {
            None
        }
    }

    /// Key, where there is one. In version 1 its halves are the payload length and the call id.
    pub fn key(&self) -> Option<u32> {
        if self.version() == 1 {
            return be32_at(self.fields, 0);
        }
        if self.flags & KEY == 0 {
            return None;
        }
        be32_at(self.fields, if self.flags & (CHECKSUM | ROUTING) != 0 { 4 } else { 0 })
    }

    /// Call id, in version 1.
    pub fn call_id(&self) -> Option<u16> {
        if self.version() == 1 { be16_at(self.fields, 2) } else { None }
    }

    /// Virtual subnet id of NVGRE: the upper 24 bits of the key over bridged Ethernet.
    pub fn virtual_subnet(&self) -> Option<u32> {
        let nvgre = self.version() == 0 && self.protocol == EtherType::TEB;
        if nvgre { self.key().map(|key| key >> 8) } else { None }
    }

    /// True if there is a sequence number.
    pub fn has_sequence(&self) -> bool {
        self.flags & SEQUENCE != 0
    }

    /// Sequence number, where there is one.
    pub fn sequence(&self) -> Option<u32> {
        if !self.has_sequence() {
            return None;
        }
        let before = match self.version() {
            1 => 4,
            _ => {
                let count = |mask: u16| usize::from(self.flags & mask != 0) * 4;
                count(CHECKSUM | ROUTING) + count(KEY)
            }
        };
        be32_at(self.fields, before)
    }

    /// Acknowledgment number, in version 1.
    pub fn acknowledgment(&self) -> Option<u32> {
        if self.version() != 1 || self.flags & ACKNOWLEDGMENT == 0 {
            return None;
        }
        be32_at(self.fields, if self.has_sequence() { 8 } else { 4 })
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        4 + self.fields.len()
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Bytes up to the end of the source routes that begin at `at`: each has a family (16 bits), an
/// offset and a length; one of family and length 0 ends the list.
fn routes(rest: &[u8], mut at: usize) -> Result<usize, WireError> {
    for _ in 0..ROUTE_ENTRIES_MAX {
        let (entry, _) = part(rest.get(at..).unwrap_or(&[]), 4, 4 + at, LayerKind::Gre)?;
        let length = usize::from(entry.get(3).copied().unwrap_or(0));
        at += 4 + length;
        if length == 0 {
            return Ok(at);
        }
    }
    Err(malformed("source routes", ROUTE_ENTRIES_MAX as u16))
}

fn malformed(field: &'static str, value: u16) -> WireError {
    WireError::Malformed { header: LayerKind::Gre, field, value: u32::from(value) }
}
