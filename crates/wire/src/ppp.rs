//! PPP (RFC 1661), with or without the address and control bytes of RFC 1662.

use crate::bytes::be16;
use crate::{LayerKind, WireError};

/// View of a PPP header of 1 to 4 bytes: address and control (ff 03) where present, and the
/// protocol, which may be compressed to one byte.
#[derive(Clone, Copy, Debug)]
pub struct Ppp<'a> {
    protocol: u16,
    header_bytes: usize,
    payload: &'a [u8],
}

impl<'a> Ppp<'a> {
    /// IPv4.
    pub const IPV4: u16 = 0x0021;
    /// IPv6.
    pub const IPV6: u16 = 0x0057;
    /// MPLS.
    pub const MPLS: u16 = 0x0281;
    /// MPLS with upstream-assigned label.
    pub const MPLS_UPSTREAM: u16 = 0x0283;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it.
    pub fn new(bytes: &'a [u8]) -> Result<Ppp<'a>, WireError> {
        let (framing, rest) = match bytes {
            [0xff, 0x03, rest @ ..] => (2, rest),
            // One byte more decides whether it is an address.
            [0xff] => return Err(truncated(4, bytes)),
            rest => (0, rest),
        };
        match *rest {
            // The low bit of the first byte is set only where the protocol has one byte.
            [low, ref payload @ ..] if low & 1 != 0 => {
                Ok(Ppp { protocol: u16::from(low), header_bytes: framing + 1, payload })
            }
            [high, low, ref payload @ ..] => {
                Ok(Ppp { protocol: be16(high, low), header_bytes: framing + 2, payload })
            }
            _ => Err(truncated(framing + 2, bytes)),
        }
    }

    /// Protocol number (IANA, PPP DLL protocol numbers).
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// What follows the protocol.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

fn truncated(needed: usize, bytes: &[u8]) -> WireError {
    WireError::Truncated { header: LayerKind::Ppp, needed, available: bytes.len() }
}
