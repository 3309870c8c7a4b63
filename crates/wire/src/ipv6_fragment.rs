//! The fragment header of IPv6 (RFC 8200, section 4.5).

use crate::bytes::{be16, be32, head};
use crate::{Fragment, IpProtocol, LayerKind, WireError};

/// View of a fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Fragment<'a> {
    header: &'a [u8; Ipv6Fragment::BYTES],
    payload: &'a [u8],
}

impl<'a> Ipv6Fragment<'a> {
    /// Bytes of the header.
    pub const BYTES: usize = 8;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Ipv6Fragment<'a>, WireError> {
        let (header, payload) = head(bytes, LayerKind::Fragment)?;
        Ok(Ipv6Fragment { header, payload })
    }

    /// Kind of the header that follows, in the first fragment.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.header[0])
    }

    /// Fragment offset in bytes.
    pub fn fragment_offset_bytes(&self) -> u32 {
        u32::from(be16(self.header[2], self.header[3]) & 0xfff8)
    }

    /// More fragments.
    pub fn more_fragments(&self) -> bool {
        self.header[3] & 1 != 0
    }

    /// Whether it is a fragment: a header with offset 0 and nothing more is not (RFC 6946).
    pub fn fragment(&self) -> Fragment {
        Fragment::of(self.fragment_offset_bytes(), self.more_fragments())
    }

    /// Identification.
    pub fn id(&self) -> u32 {
        be32(self.header[4], self.header[5], self.header[6], self.header[7])
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
