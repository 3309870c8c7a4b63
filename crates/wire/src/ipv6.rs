//! IPv6 (RFC 8200), the fixed header.

use crate::bytes::{at_most, be16, be32, head};
use crate::{IpProtocol, LayerKind, WireError};
use std::net::Ipv6Addr;

/// View of an IPv6 header, extension headers not included.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    header: &'a [u8; Ipv6::BYTES],
    rest: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 40;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 40 bytes, or a version that is not 6.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Ipv6<'a>, WireError> {
        let (header, rest) = head::<{ Ipv6::BYTES }>(bytes, LayerKind::Ipv6)?;
        let version = header[0] >> 4;
        if version != 6 {
            let value = u32::from(version);
            return Err(WireError::Malformed { header: LayerKind::Ipv6, field: "version", value });
        }
        Ok(Ipv6 { header, rest })
    }

    fn first_word(&self) -> u32 {
        be32(self.header[0], self.header[1], self.header[2], self.header[3])
    }

    /// Traffic class: the differentiated services code point and two bits of ECN.
    pub fn traffic_class(&self) -> u8 {
        (self.first_word() >> 20) as u8
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.first_word() & 0x000f_ffff
    }

    /// Payload length field; 0 for a jumbogram.
    pub fn payload_length_field(&self) -> u16 {
        be16(self.header[4], self.header[5])
    }

    /// Bytes of the payload, extension headers included; `None` where the field is 0 (a jumbogram,
    /// RFC 2675).
    pub fn payload_length(&self) -> Option<usize> {
        match self.payload_length_field() {
            0 => None,
            length => Some(usize::from(length)),
        }
    }

    /// Kind of the header that follows.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.header[6])
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Source address.
    pub fn source(&self) -> Ipv6Addr {
        self.address::<8>()
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv6Addr {
        self.address::<24>()
    }

    fn address<const AT: usize>(&self) -> Ipv6Addr {
        let bytes = self.header.get(AT..).and_then(<[u8]>::first_chunk::<16>);
        Ipv6Addr::from(*bytes.unwrap_or(&[0; 16]))
    }

    /// The payload as far as it was captured, without the link's padding. Where the length is 0,
    /// all that follows.
    pub fn payload(&self) -> &'a [u8] {
        self.payload_length().map_or(self.rest, |length| at_most(self.rest, length))
    }
}
