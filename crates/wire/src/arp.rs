//! ARP and RARP (RFC 826, RFC 903).

use crate::bytes::{be16, head, part};
use crate::{EtherType, LayerKind, MacAddr, WireError};
use std::net::Ipv4Addr;

/// View of an ARP packet, addresses of any length.
#[derive(Clone, Copy, Debug)]
pub struct Arp<'a> {
    header: &'a [u8; 8],
    addresses: &'a [u8],
}

impl<'a> Arp<'a> {
    /// Views the packet at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes end before the last address.
    pub fn new(bytes: &'a [u8]) -> Result<Arp<'a>, WireError> {
        let (header, rest) = head::<8>(bytes, LayerKind::Arp)?;
        let count = 2 * (usize::from(header[4]) + usize::from(header[5]));
        let (addresses, _) = part(rest, count, 8, LayerKind::Arp)?;
        Ok(Arp { header, addresses })
    }

    /// Hardware type: 1 for Ethernet.
    pub fn hardware_type(&self) -> u16 {
        be16(self.header[0], self.header[1])
    }

    /// Protocol type: that of IPv4 as a rule.
    pub fn protocol_type(&self) -> EtherType {
        EtherType(be16(self.header[2], self.header[3]))
    }

    /// Bytes of a hardware address.
    pub fn hardware_bytes(&self) -> usize {
        usize::from(self.header[4])
    }

    /// Bytes of a protocol address.
    pub fn protocol_bytes(&self) -> usize {
        usize::from(self.header[5])
    }

    /// Operation: 1 request, 2 reply, 3 and 4 RARP.
    pub fn operation(&self) -> u16 {
        be16(self.header[6], self.header[7])
    }

    /// Bytes of the packet.
    pub fn header_bytes(&self) -> usize {
        8 + self.addresses.len()
    }

    /// Sender's hardware address.
    pub fn sender_hardware(&self) -> &'a [u8] {
        self.address(0, self.hardware_bytes())
    }

    /// Sender's protocol address.
    pub fn sender_protocol(&self) -> &'a [u8] {
        self.address(self.hardware_bytes(), self.protocol_bytes())
    }

    /// Target's hardware address.
    pub fn target_hardware(&self) -> &'a [u8] {
        self.address(self.hardware_bytes() + self.protocol_bytes(), self.hardware_bytes())
    }

    /// Target's protocol address.
    pub fn target_protocol(&self) -> &'a [u8] {
        self.address(2 * self.hardware_bytes() + self.protocol_bytes(), self.protocol_bytes())
    }

    /// Sender's and target's addresses, where it is IPv4 over 6-byte addresses.
    pub fn ipv4(&self) -> Option<(MacAddr, Ipv4Addr, MacAddr, Ipv4Addr)> {
        if self.protocol_type() != EtherType::IPV4 {
            return None;
        }
        Some((
            MacAddr(self.sender_hardware().try_into().ok()?),
            Ipv4Addr::from(<[u8; 4]>::try_from(self.sender_protocol()).ok()?),
            MacAddr(self.target_hardware().try_into().ok()?),
            Ipv4Addr::from(<[u8; 4]>::try_from(self.target_protocol()).ok()?),
        ))
    }

    fn address(&self, at: usize, count: usize) -> &'a [u8] {
        self.addresses.get(at..at + count).unwrap_or(&[])
    }
}
