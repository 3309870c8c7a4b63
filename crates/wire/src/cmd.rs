//! Cisco MetaData (EtherType 0x8909), which carries security group tags.
//!
//! Version and length (in units of 4 bytes of options), the options, the EtherType of what
//! follows; inside GRE that EtherType comes first. As Wireshark's `ciscometadata` dissector and
//! the frames of real switches have it.

use crate::bytes::{be16, be16_at, head, part};
use crate::{EtherType, LayerKind, WireError};

/// View of a Cisco MetaData header.
#[derive(Clone, Copy, Debug)]
pub struct Cmd<'a> {
    version: u8,
    options: &'a [u8],
    ether_type: EtherType,
    payload: &'a [u8],
}

impl<'a> Cmd<'a> {
    /// Views the header at the start of `bytes`, after its EtherType in an Ethernet frame.
    ///
    /// # Errors
    /// The bytes end within it.
    pub fn new(bytes: &'a [u8]) -> Result<Cmd<'a>, WireError> {
        let (&[version, length], rest) = head::<2>(bytes, LayerKind::Cmd)?;
        let (options, rest) = part(rest, 4 * usize::from(length), 2, LayerKind::Cmd)?;
        let (kind, payload) = part(rest, 2, 2 + options.len(), LayerKind::Cmd)?;
        let ether_type = EtherType(kind.first_chunk().map_or(0, |&[a, b]| be16(a, b)));
        Ok(Cmd { version, options, ether_type, payload })
    }

    /// Views the header at the start of `bytes`, after the protocol type of GRE.
    ///
    /// # Errors
    /// The bytes end within it.
    pub fn new_in_gre(bytes: &'a [u8]) -> Result<Cmd<'a>, WireError> {
        let (&[a, b, version, length], rest) = head::<4>(bytes, LayerKind::Cmd)?;
        let (options, payload) = part(rest, 4 * usize::from(length), 4, LayerKind::Cmd)?;
        Ok(Cmd { version, options, ether_type: EtherType(be16(a, b)), payload })
    }

    /// Version, 1 so far.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The options: each two bytes of length and type, and a value.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Security group tag, where the first option is one (type 1).
    pub fn security_group(&self) -> Option<u16> {
        let kind = be16_at(self.options, 0)? & 0x1fff;
        if kind == 1 { be16_at(self.options, 2) } else { None }
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        4 + self.options.len()
    }

    /// Type of what follows.
    pub fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// The bytes behind the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
