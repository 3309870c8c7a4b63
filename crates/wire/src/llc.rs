//! IEEE 802.2 LLC.

use crate::{LayerKind, WireError};

/// View of an LLC header of 3 or 4 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Llc<'a> {
    destination: u8,
    source: u8,
    control: u16,
    header_bytes: usize,
    payload: &'a [u8],
}

impl<'a> Llc<'a> {
    /// Service access point of SNAP.
    pub const SNAP: u8 = 0xaa;
    /// Service access point of IPv4.
    pub const IPV4: u8 = 0x06;

    /// Views the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end within it.
    pub fn new(bytes: &'a [u8]) -> Result<Llc<'a>, WireError> {
        match *bytes {
            // Unnumbered formats have one byte of control, the others two.
            [destination, source, control, ref payload @ ..] if control & 3 == 3 => {
                let control = u16::from(control);
                Ok(Llc { destination, source, control, header_bytes: 3, payload })
            }
            [destination, source, low, high, ref payload @ ..] => {
                let control = u16::from_le_bytes([low, high]);
                Ok(Llc { destination, source, control, header_bytes: 4, payload })
            }
            _ => Err(WireError::Truncated {
                header: LayerKind::Llc,
                needed: if bytes.len() < 3 { 3 } else { 4 },
                available: bytes.len(),
            }),
        }
    }

    /// Destination service access point, group bit included.
    pub fn destination(&self) -> u8 {
        self.destination
    }

    /// Source service access point, response bit included.
    pub fn source(&self) -> u8 {
        self.source
    }

    /// Control field; 3 is unnumbered information.
    pub fn control(&self) -> u16 {
        self.control
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// True if a SNAP header follows.
    pub fn is_snap(&self) -> bool {
        self.destination == Llc::SNAP && self.source == Llc::SNAP && self.control == 3
    }

    /// What follows the control field.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
