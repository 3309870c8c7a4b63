//! BSD loopback: LINKTYPE_NULL and LINKTYPE_LOOP.

use crate::bytes::head;
use crate::{EtherType, LayerKind, WireError};

/// View of a loopback header: an address family of four bytes.
#[derive(Clone, Copy, Debug)]
pub struct Null<'a> {
    family: u32,
    payload: &'a [u8],
}

impl<'a> Null<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 4;

    /// Views the header at the start of `bytes`; the family of LINKTYPE_NULL is in the byte order
    /// of the capturing host, which the value itself gives away.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Null<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Null)?;
        let little = u32::from_le_bytes(*header);
        // Families are small numbers: a large one was read in the wrong order.
        let family = if little > 0xffff { little.swap_bytes() } else { little };
        Ok(Null { family, payload })
    }

    /// The same for LINKTYPE_LOOP, where the family is in network byte order.
    ///
    /// # Errors
    /// Fewer than 4 bytes.
    pub fn new_loop(bytes: &'a [u8]) -> Result<Null<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Null)?;
        Ok(Null { family: u32::from_be_bytes(*header), payload })
    }

    /// Address family of the capturing system.
    pub fn family(&self) -> u32 {
        self.family
    }

    /// What the family stands for: 2 is IPv4 everywhere; 24, 28 and 30 are IPv6 on NetBSD and
    /// OpenBSD, FreeBSD, and Darwin, and 10 on Linux. Some writers put an EtherType there.
    pub fn ether_type(&self) -> Option<EtherType> {
        match self.family {
            2 => Some(EtherType::IPV4),
            10 | 24 | 28 | 30 => Some(EtherType::IPV6),
            value @ 1501..=0xffff => Some(EtherType(value as u16)),
            _ => None,
        }
    }

    /// What follows the family.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
