//! Frames from the inside out.

use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port};
use std::net::Ipv4Addr;

pub const SOURCE_MAC: MacAddr = MacAddr([2, 0, 0x5e, 0x10, 0, 1]);
pub const DESTINATION_MAC: MacAddr = MacAddr([4, 0, 0, 0, 0, 9]);

/// A header in front of what it carries.
fn before<const ROOM: usize>(
    payload: &[u8],
    write: impl FnOnce(&mut [u8]) -> Result<usize, ringside_wire::WireError>,
) -> Vec<u8> {
    let mut frame = vec![0; ROOM];
    frame.extend_from_slice(payload);
    assert_eq!(write(&mut frame).unwrap(), ROOM);
    frame
}

pub fn ethernet(kind: EtherType, payload: &[u8]) -> Vec<u8> {
    before::<14>(payload, |out| build::ethernet(out, DESTINATION_MAC, SOURCE_MAC, kind))
}

/// What follows the type of a tag.
pub fn tag(id: u16, kind: EtherType, payload: &[u8]) -> Vec<u8> {
    before::<4>(payload, |out| build::vlan(out, 0x6000 | id, kind))
}

pub fn ip4(from: &str, to: &str, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        source: from.parse().unwrap(),
        destination: to.parse().unwrap(),
        protocol,
        id: 1,
        ttl: 64,
        dont_fragment: false,
        payload_bytes: payload.len(),
    };
    before::<20>(payload, |out| build::ipv4(out, &fields))
}

pub fn ip6(from: &str, to: &str, next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        source: from.parse().unwrap(),
        destination: to.parse().unwrap(),
        next_header,
        flow_label: 0,
        hop_limit: 64,
        payload_bytes: payload.len(),
    };
    before::<40>(payload, |out| build::ipv6(out, &fields))
}

/// Nothing here looks at checksums.
const ADDRESSES: Addresses =
    Addresses::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };

pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    before::<8>(payload, |out| build::udp(out, ADDRESSES, Port(from), Port(to)))
}

pub fn tcp(from: u16, to: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let fields = TcpFields {
        source: Port(from),
        destination: Port(to),
        sequence: 1,
        acknowledgment: 2,
        flags,
        window: 3,
    };
    before::<20>(payload, |out| build::tcp(out, ADDRESSES, &fields))
}

pub fn sctp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = [from.to_be_bytes(), to.to_be_bytes()].concat();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(payload);
    out
}

/// An IPv6 extension header of eight bytes.
pub fn extension(next: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![next.0, 0, 1, 4, 0, 0, 0, 0];
    out.extend_from_slice(payload);
    out
}

/// An IPv6 fragment header.
pub fn fragment(next: IpProtocol, offset_bytes: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (offset_bytes | u16::from(more)).to_be_bytes();
    let mut out = vec![next.0, 0, high, low, 0, 0, 0, 7];
    out.extend_from_slice(payload);
    out
}

/// Entries of a label stack, the last one at its bottom.
pub fn mpls(labels: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, label) in labels.iter().enumerate() {
        let bottom = u32::from(index + 1 == labels.len());
        out.extend_from_slice(&(label << 12 | bottom << 8 | 64).to_be_bytes());
    }
    out.extend_from_slice(payload);
    out
}

pub fn vxlan(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![8, 0, 0, 0, 0, 0, 77, 0];
    out.extend_from_slice(payload);
    udp(50_000, 4789, &out)
}

pub fn gre(kind: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend_from_slice(&kind.0.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A request for an address by ARP, from 10.0.0.1 for 10.0.0.2.
pub fn arp() -> Vec<u8> {
    let mut out = vec![0, 1, 8, 0, 6, 4, 0, 1];
    out.extend_from_slice(&[2, 0, 0x5e, 0x10, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    out
}

/// An IPv4 packet in Ethernet, from 10.0.0.1 to 192.0.2.2.
pub fn plain(protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    ethernet(EtherType::IPV4, &ip4("10.0.0.1", "192.0.2.2", protocol, payload))
}
