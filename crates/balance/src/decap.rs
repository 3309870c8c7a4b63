//! What becomes of a frame on a real server: the packet of a client comes out of its tunnel.
//!
//! A tunnel is believed if it begins in the balancers' source prefix and ends at an address of this
//! server; anything else goes on unchanged, to the host's own tunnels if it has some. The packet
//! within is not changed, but for one thing: where the way was congested it says so itself (RFC
//! 6040), or is dropped if it cannot.

use crate::hash::address_words;
use crate::packet::{ETHERNET_BYTES, Fragment, Packet, UDP};
use crate::prefix::Prefix;
use ringside_wire::MacAddr;
use ringside_wire::checksum::update;
use std::net::IpAddr;

/// Addresses at which tunnels may end: one of each version, and some for more networks.
pub const ADDRESSES_MAX: usize = 8;

const IN_IPV4: u8 = 4;
const IN_IPV6: u8 = 41;
const CONGESTED: u8 = 3;

/// Which tunnels are unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decap {
    /// The interface's hardware address; frames for others pass.
    pub mac: MacAddr,
    /// Where tunnels end: 1 to [`ADDRESSES_MAX`] addresses.
    pub addresses: Vec<IpAddr>,
    /// Where those over IPv4 begin; none if there are no such.
    pub source_v4: Option<Prefix>,
    /// The same over IPv6.
    pub source_v6: Option<Prefix>,
    /// Destination port of GUE.
    pub gue_port: u16,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpacking {
    /// It goes on unchanged.
    Pass,
    /// This frame goes on in its place.
    Unpacked(Vec<u8>),
    /// Dropped: the way was congested, and the packet within cannot say so.
    Congested,
}

impl Decap {
    /// What becomes of a frame.
    pub fn decide(&self, frame: &[u8]) -> Unpacking {
        let inner = match self.tunnel(frame) {
            Some(packet) => self.inner(frame, &packet).map(|(at, is_v4)| (packet, at, is_v4)),
            None => None,
        };
        let Some((packet, at, is_v4)) = inner else { return Unpacking::Pass };
        let mut out = frame[..12].to_vec();
        out.extend(if is_v4 { [0x08, 0x00] } else { [0x86, 0xdd] });
        out.extend(&frame[at..]);
        let is_congested = packet.tos & CONGESTED == CONGESTED;
        if is_congested && pass_congestion_on(&mut out[ETHERNET_BYTES..], is_v4).is_none() {
            return Unpacking::Congested;
        }
        Unpacking::Unpacked(out)
    }

    /// The packet of a tunnel that begins and ends where it may.
    fn tunnel(&self, frame: &[u8]) -> Option<Packet> {
        if !frame.starts_with(&self.mac.0) {
            return None;
        }
        let packet = Packet::read(frame)?;
        let prefix = if packet.version == 4 { self.source_v4 } else { self.source_v6 }?;
        let bits = u128::from(packet.source[0]) << 64 | u128::from(packet.source[1]);
        let source: IpAddr = match packet.version {
            4 => (bits as u32).to_be_bytes().into(),
            _ => bits.to_be_bytes().into(),
        };
        let ends_here = |address: &IpAddr| {
            address.is_ipv4() == (packet.version == 4)
                && address_words(*address) == packet.destination
        };
        let is_ours = prefix.contains(source) && self.addresses.iter().any(ends_here);
        (is_ours && packet.fragment == Fragment::No).then_some(packet)
    }

    /// Where the packet within begins, and whether it is IPv4.
    fn inner(&self, frame: &[u8], packet: &Packet) -> Option<(usize, bool)> {
        let payload = packet.transport(frame);
        let (at, version) = match packet.protocol {
            UDP => {
                let port = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
                (8, (port == self.gue_port).then_some(payload.get(8)? >> 4)?)
            }
            IN_IPV4 => (0, 4),
            IN_IPV6 => (0, 6),
            _ => return None,
        };
        let inner = payload.get(at..)?;
        let of_length =
            |at: usize| Some(u16::from_be_bytes([*inner.get(at)?, *inner.get(at + 1)?]));
        let (bytes, bytes_min) = match version {
            4 => (usize::from(of_length(2)?), 20),
            // There is no tunnel of IPv6 over IPv4.
            6 if packet.version == 6 => (usize::from(of_length(4)?) + 40, 40),
            _ => return None,
        };
        let is_whole = bytes >= bytes_min && bytes <= inner.len() && inner.first()? >> 4 == version;
        (is_whole && inner.len() >= 20).then_some((packet.transport_at + at, version == 4))
    }
}

/// Says in a packet that the way was congested; none if it does not know that.
fn pass_congestion_on(ip: &mut [u8], is_v4: bool) -> Option<()> {
    let words: &mut [u8; 20] = ip.first_chunk_mut()?;
    let shift = if is_v4 { 0 } else { 4 };
    if words[1] >> shift & CONGESTED == 0 {
        return None;
    }
    let old = u16::from_be_bytes([words[0], words[1]]);
    words[1] |= CONGESTED << shift;
    if is_v4 {
        let new = u16::from_be_bytes([words[0], words[1]]);
        let sum = update(u16::from_be_bytes([words[10], words[11]]), old, new);
        words[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}
