//! Linux "cooked" capture, versions 1 and 2 (LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2).

use crate::bytes::{be16, be32, head};
use crate::{LayerKind, WireError};

/// View of a cooked header of either version.
#[derive(Clone, Copy, Debug)]
pub struct Sll<'a> {
    protocol: u16,
    hardware: u16,
    packet_type: u16,
    interface: Option<u32>,
    address: &'a [u8],
    header_bytes: usize,
    payload: &'a [u8],
}

impl<'a> Sll<'a> {
    /// Bytes of a version 1 header.
    pub const BYTES: usize = 16;
    /// Bytes of a version 2 header.
    pub const BYTES_V2: usize = 20;
    /// Value of [`Sll::protocol`] for frames that begin with an LLC header.
    pub const LLC: u16 = 4;

    /// Views a version 1 header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Sll<'a>, WireError> {
        let (h, payload) = head::<{ Sll::BYTES }>(bytes, LayerKind::Sll)?;
        let count = usize::from(be16(h[4], h[5])).min(8);
        Ok(Sll {
            protocol: be16(h[14], h[15]),
            hardware: be16(h[2], h[3]),
            packet_type: be16(h[0], h[1]),
            interface: None,
            address: h.get(6..6 + count).unwrap_or(&[]),
            header_bytes: Sll::BYTES,
            payload,
        })
    }

    /// Views a version 2 header at the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 20 bytes.
    pub fn new_v2(bytes: &'a [u8]) -> Result<Sll<'a>, WireError> {
        let (h, payload) = head::<{ Sll::BYTES_V2 }>(bytes, LayerKind::Sll2)?;
        let count = usize::from(h[11]).min(8);
        Ok(Sll {
            protocol: be16(h[0], h[1]),
            hardware: be16(h[8], h[9]),
            packet_type: u16::from(h[10]),
            interface: Some(be32(h[4], h[5], h[6], h[7])),
            address: h.get(12..12 + count).unwrap_or(&[]),
            header_bytes: Sll::BYTES_V2,
            payload,
        })
    }

    /// EtherType, or a Linux pseudo protocol below 1536.
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// Hardware type (ARPHRD_).
    pub fn hardware(&self) -> u16 {
        self.hardware
    }

    /// 0 to this host, 1 broadcast, 2 multicast, 3 to another host, 4 sent by this host.
    pub fn packet_type(&self) -> u16 {
        self.packet_type
    }

    /// Interface index, in version 2.
    pub fn interface(&self) -> Option<u32> {
        self.interface
    }

    /// Link-layer address of the sender, at most 8 bytes.
    pub fn address(&self) -> &'a [u8] {
        self.address
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
