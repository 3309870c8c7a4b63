//! What tells conversations apart, in 48 bytes.

use ringside_core::InterfaceId;
use ringside_wire::{IpProtocol, TunnelId};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One end of a flow: address, and port or what stands for it.
pub type Endpoint = (IpAddr, u16);

/// Of the flags of a key: addresses are IPv6.
const IS_V6: u64 = 1;
/// The lower endpoint is the source, whatever its address: of messages that have no answer.
const IS_ONE_WAY: u64 = 2;
/// A tunnel, with its kind, in the last word.
const TUNNEL: u64 = 0xff_ffff_ffff;
/// Above the id of a VLAN, which has 12 bits.
const HAS_VLAN: u64 = 0x1000;

/// Names a flow, both directions alike: the lower endpoint is first. It is distinguished by
/// addresses, ports, protocol, the VLAN tag and the tunnel nearest to the IP header, and the
/// interface. Six words, so that it is hashed and compared without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    words: [u64; 6],
}

/// What belongs to a key in addition to its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Protocol above IP and its extension headers.
    pub protocol: IpProtocol,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Tunnel that carries this IP header.
    pub tunnel: Option<TunnelId>,
    /// Interface that received the packets.
    pub interface: InterfaceId,
}

impl Key {
    /// The key of packets from `source` to `destination`, and whether the source is the higher
    /// endpoint. What `is_one_way` has no answer: its other direction is another flow.
    #[inline]
    pub fn new(
        source: Endpoint,
        destination: Endpoint,
        around: &Around,
        is_one_way: bool,
    ) -> (Key, bool) {
        let is_v6 = source.0.is_ipv6();
        let (from, to) = ((bits(source.0), source.1), (bits(destination.0), destination.1));
        Key::of_bits(from, to, is_v6, around, is_one_way)
    }

    /// The same, of addresses as numbers.
    #[inline]
    pub fn of_bits(
        from: (u128, u16),
        to: (u128, u16),
        is_v6: bool,
        around: &Around,
        is_one_way: bool,
    ) -> (Key, bool) {
        let from_high = !is_one_way && from > to;
        let ((low, low_port), (high, high_port)) = if from_high { (to, from) } else { (from, to) };
        let vlan = around.vlan.map_or(0, |id| HAS_VLAN | u64::from(id));
        let flags = if is_v6 { IS_V6 } else { 0 } | if is_one_way { IS_ONE_WAY } else { 0 };
        let (tunnel_kind, tunnel) = around.tunnel.map_or((0, 0), tunnel_words);
        // More interfaces than `INTERFACES_MAX` are refused where they are opened.
        let interface = u64::from(around.interface.0 & 0xffff);
        let words = [
            (low >> 64) as u64,
            low as u64,
            (high >> 64) as u64,
            high as u64,
            u64::from(low_port)
                | u64::from(high_port) << 16
                | vlan << 32
                | u64::from(around.protocol.0) << 48
                | flags << 56,
            u64::from(tunnel) | tunnel_kind << 32 | interface << 40,
        ];
        (Key { words }, from_high)
    }

    /// The lower endpoint, or the source of what has no answer.
    pub fn low(&self) -> Endpoint {
        (self.address(0), self.words[4] as u16)
    }

    /// The higher endpoint, or the destination of what has no answer.
    pub fn high(&self) -> Endpoint {
        (self.address(2), (self.words[4] >> 16) as u16)
    }

    /// Protocol above IP and its extension headers.
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol((self.words[4] >> 48) as u8)
    }

    /// True for messages that have no answer.
    pub fn is_one_way(&self) -> bool {
        self.words[4] >> 56 & IS_ONE_WAY != 0
    }

    /// Id of the VLAN tag nearest to the IP header.
    pub fn vlan(&self) -> Option<u16> {
        let vlan = self.words[4] >> 32 & 0xffff;
        (vlan & HAS_VLAN != 0).then_some((vlan & 0x0fff) as u16)
    }

    /// Tunnel that carries the IP header.
    pub fn tunnel(&self) -> Option<TunnelId> {
        let number = self.words[5] as u32;
        Some(match self.words[5] >> 32 & 0xff {
            1 => TunnelId::Vxlan(number),
            2 => TunnelId::Geneve(number),
            3 => TunnelId::GtpU(number),
            4 => TunnelId::Gre(number),
            5 => TunnelId::Nvgre(number),
            6 => TunnelId::Erspan(number as u16),
            _ => return None,
        })
    }

    /// The key without a tunnel that has a number for each direction, as GTP-U, so that what is
    /// asked in one is answered in another. A number that both directions have, as that of a
    /// virtual network, stays.
    pub fn paired(&self) -> Key {
        match self.tunnel() {
            Some(TunnelId::GtpU(_) | TunnelId::Gre(_) | TunnelId::Erspan(_)) => {
                let mut words = self.words;
                words[5] &= !TUNNEL;
                Key { words }
            }
            _ => *self,
        }
    }

    /// Interface that received the packets.
    pub fn interface(&self) -> InterfaceId {
        InterfaceId((self.words[5] >> 40) as u32)
    }

    fn address(&self, word: usize) -> IpAddr {
        let bits = u128::from(self.words[word]) << 64 | u128::from(self.words[word + 1]);
        match self.words[4] >> 56 & IS_V6 {
            0 => Ipv4Addr::from_bits(bits as u32).into(),
            _ => Ipv6Addr::from_bits(bits).into(),
        }
    }
}

impl Hash for Key {
    /// Word by word: the hash of a slice also has its length in it.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for &word in &self.words {
            state.write_u64(word);
        }
    }
}

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn tunnel_words(tunnel: TunnelId) -> (u64, u32) {
    let kind = match tunnel {
        TunnelId::Vxlan(_) => 1,
        TunnelId::Geneve(_) => 2,
        TunnelId::GtpU(_) => 3,
        TunnelId::Gre(_) => 4,
        TunnelId::Nvgre(_) => 5,
        TunnelId::Erspan(_) => 6,
    };
    (kind, tunnel.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_one_direction_pairs_nothing() {
        let around = |tunnel| Around {
            protocol: IpProtocol::UDP,
            vlan: None,
            tunnel: Some(tunnel),
            interface: InterfaceId(0),
        };
        let end = |last| (Ipv4Addr::new(10, 0, 0, last).into(), 53);
        let key = |tunnel| Key::new(end(1), end(2), &around(tunnel), false).0.paired();
        assert_eq!(key(TunnelId::GtpU(1)), key(TunnelId::GtpU(2)));
        assert_eq!(key(TunnelId::Gre(1)), key(TunnelId::Gre(2)));
        assert_ne!(key(TunnelId::Vxlan(1)), key(TunnelId::Vxlan(2)));
        assert_ne!(key(TunnelId::Nvgre(1)), key(TunnelId::Geneve(1)));
    }

    #[test]
    fn a_key_gives_back_what_it_was_made_of() {
        let v4: (IpAddr, IpAddr) = ("10.0.0.9".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let v6: (IpAddr, IpAddr) = ("fe80::1".parse().unwrap(), "2001:db8::5".parse().unwrap());
        let tunnels = [
            None,
            Some(TunnelId::Vxlan(0xff_ffff)),
            Some(TunnelId::Geneve(1)),
            Some(TunnelId::GtpU(u32::MAX)),
            Some(TunnelId::Gre(2)),
            Some(TunnelId::Nvgre(3)),
            Some(TunnelId::Erspan(1023)),
        ];
        for (source, destination) in [v4, v6] {
            for (tunnel, vlan) in
                tunnels.into_iter().flat_map(|t| [None, Some(0), Some(4095)].map(|v| (t, v)))
            {
                let (protocol, interface) = (IpProtocol::TCP, InterfaceId(65_535));
                let around = Around { protocol, vlan, tunnel, interface };
                let (key, from_high) =
                    Key::new((source, 40_000), (destination, 80), &around, false);
                let back = Key::new((destination, 80), (source, 40_000), &around, false);
                assert_eq!((back.0, back.1), (key, !from_high));
                assert!(from_high, "both sources are the higher address");
                assert_eq!((key.low(), key.high()), ((destination, 80), (source, 40_000)));
                assert_eq!((key.vlan(), key.tunnel()), (vlan, tunnel));
                assert_eq!((key.protocol(), key.interface()), (protocol, interface));
                let paired = Around { tunnel: key.paired().tunnel(), ..around };
                let of_paired = Key::new((source, 40_000), (destination, 80), &paired, false).0;
                assert_eq!(key.paired(), of_paired);
                let alone = Key::new((source, 3), (destination, 1), &around, true);
                assert_eq!((alone.0.low(), alone.1), ((source, 3), false));
                assert_ne!(alone.0, Key::new((destination, 1), (source, 3), &around, true).0);
            }
        }
    }
}
