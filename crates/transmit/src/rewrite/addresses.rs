//! Which addresses become which.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// Pairs of prefixes of one map: each address of a frame is compared with all of them.
pub const ADDRESS_RULES_MAX: usize = 64;

/// Two prefixes of the same length that change places. Read from text:
/// `10.0.0.0/8=172.0.0.0/8`, `2001:db8::/32=fd00::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// IPv4.
    V4(Pair<u32>),
    /// IPv6.
    V6(Pair<u128>),
}

/// Two prefixes of one length, whose further bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<A> {
    one: A,
    other: A,
    /// Ones where the prefixes are.
    mask: A,
}

/// Pairs of prefixes that change places, of which no two overlap: so no two addresses become one,
/// and the same map leads back.
///
/// Changed are the addresses of IPv4 and IPv6 headers, those within tunnels too, of ARP and RARP,
/// of IPv6 source routes (types 0, 2 and 4), in ICMP errors those of the packet that is quoted, in
/// ICMP redirects the gateway, in neighbour discovery the target and in ICMPv6 redirects the
/// destination. With them change the checksums of IPv4, TCP, UDP, ICMP, ICMPv6 and GRE over them.
///
/// Left as they are: addresses in options of IPv4 and IPv6, in options of neighbour discovery, in
/// chunks of SCTP, in routing protocols and in payloads (DNS, SIP, FTP), and checksums over
/// addresses of other protocols (UDP-Lite, DCCP, OSPF over IPv6, authentication headers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    v4: Vec<Pair<u32>>,
    v6: Vec<Pair<u128>>,
}

/// Why a map is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressMapError {
    /// It cannot be read.
    #[error(
        "{text:?} is no pair of prefixes: write two of one version and one length, as \
         10.0.0.0/8=172.0.0.0/8"
    )]
    Text {
        /// What was written.
        text: String,
    },
    /// Two prefixes overlap.
    #[error(
        "{first} and {second} overlap, so that two addresses would become one; write prefixes \
         that have no address in common"
    )]
    Overlap {
        /// A prefix.
        first: String,
        /// Another.
        second: String,
    },
    /// Too many.
    #[error("{count} pairs of prefixes are given; at most {ADDRESS_RULES_MAX} are compared")]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl AddressMap {
    /// # Errors
    /// Prefixes overlap, or are too many.
    pub fn new(rules: &[AddressRule]) -> Result<AddressMap, AddressMapError> {
        if rules.len() > ADDRESS_RULES_MAX {
            return Err(AddressMapError::TooMany { count: rules.len() });
        }
        let mut map = AddressMap::default();
        for rule in rules {
            match rule {
                AddressRule::V4(pair) => map.v4.push(*pair),
                AddressRule::V6(pair) => map.v6.push(*pair),
            }
        }
        let wide = |pair: &Pair<u32>| pair.widened();
        check(&map.v4.iter().map(wide).collect::<Vec<_>>(), |(prefix, mask)| {
            let address = Ipv4Addr::from((prefix >> 96) as u32);
            format!("{address}/{}", mask.count_ones())
        })?;
        check(&map.v6, |(prefix, mask)| {
            format!("{}/{}", Ipv6Addr::from(prefix), mask.count_ones())
        })?;
        Ok(map)
    }

    /// True if no address is changed.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// What the address becomes, if it is changed.
    pub fn v4(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let address = u32::from(address);
        self.v4.iter().find_map(|pair| {
            let prefix = address & pair.mask;
            let becomes = exchange(prefix, pair.one, pair.other)?;
            Some(Ipv4Addr::from(becomes | address & !pair.mask))
        })
    }

    /// What the address becomes, if it is changed.
    pub fn v6(&self, address: Ipv6Addr) -> Option<Ipv6Addr> {
        let address = u128::from(address);
        self.v6.iter().find_map(|pair| {
            let prefix = address & pair.mask;
            let becomes = exchange(prefix, pair.one, pair.other)?;
            Some(Ipv6Addr::from(becomes | address & !pair.mask))
        })
    }
}

fn exchange<A: PartialEq>(prefix: A, one: A, other: A) -> Option<A> {
    if prefix == one {
        Some(other)
    } else if prefix == other {
        Some(one)
    } else {
        None
    }
}

impl Pair<u32> {
    /// The same in the upper bits.
    fn widened(&self) -> Pair<u128> {
        let wide = |bits: u32| u128::from(bits) << 96;
        Pair { one: wide(self.one), other: wide(self.other), mask: wide(self.mask) }
    }
}

/// Refuses prefixes that have an address in common.
fn check(
    pairs: &[Pair<u128>],
    text: impl Fn((u128, u128)) -> String,
) -> Result<(), AddressMapError> {
    let prefixes: Vec<_> =
        pairs.iter().flat_map(|pair| [(pair.one, pair.mask), (pair.other, pair.mask)]).collect();
    for (index, &(prefix, mask)) in prefixes.iter().enumerate() {
        for &(earlier, its_mask) in &prefixes[..index] {
            let shorter = mask & its_mask;
            if prefix & shorter == earlier & shorter {
                let (first, second) = (text((earlier, its_mask)), text((prefix, mask)));
                return Err(AddressMapError::Overlap { first, second });
            }
        }
    }
    Ok(())
}

impl FromStr for AddressRule {
    type Err = AddressMapError;

    fn from_str(text: &str) -> Result<AddressRule, AddressMapError> {
        let refuse = || AddressMapError::Text { text: text.into() };
        let (one, other) = text.split_once('=').ok_or_else(refuse)?;
        let (one, length) = prefix(one).ok_or_else(refuse)?;
        let (other, other_length) = prefix(other).ok_or_else(refuse)?;
        if length != other_length {
            return Err(refuse());
        }
        match (one, other) {
            (IpAddr::V4(one), IpAddr::V4(other)) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                let (one, other) = (u32::from(one) & mask, u32::from(other) & mask);
                Ok(AddressRule::V4(Pair { one, other, mask }))
            }
            (IpAddr::V6(one), IpAddr::V6(other)) if length <= 128 => {
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                let (one, other) = (u128::from(one) & mask, u128::from(other) & mask);
                Ok(AddressRule::V6(Pair { one, other, mask }))
            }
            _ => Err(refuse()),
        }
    }
}

/// An address and a length; a bare address is one alone.
fn prefix(text: &str) -> Option<(IpAddr, u32)> {
    let text = text.trim();
    let Some((address, length)) = text.split_once('/') else {
        let address: IpAddr = text.parse().ok()?;
        return Some((address, if address.is_ipv4() { 32 } else { 128 }));
    };
    let digits = length.bytes().all(|byte| byte.is_ascii_digit());
    Some((address.parse().ok()?, length.parse().ok().filter(|_| digits)?))
}

impl fmt::Display for AddressRule {
    /// As it is read, bits beyond the prefixes left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressRule::V4(Pair { one, other, mask }) => {
                let (one, other) = (Ipv4Addr::from(*one), Ipv4Addr::from(*other));
                write!(f, "{one}/{0}={other}/{0}", mask.count_ones())
            }
            AddressRule::V6(Pair { one, other, mask }) => {
                let (one, other) = (Ipv6Addr::from(*one), Ipv6Addr::from(*other));
                write!(f, "{one}/{0}={other}/{0}", mask.count_ones())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rules: &[&str]) -> Result<AddressMap, AddressMapError> {
        let rules: Result<Vec<AddressRule>, _> = rules.iter().map(|rule| rule.parse()).collect();
        AddressMap::new(&rules?)
    }

    #[test]
    fn prefixes_change_places() {
        let map = map(&["10.0.0.0/8=172.0.0.0/8", "192.0.2.1=198.51.100.7", "::1/64=fd00::/64"]);
        let map = map.unwrap();
        for (from, to) in [
            ("10.1.2.3", Some("172.1.2.3")),
            ("172.1.2.3", Some("10.1.2.3")),
            ("192.0.2.1", Some("198.51.100.7")),
            ("192.0.2.2", None),
        ] {
            let to = to.map(|to: &str| to.parse().unwrap());
            assert_eq!(map.v4(from.parse().unwrap()), to, "{from}");
        }
        assert_eq!(map.v6("fd00::9".parse().unwrap()), Some("::9".parse().unwrap()));
        assert_eq!(map.v6("fd01::9".parse().unwrap()), None);
        let rule: AddressRule = "10.0.0.0/8=192.168.0.0/8".parse().unwrap();
        assert_eq!(rule.to_string(), "10.0.0.0/8=192.0.0.0/8");
    }

    #[test]
    fn what_would_make_two_addresses_one_is_refused() {
        for rules in [
            &["10.0.0.0/8=10.0.0.0/8"][..],
            &["0.0.0.0/0=0.0.0.0/0"],
            &["10.0.0.0/8=11.0.0.0/8", "11.1.0.0/16=12.1.0.0/16"],
            &["::/1=8000::/1", "::1=::2"],
        ] {
            let refused = map(rules).unwrap_err().to_string();
            assert!(refused.contains("overlap"), "{rules:?}: {refused}");
        }
        for wrong in [
            "",
            "10.0.0.0/8",
            "10.0.0.0/8=::/8",
            "10.0.0.0/33=1.0.0.0/33",
            "1.1.1.1/+8=2.2.2.2/+8",
            "10.0.0.0/8=11.0.0.0/9",
            "a=b",
        ] {
            assert!(matches!(map(&[wrong]), Err(AddressMapError::Text { .. })), "{wrong}");
        }
        let many = vec!["10.0.0.0/8=11.0.0.0/8"; ADDRESS_RULES_MAX + 1];
        assert!(matches!(map(&many), Err(AddressMapError::TooMany { .. })));
    }
}
