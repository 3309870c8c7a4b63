//! Sets of IP addresses.

use super::ranges::{Ordinal, Ranges, Span};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP addresses of both versions, as sorted and merged ranges. An IPv4 address and its IPv6-mapped
/// form (`::ffff:192.0.2.1`) are two addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressSet {
    /// Those of IPv4.
    pub v4: Ranges<Ipv4Addr>,
    /// Those of IPv6.
    pub v6: Ranges<Ipv6Addr>,
}

impl AddressSet {
    /// Sorts and merges `spans`.
    pub fn new(spans: impl IntoIterator<Item = AddressSpan>) -> AddressSet {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for span in spans {
            match span {
                AddressSpan::V4(span) => v4.push(span),
                AddressSpan::V6(span) => v6.push(span),
            }
        }
        AddressSet { v4: Ranges::new(v4), v6: Ranges::new(v6) }
    }

    /// The addresses of one span.
    pub fn single(span: AddressSpan) -> AddressSet {
        match span {
            AddressSpan::V4(span) => AddressSet { v4: span.into(), v6: Ranges::default() },
            AddressSpan::V6(span) => AddressSet { v4: Ranges::default(), v6: span.into() },
        }
    }

    /// True if `address` is in the set; a binary search.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address),
            IpAddr::V6(address) => self.v6.contains(address),
        }
    }

    /// True if no address is in the set.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The only address, if there is one and no other.
    pub fn only(&self) -> Option<IpAddr> {
        match (self.v4.is_empty(), self.v6.is_empty()) {
            (false, true) => self.v4.only().map(IpAddr::V4),
            (true, false) => self.v6.only().map(IpAddr::V6),
            _ => None,
        }
    }
}

/// Neighbouring addresses of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSpan {
    /// Of IPv4.
    V4(Span<Ipv4Addr>),
    /// Of IPv6.
    V6(Span<Ipv6Addr>),
}

/// An address as a number, so that prefixes are the same arithmetic for both versions.
pub(super) trait Address: Ordinal {
    /// Bits of an address.
    const BITS: u32;

    /// The address as the low bits of a number.
    fn number(self) -> u128;

    /// The address of a number, whose bits beyond `BITS` are 0.
    fn of_number(number: u128) -> Self;

    /// What differs between the addresses of a prefix of `length` bits, at most `BITS`.
    fn host_bits(length: u32) -> u128 {
        u128::MAX.checked_shr(128 - Self::BITS + length).unwrap_or(0)
    }
}

impl Address for Ipv4Addr {
    const BITS: u32 = 32;

    fn number(self) -> u128 {
        self.to_bits().into()
    }

    fn of_number(number: u128) -> Ipv4Addr {
        Ipv4Addr::from_bits(number as u32)
    }
}

impl Address for Ipv6Addr {
    const BITS: u32 = 128;

    fn number(self) -> u128 {
        self.to_bits()
    }

    fn of_number(number: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(number)
    }
}

/// The length of the prefix that is exactly `span`, if there is one.
pub(super) fn prefix_length<A: Address>(span: &Span<A>) -> Option<u32> {
    let (first, last) = (span.first().number(), span.last().number());
    let differing = 128 - (first ^ last).leading_zeros();
    let length = A::BITS - differing;
    let host_bits = A::host_bits(length);
    (first & host_bits == 0 && last & host_bits == host_bits).then_some(length)
}
