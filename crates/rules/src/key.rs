//! What the tables ask of a packet, as five words: the same in user space and in the driver.
//!
//! Addresses and ports are bytes as on the wire, read as words of the machine. An IPv4 key has both
//! addresses in the first word (source in the low half, as a little-endian machine reads it), and
//! three words of 0.

use ringside_inspect::DissectedFrame;
use ringside_wire::{FiveTuple, Level};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses, ports and protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Source and destination address, then [`Key::last`].
    words: [u64; 5],
}

/// The port of a packet that has none. Models know few ports and protocols: higher ones are none.
pub const NO_PORT: u32 = if cfg!(feature = "loom") { 3 } else { 0x1_0000 };
/// The protocol of a packet that is not IP.
pub const NO_PROTOCOL: u32 = if cfg!(feature = "loom") { 1 } else { 0x100 };

/// Multiplier of the hash: 2^64 divided by the golden ratio.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Where the last word has the protocol, the version of IP, and the lack of ports.
const PROTOCOL_AT: u32 = 32;
const VERSION_AT: u32 = 40;
const NO_PORTS: u64 = 1 << 48;

impl Key {
    /// A packet without IP.
    pub const NOT_IP: Key = Key { words: [0, 0, 0, 0, NO_PORTS] };

    /// Addresses, ports and protocol of a level of a frame.
    pub fn of(frame: &DissectedFrame<'_>, level: Level) -> Key {
        let Some(FiveTuple { source, destination, protocol, ports }) = frame.tuple(level) else {
            return Key::NOT_IP;
        };
        Key::new(source, destination, protocol.0, ports.map(|(from, to)| (from.0, to.0)))
    }

    /// A packet with IP.
    ///
    /// # Panics
    /// If the addresses are of two versions.
    #[inline]
    pub fn new(
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        ports: Option<(u16, u16)>,
    ) -> Key {
        let ports = match ports {
            Some((from, to)) => u64::from(raw(from)) | u64::from(raw(to)) << 16,
            None => NO_PORTS,
        };
        let last =
            |version: u64| ports | u64::from(protocol) << PROTOCOL_AT | version << VERSION_AT;
        let words = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let word = |address: Ipv4Addr| u64::from(u32::from_ne_bytes(address.octets()));
                [word(source) | word(destination) << 32, 0, 0, 0, last(4)]
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ([a, b], [c, d]) = (halves(source), halves(destination));
                [a, b, c, d, last(6)]
            }
            _ => panic!("one packet, one version of IP"),
        };
        Key { words }
    }

    /// Source and destination, if there is IP.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let [a, b, c, d, _] = self.words;
        match self.version() {
            4 => {
                let address = |word: u64| Ipv4Addr::from((word as u32).to_ne_bytes()).into();
                Some((address(a), address(a >> 32)))
            }
            6 => {
                let address = |high: u64, low: u64| {
                    let bits = u128::from(u64::from_be(high)) << 64 | u128::from(u64::from_be(low));
                    Ipv6Addr::from_bits(bits).into()
                };
                Some((address(a, b), address(c, d)))
            }
            _ => None,
        }
    }

    /// Source and destination port, if the packet has any.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let last = self.last();
        let port = |shift: u32| u16::from_be((last >> shift) as u16);
        (last & NO_PORTS == 0).then(|| (port(0), port(16)))
    }

    /// Protocol above IP.
    #[inline]
    pub fn protocol(&self) -> Option<u8> {
        (self.version() != 0).then_some((self.last() >> PROTOCOL_AT) as u8)
    }

    /// The same with source and destination exchanged.
    pub fn exchanged(&self) -> Key {
        let [a, b, c, d, last] = self.words;
        let ports = (last & 0xffff) << 16 | (last >> 16) & 0xffff;
        let last = last & !0xffff_ffff | ports;
        let words = match self.version() {
            6 => [c, d, a, b, last],
            _ => [a.rotate_left(32), b, c, d, last],
        };
        Key { words }
    }

    /// The words, as tables keep them.
    pub fn words(&self) -> [u64; 5] {
        self.words
    }

    /// A number that spreads keys over tables. Not a secret for a sender that can guess
    /// the seed.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        let step = |hash: u64, word: u64| {
            let product = (hash ^ word).wrapping_mul(HASH_FACTOR);
            product ^ product >> 32
        };
        let [a, b, c, d, last] = self.words;
        match self.version() {
            6 => [a, b, c, d, last].into_iter().fold(seed, step),
            _ => step(step(seed, a), last),
        }
    }

    /// The version of IP, 4 or 6; 0 if there is none.
    #[inline]
    pub(crate) fn version(&self) -> u8 {
        (self.last() >> VERSION_AT) as u8
    }

    /// Source address bits, the first one the highest; those of IPv4 are in the highest 32.
    #[inline]
    pub(crate) fn source_bits(&self) -> u128 {
        let [a, b, ..] = self.words;
        self.address_bits(a as u32, a, b)
    }

    /// The same of the destination.
    #[inline]
    pub(crate) fn destination_bits(&self) -> u128 {
        let [a, _, c, d, _] = self.words;
        self.address_bits((a >> 32) as u32, c, d)
    }

    #[inline]
    fn address_bits(&self, short: u32, high: u64, low: u64) -> u128 {
        match self.version() {
            4 => u128::from(u32::from_be(short)) << 96,
            _ => u128::from(u64::from_be(high)) << 64 | u128::from(u64::from_be(low)),
        }
    }

    #[inline]
    fn last(&self) -> u64 {
        self.words[4]
    }
}

/// A port as on the wire.
fn raw(port: u16) -> u16 {
    u16::from_ne_bytes(port.to_be_bytes())
}

fn halves(address: Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [((bits >> 64) as u64).to_be(), (bits as u64).to_be()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
            any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
        ]
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            (source, destination) in addresses(),
            protocol: u8,
            ports: Option<(u16, u16)>,
        ) {
            let key = Key::new(source, destination, protocol, ports);
            prop_assert_eq!(key.addresses(), Some((source, destination)));
            prop_assert_eq!((key.protocol(), key.ports()), (Some(protocol), ports));
            let swapped = ports.map(|(from, to)| (to, from));
            let other = Key::new(destination, source, protocol, swapped);
            prop_assert_eq!((key.exchanged(), key.exchanged().exchanged()), (other, key));
        }
    }

    /// The driver computes the same: bpf/rules.h.
    #[test]
    fn a_key_is_these_words() {
        let [a, b] =
            [[10, 0, 0, 1], [10, 0, 0, 2]].map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
        let words = Key::new(a, b, 17, Some((1, 0x0203))).words();
        let ne = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
        assert_eq!(words[0], ne([10, 0, 0, 1, 10, 0, 0, 2]));
        assert_eq!(words[1..], [0, 0, 0, ne([0, 1, 2, 3, 17, 4, 0, 0])]);
        assert_eq!(Key::NOT_IP.addresses(), None);
        assert_eq!((Key::NOT_IP.ports(), Key::NOT_IP.protocol()), (None, None));
    }
}
