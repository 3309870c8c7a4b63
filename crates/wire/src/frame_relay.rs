//! Frame relay (LINKTYPE_FRELAY; Q.922, RFC 2427, and Cisco's way with an EtherType).

use crate::bytes::be16;
use crate::{EtherType, LayerKind, WireError};

/// How a frame says what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayProtocol {
    /// Network layer protocol identifier.
    Nlpid(u8),
    /// Cisco's.
    Type(EtherType),
}

/// View of an address and what says what follows.
#[derive(Clone, Copy, Debug)]
pub struct FrameRelay<'a> {
    address: &'a [u8],
    protocol: RelayProtocol,
    header_bytes: usize,
    payload: &'a [u8],
}

impl<'a> FrameRelay<'a> {
    /// Identifier of IPv4.
    pub const IPV4: u8 = 0xcc;
    /// Identifier of IPv6.
    pub const IPV6: u8 = 0x8e;
    /// Identifier of SNAP.
    pub const SNAP: u8 = 0x80;
    /// Identifier of PPP.
    pub const PPP: u8 = 0xcf;
    /// Control field of unnumbered information.
    const UNNUMBERED: u8 = 3;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it, or the address has not 2, 3 or 4 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<FrameRelay<'a>, WireError> {
        let address = address(bytes)?;
        let rest = bytes.get(address.len()..).unwrap_or(&[]);
        let is_cisco = |first| first != FrameRelay::UNNUMBERED && dlci(address) != 0;
        let (protocol, bytes_of_protocol, payload) = match *rest {
            [high, low, ref payload @ ..] if is_cisco(high) => {
                (RelayProtocol::Type(EtherType(be16(high, low))), 2, payload)
            }
            // A byte of padding makes the header even.
            [_, 0, nlpid, ref payload @ ..] => (RelayProtocol::Nlpid(nlpid), 3, payload),
            [_, nlpid, ref payload @ ..] if nlpid != 0 => (RelayProtocol::Nlpid(nlpid), 2, payload),
            _ => return Err(short(address.len() + 2 + usize::from(rest.len() > 1), bytes.len())),
        };
        let header_bytes = address.len() + bytes_of_protocol;
        Ok(FrameRelay { address, protocol, header_bytes, payload })
    }

    /// Bytes of the address.
    pub fn address_bytes(&self) -> usize {
        self.address.len()
    }

    /// Data link connection identifier.
    pub fn dlci(&self) -> u32 {
        dlci(self.address)
    }

    /// Command or response.
    pub fn is_response(&self) -> bool {
        self.address.first().is_some_and(|byte| byte & 2 != 0)
    }

    /// May be discarded first.
    pub fn discard_eligible(&self) -> bool {
        self.second(2)
    }

    /// Congestion on the way back.
    pub fn backward_congestion(&self) -> bool {
        self.second(4)
    }

    /// Congestion on the way there.
    pub fn forward_congestion(&self) -> bool {
        self.second(8)
    }

    fn second(&self, bit: u8) -> bool {
        self.address.get(1).is_some_and(|byte| byte & bit != 0)
    }

    /// The last six bits of a long address are of DL-CORE's control.
    pub fn is_control(&self) -> bool {
        self.address.len() > 2 && self.address.last().is_some_and(|byte| byte & 2 != 0)
    }

    /// What it carries.
    pub fn protocol(&self) -> RelayProtocol {
        self.protocol
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The address: its last byte has the lowest bit set.
fn address(bytes: &[u8]) -> Result<&[u8], WireError> {
    let long = bytes.get(..4).unwrap_or(bytes);
    match long.iter().position(|byte| byte & 1 != 0) {
        Some(last @ 1..) => Ok(bytes.get(..=last).unwrap_or(bytes)),
        None if bytes.len() < 4 => Err(short(bytes.len() + 1, bytes.len())),
        _ => {
            let value = u32::from(bytes.first().copied().unwrap_or(0));
            let (header, field) = (LayerKind::FrameRelay, "address");
            Err(WireError::Malformed { header, field, value })
        }
    }
}

fn dlci(address: &[u8]) -> u32 {
    let bits = |byte: u8, count: u32, shift: u32| u32::from(byte >> shift) & ((1 << count) - 1);
    match *address {
        [a, b] => bits(a, 6, 2) << 4 | bits(b, 4, 4),
        [a, b, c] => (bits(a, 6, 2) << 4 | bits(b, 4, 4)) << 6 | bits(c, 6, 2),
        [a, b, c, d] => {
            ((bits(a, 6, 2) << 4 | bits(b, 4, 4)) << 7 | bits(c, 7, 1)) << 6 | bits(d, 6, 2)
        }
        _ => 0,
    }
}

fn short(needed: usize, available: usize) -> WireError {
    WireError::Truncated { header: LayerKind::FrameRelay, needed, available }
}
