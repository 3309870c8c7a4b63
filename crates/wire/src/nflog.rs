//! What the kernel's packet filter logs (LINKTYPE_NFLOG): attributes, of which the last is the
//! packet.

use crate::bytes::{be16, head, part};
use crate::{EtherType, LayerKind, WireError};

/// View of the attributes before a packet.
#[derive(Clone, Copy, Debug)]
pub struct Nflog<'a> {
    header: &'a [u8; Nflog::BYTES_MIN],
    header_bytes: usize,
    length: usize,
    payload: &'a [u8],
}

impl<'a> Nflog<'a> {
    /// Bytes of the fixed part.
    pub const BYTES_MIN: usize = 4;
    /// Bytes of the length and type of an attribute.
    const ATTRIBUTE_BYTES: usize = 4;
    /// Type of the attribute that holds the packet.
    const PAYLOAD: u16 = 9;

    /// Views the attributes at the start of `bytes`, up to the packet.
    ///
    /// # Errors
    /// The bytes end before the packet; an attribute that is shorter than its own header; version
    /// other than 0; more attributes than 64 KiB.
    pub fn new(bytes: &'a [u8]) -> Result<Nflog<'a>, WireError> {
        let (header, mut rest) = head::<{ Nflog::BYTES_MIN }>(bytes, LayerKind::Nflog)?;
        if header[1] != 0 {
            return Err(malformed("version", u32::from(header[1])));
        }
        let mut at = Nflog::BYTES_MIN;
        loop {
            let (&[a, b, c, d], after) =
                head::<{ Nflog::ATTRIBUTE_BYTES }>(rest, LayerKind::Nflog)?;
            let (length, kind) = numbers([a, b], [c, d]);
            let Some(content) = usize::from(length).checked_sub(Nflog::ATTRIBUTE_BYTES) else {
                return Err(malformed("length of an attribute", u32::from(length)));
            };
            at += Nflog::ATTRIBUTE_BYTES;
            if kind == Nflog::PAYLOAD {
                let (header_bytes, payload) = (at, after);
                return Ok(Nflog { header, header_bytes, length: content, payload });
            }
            let padded = content.next_multiple_of(Nflog::ATTRIBUTE_BYTES);
            (_, rest) = part(after, padded, at, LayerKind::Nflog)?;
            at += padded;
            if at + Nflog::ATTRIBUTE_BYTES > usize::from(u16::MAX) {
                return Err(malformed(
                    "bytes of attributes",
                    u32::try_from(at).unwrap_or(u32::MAX),
                ));
            }
        }
    }

    /// Address family of the packet, as Linux numbers it.
    pub fn family(&self) -> u8 {
        self.header[0]
    }

    /// Number of the group that the packet was logged to.
    pub fn resource(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// The EtherType of the family, if it is IP.
    pub fn ether_type(&self) -> Option<EtherType> {
        match self.family() {
            2 => Some(EtherType::IPV4),
            10 => Some(EtherType::IPV6),
            _ => None,
        }
    }

    /// Bytes before the packet.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Bytes of the packet by its attribute.
    pub fn payload_length(&self) -> usize {
        self.length
    }

    /// The packet and what follows it.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Length and type, in the order of bytes of the host that logged: types are below 256, so that a
/// zero tells where their high byte is.
fn numbers(length: [u8; 2], kind: [u8; 2]) -> (u16, u16) {
    match kind {
        [0, low] if low != 0 => (u16::from_be_bytes(length), u16::from_be_bytes(kind)),
        _ => (u16::from_le_bytes(length), u16::from_le_bytes(kind)),
    }
}

fn malformed(field: &'static str, value: u32) -> WireError {
    WireError::Malformed { header: LayerKind::Nflog, field, value }
}
