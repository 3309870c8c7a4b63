//! IPv4 (RFC 791).

use crate::bytes::{at_most, be16, head, part};
use crate::{Fragment, IpProtocol, LayerKind, WireError};
use std::net::Ipv4Addr;

/// View of an IPv4 header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; Ipv4::BYTES_MIN],
    options: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Bytes of a header without options.
    pub const BYTES_MIN: usize = 20;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within the header; the version is not 4; the header length is below 20; the
    /// total length is shorter than the header, but not 0 (see [`Ipv4::payload`]).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Ipv4<'a>, WireError> {
        let (header, rest) = head::<{ Ipv4::BYTES_MIN }>(bytes, LayerKind::Ipv4)?;
        if header[0] >> 4 != 4 {
            return Err(malformed("version", u32::from(header[0] >> 4)));
        }
        let header_bytes = 4 * usize::from(header[0] & 0x0f);
        let Some(option_bytes) = header_bytes.checked_sub(Ipv4::BYTES_MIN) else {
            return Err(malformed("header length", header_bytes as u32));
        };
        let (options, rest) = part(rest, option_bytes, Ipv4::BYTES_MIN, LayerKind::Ipv4)?;
        let ip = Ipv4 { header, options, rest };
        if ip.total_length() != 0 && usize::from(ip.total_length()) < header_bytes {
            return Err(malformed("total length", u32::from(ip.total_length())));
        }
        Ok(ip)
    }

    /// Bytes of the header, options included: 20 to 60.
    pub fn header_bytes(&self) -> usize {
        Ipv4::BYTES_MIN + self.options.len()
    }

    /// Type of service: the differentiated services code point and two bits of ECN.
    pub fn tos(&self) -> u8 {
        self.header[1]
    }

    /// Total length as it stands.
    pub fn total_length(&self) -> u16 {
        be16(self.header[2], self.header[3])
    }

    /// Identification.
    pub fn id(&self) -> u16 {
        be16(self.header[4], self.header[5])
    }

    /// Reserved bit of the flags.
    pub fn reserved_flag(&self) -> bool {
        self.header[6] & 0x80 != 0
    }

    /// Don't fragment.
    pub fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    /// More fragments.
    pub fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// Fragment offset in bytes.
    pub fn fragment_offset_bytes(&self) -> u32 {
        8 * u32::from(be16(self.header[6], self.header[7]) & 0x1fff)
    }

    /// Whether it is a fragment.
    pub fn fragment(&self) -> Fragment {
        Fragment::of(self.fragment_offset_bytes(), self.more_fragments())
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// Protocol of the payload.
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.header[9])
    }

    /// Header checksum as it stands.
    pub fn checksum(&self) -> u16 {
        be16(self.header[10], self.header[11])
    }

    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[12], h[13], h[14], h[15])
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[16], h[17], h[18], h[19])
    }

    /// The options, padding included, not taken apart.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Bytes of the payload by the header; `None` where the total length is 0, as segmentation
    /// offload (BIG TCP) leaves it.
    pub fn payload_length(&self) -> Option<usize> {
        match usize::from(self.total_length()) {
            0 => None,
            total => Some(total.saturating_sub(self.header_bytes())),
        }
    }

    /// The payload as far as it was captured, without the link's padding. Where the total length
    /// is 0, all that follows.
    pub fn payload(&self) -> &'a [u8] {
        self.payload_length().map_or(self.rest, |length| at_most(self.rest, length))
    }
}

fn malformed(field: &'static str, value: u32) -> WireError {
    WireError::Malformed { header: LayerKind::Ipv4, field, value }
}
