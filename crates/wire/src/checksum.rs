//! The Internet checksum (RFC 1071), its update (RFC 1624), and the pseudo headers of TCP and UDP.

use crate::IpProtocol;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A running one's complement sum, eight bytes at a time.
///
/// The sum does not depend on the byte order in which it is made (RFC 1071, section 2.B), so words
/// are read in the machine's own and swapped once, at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub fn new() -> Sum {
        Sum(0)
    }

    /// Adds bytes. Every piece but the last must have an even number of them.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        let (mut sum, mut bytes) = (self.0, bytes);
        if bytes.len() >= LANES_BYTES_MIN {
            let (blocks, rest) = bytes.as_chunks::<32>();
            let mut lanes = Lanes::default();
            blocks.iter().for_each(|block| lanes.add(block));
            (sum, bytes) = (add_carry(sum, lanes.sum()), rest);
        }
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            sum = add_carry(sum, u64::from_ne_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, &from) in last.iter_mut().zip(tail) {
            *to = from;
        }
        Sum(add_carry(sum, u64::from_ne_bytes(last)))
    }

    /// Adds a 16-bit number as it stands on the wire.
    #[must_use]
    pub fn add_u16(self, value: u16) -> Sum {
        Sum(add_carry(self.0, u64::from(value.to_be())))
    }

    /// Adds a 32-bit number as it stands on the wire.
    #[must_use]
    pub fn add_u32(self, value: u32) -> Sum {
        Sum(add_carry(self.0, u64::from(value.to_be())))
    }

    /// Adds the sum of what follows an even number of bytes.
    #[must_use]
    pub fn plus(self, next: Sum) -> Sum {
        Sum(add_carry(self.0, next.0))
    }

    /// The sum of the same bytes behind an odd number of others (RFC 1071, section 2.B): each
    /// changes its place in its word.
    #[must_use]
    pub fn swapped(self) -> Sum {
        const HIGH: u64 = 0xff00_ff00_ff00_ff00;
        Sum((self.0 & HIGH) >> 8 | (self.0 << 8) & HIGH)
    }

    /// The sum itself, 16 bits, not complemented. Over data with a right checksum it is 0xffff.
    pub fn folded(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        u16::from_be(sum as u16)
    }

    /// The checksum: the complement of the sum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[inline]
fn add_carry(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum.wrapping_add(u64::from(carry))
}

/// Copies the bytes of `from` to the start of `to` and adds them up on the way; as many as both
/// have.
pub fn copy_and_sum(to: &mut [u8], from: &[u8]) -> Sum {
    let bytes = to.len().min(from.len());
    let (slots, slot_tail) = to[..bytes].as_chunks_mut::<32>();
    let (blocks, tail) = from[..bytes].as_chunks::<32>();
    let mut lanes = Lanes::default();
    for (slot, block) in slots.iter_mut().zip(blocks) {
        *slot = *block;
        lanes.add(block);
    }
    slot_tail.copy_from_slice(tail);
    Sum(lanes.sum()).bytes(tail)
}

/// Shorter data is added up sooner one word after the other.
const LANES_BYTES_MIN: usize = 128;

/// Eight sums that do not wait for each other's carry, so that they become vector instructions.
#[derive(Default)]
struct Lanes([u64; 8]);

impl Lanes {
    #[inline]
    fn add(&mut self, block: &[u8; 32]) {
        for (lane, word) in self.0.iter_mut().zip(block.as_chunks::<4>().0) {
            // 2^32 blocks fit; no slice is that long.
            *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
    }

    fn sum(self) -> u64 {
        self.0.into_iter().fold(0, add_carry)
    }
}

/// Checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// The checksum after a 16-bit word of the data changed (RFC 1624, equation 3).
#[must_use]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !Sum::new().add_u16(!checksum).add_u16(!old).add_u16(new).folded()
}

/// The checksum after a 32-bit word of the data changed, as an IPv4 address.
#[must_use]
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    !Sum::new().add_u16(!checksum).add_u32(!old).add_u32(new).folded()
}

/// Addresses of an IP packet, for its pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4 (RFC 9293, section 3.1).
    V4 {
        /// Source.
        source: Ipv4Addr,
        /// Destination.
        destination: Ipv4Addr,
    },
    /// IPv6 (RFC 8200, section 8.1).
    V6 {
        /// Source.
        source: Ipv6Addr,
        /// Final destination.
        destination: Ipv6Addr,
    },
}

/// Sum of the pseudo header; `transport_bytes` counts transport header and payload.
pub fn pseudo(addresses: Addresses, protocol: IpProtocol, transport_bytes: u32) -> Sum {
    let sum = match addresses {
        Addresses::V4 { source, destination } => {
            Sum::new().bytes(&source.octets()).bytes(&destination.octets())
        }
        Addresses::V6 { source, destination } => {
            Sum::new().bytes(&source.octets()).bytes(&destination.octets())
        }
    };
    sum.add_u32(transport_bytes).add_u16(u16::from(protocol.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, word by word, as its section 4.1 has it in C.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            let word = [pair[0], pair.get(1).copied().unwrap_or(0)];
            sum += u32::from(u16::from_be_bytes(word));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).folded(), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn equals_the_reference(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }

        #[test]
        fn all_ones_do_not_lose_a_carry(count in 0usize..3000) {
            let bytes = vec![0xff; count];
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }

        #[test]
        fn pieces_equal_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..250,
        ) {
            let (a, b) = bytes.split_at((2 * cut).min(bytes.len() & !1));
            prop_assert_eq!(Sum::new().bytes(a).bytes(b).checksum(), reference(&bytes));
        }

        #[test]
        fn pieces_at_odd_places_equal_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..500,
        ) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            let (first, next) = (Sum::new().bytes(a), Sum::new().bytes(b));
            let next = if a.len() % 2 == 1 { next.swapped() } else { next };
            prop_assert_eq!(first.plus(next).checksum(), reference(&bytes));
        }

        #[test]
        fn a_copy_is_the_same_and_its_sum_too(
            bytes in proptest::collection::vec(any::<u8>(), 0..500), room in 0usize..600,
        ) {
            let mut to = vec![0x5a; room];
            let copied = bytes.len().min(room);
            prop_assert_eq!(copy_and_sum(&mut to, &bytes).checksum(), reference(&bytes[..copied]));
            prop_assert_eq!(&to[..copied], &bytes[..copied]);
            prop_assert!(to[copied..].iter().all(|&byte| byte == 0x5a));
        }

        #[test]
        fn an_update_equals_a_new_checksum(
            mut bytes in proptest::collection::vec(any::<u8>(), 8..100), new in any::<u32>(),
        ) {
            // A word that is not zero keeps the sum off the two zeros of one's complement.
            bytes[4] |= 1;
            let before = checksum(&bytes);
            let old = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            bytes[..4].copy_from_slice(&new.to_be_bytes());
            let halves = update(before, (old >> 16) as u16, (new >> 16) as u16);
            prop_assert_eq!(update(halves, old as u16, new as u16), reference(&bytes));
            prop_assert_eq!(update_u32(before, old, new), reference(&bytes));
        }
    }
}
