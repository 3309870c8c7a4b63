//! Writes headers into the caller's memory, lengths and checksums right.
//!
//! Each function writes at the start of `out` and returns the bytes of the header. Build from the
//! inside out where a checksum covers the payload: [`udp`] and [`tcp`] take the segment whose
//! payload is in place already.

use crate::checksum::{self, Addresses};
use crate::{EtherType, IpProtocol, LayerKind, MacAddr, Port, WireError};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Fields of an IPv4 header; the others follow, or are 0.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Fields {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: IpProtocol,
    /// Identification.
    pub id: u16,
    /// Time to live.
    pub ttl: u8,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// Bytes after the header.
    pub payload_bytes: usize,
}

/// Fields of an IPv6 header; the others are 0.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Fields {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Kind of the header that follows.
    pub next_header: IpProtocol,
    /// Flow label; only the lower 20 bits count.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes after the header.
    pub payload_bytes: usize,
}

/// Fields of a TCP header without options.
#[derive(Clone, Copy, Debug)]
pub struct TcpFields {
    /// Source port.
    pub source: Port,
    /// Destination port.
    pub destination: Port,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Flags, as in [`Tcp`](crate::Tcp).
    pub flags: u16,
    /// Window.
    pub window: u16,
}

/// Writes an Ethernet header: 14 bytes.
///
/// # Errors
/// `out` is shorter.
pub fn ethernet(
    out: &mut [u8],
    destination: MacAddr,
    source: MacAddr,
    ether_type: EtherType,
) -> Result<usize, WireError> {
    let header = space::<14>(out, LayerKind::Ethernet)?;
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&ether_type.0.to_be_bytes());
    Ok(14)
}

/// Writes a tag after a header whose EtherType is [`EtherType::VLAN`] or [`EtherType::QINQ`]:
/// 4 bytes.
///
/// # Errors
/// `out` is shorter.
pub fn vlan(out: &mut [u8], tci: u16, ether_type: EtherType) -> Result<usize, WireError> {
    let header = space::<4>(out, LayerKind::Vlan)?;
    header[..2].copy_from_slice(&tci.to_be_bytes());
    header[2..].copy_from_slice(&ether_type.0.to_be_bytes());
    Ok(4)
}

/// Writes an IPv4 header without options: 20 bytes.
///
/// # Errors
/// `out` is shorter, or the payload longer than 65,515 bytes.
pub fn ipv4(out: &mut [u8], fields: &Ipv4Fields) -> Result<usize, WireError> {
    let header = space::<20>(out, LayerKind::Ipv4)?;
    let total = length(fields.payload_bytes.saturating_add(20), LayerKind::Ipv4)?;
    *header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[4..6].copy_from_slice(&fields.id.to_be_bytes());
    header[6] = if fields.dont_fragment { 0x40 } else { 0 };
    header[8] = fields.ttl;
    header[9] = fields.protocol.0;
    header[12..16].copy_from_slice(&fields.source.octets());
    header[16..].copy_from_slice(&fields.destination.octets());
    let checksum = checksum::checksum(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    Ok(20)
}

/// Writes an IPv6 header: 40 bytes.
///
/// # Errors
/// `out` is shorter, or the payload longer than 65,535 bytes.
pub fn ipv6(out: &mut [u8], fields: &Ipv6Fields) -> Result<usize, WireError> {
    let header = space::<40>(out, LayerKind::Ipv6)?;
    let payload = length(fields.payload_bytes, LayerKind::Ipv6)?;
    let first = 6 << 28 | (fields.flow_label & 0x000f_ffff);
    header[..4].copy_from_slice(&first.to_be_bytes());
    header[4..6].copy_from_slice(&payload.to_be_bytes());
    header[6] = fields.next_header.0;
    header[7] = fields.hop_limit;
    header[8..24].copy_from_slice(&fields.source.octets());
    header[24..].copy_from_slice(&fields.destination.octets());
    Ok(40)
}

/// Writes a UDP header (8 bytes) at the start of `segment`, which ends where the payload ends.
///
/// # Errors
/// `segment` is shorter than the header, or longer than 65,535 bytes.
pub fn udp(
    segment: &mut [u8],
    addresses: Addresses,
    source: Port,
    destination: Port,
) -> Result<usize, WireError> {
    let total = length(segment.len(), LayerKind::Udp)?;
    let header = space::<8>(segment, LayerKind::Udp)?;
    header[..2].copy_from_slice(&source.0.to_be_bytes());
    header[2..4].copy_from_slice(&destination.0.to_be_bytes());
    header[4..6].copy_from_slice(&total.to_be_bytes());
    header[6..].copy_from_slice(&[0; 2]);
    let sum = checksum::pseudo(addresses, IpProtocol::UDP, u32::from(total)).bytes(segment);
    // A checksum of 0 would mean that there is none; 0xffff is the same number.
    let checksum = if sum.checksum() == 0 { 0xffff } else { sum.checksum() };
    space::<8>(segment, LayerKind::Udp)?[6..].copy_from_slice(&checksum.to_be_bytes());
    Ok(8)
}

/// Writes a TCP header without options (20 bytes) at the start of `segment`, which ends where the
/// payload ends.
///
/// # Errors
/// `segment` is shorter than the header, or longer than 65,535 bytes.
pub fn tcp(
    segment: &mut [u8],
    addresses: Addresses,
    fields: &TcpFields,
) -> Result<usize, WireError> {
    let total = length(segment.len(), LayerKind::Tcp)?;
    let header = space::<20>(segment, LayerKind::Tcp)?;
    *header = [0; 20];
    header[..2].copy_from_slice(&fields.source.0.to_be_bytes());
    header[2..4].copy_from_slice(&fields.destination.0.to_be_bytes());
    header[4..8].copy_from_slice(&fields.sequence.to_be_bytes());
    header[8..12].copy_from_slice(&fields.acknowledgment.to_be_bytes());
    header[12..14].copy_from_slice(&(0x5000 | (fields.flags & 0x0fff)).to_be_bytes());
    header[14..16].copy_from_slice(&fields.window.to_be_bytes());
    let sum = checksum::pseudo(addresses, IpProtocol::TCP, u32::from(total)).bytes(segment);
    let checksum = sum.checksum();
    space::<20>(segment, LayerKind::Tcp)?[16..18].copy_from_slice(&checksum.to_be_bytes());
    Ok(20)
}

fn space<const N: usize>(out: &mut [u8], header: LayerKind) -> Result<&mut [u8; N], WireError> {
    let available = out.len();
    out.first_chunk_mut::<N>().ok_or(WireError::Truncated { header, needed: N, available })
}

fn length(bytes: usize, header: LayerKind) -> Result<u16, WireError> {
    let value = u32::try_from(bytes).unwrap_or(u32::MAX);
    u16::try_from(bytes).map_err(|_| WireError::Malformed { header, field: "length", value })
}
