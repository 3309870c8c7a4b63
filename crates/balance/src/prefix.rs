//! Ranges of addresses, as `192.0.2.0/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// Addresses that begin with the same bits; a single address is a prefix of all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// Not of the form ADDRESS or ADDRESS/BITS.
    #[error(
        "is neither an address nor a prefix; write it as 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32"
    )]
    Form,
    /// More bits than the address has.
    #[error("has {bits} bits; an address of this kind has {bits_max}")]
    Bits {
        /// As it was given.
        bits: u32,
        /// Bits of the address.
        bits_max: u8,
    },
    /// Bits behind the prefix are set.
    #[error("has bits behind its prefix; write {0}")]
    Host(Prefix),
    /// An IPv4 address in the form of an IPv6 address: frames bear the other form.
    #[error("is an IPv4 address as IPv6; write it as IPv4")]
    Mapped,
}

impl Prefix {
    /// The addresses that share the first `bits` of `address`; the others are set to 0, and more
    /// bits than the address has count as all.
    pub fn new(address: IpAddr, bits: u8) -> Prefix {
        match address {
            IpAddr::V4(v4) => {
                let bits = bits.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Prefix { address: Ipv4Addr::from_bits(v4.to_bits() & mask).into(), bits }
            }
            IpAddr::V6(v6) => {
                let bits = bits.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Prefix { address: Ipv6Addr::from_bits(v6.to_bits() & mask).into(), bits }
            }
        }
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Bits that all its addresses share.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Bits of one of its addresses: 32 or 128.
    pub fn bits_max(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// True if `address` is one of its addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Prefix::new(address, self.bits) == *self
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Form)?;
        if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(PrefixError::Mapped);
        }
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let digits = |bits: &str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => u32::from(bits_max),
            Some(bits) if digits(bits) => bits.parse().map_err(|_| PrefixError::Form)?,
            Some(_) => return Err(PrefixError::Form),
        };
        let bits = match u8::try_from(bits) {
            Ok(bits) if bits <= bits_max => bits,
            _ => return Err(PrefixError::Bits { bits, bits_max }),
        };
        let prefix = Prefix::new(address, bits);
        if prefix.address != address {
            return Err(PrefixError::Host(prefix));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == self.bits_max() {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_prefixes_or_refused_with_the_fix() {
        for text in ["192.0.2.1", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::/0", "fe80::1"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        let wrong = |text: &str| text.parse::<Prefix>().unwrap_err();
        for text in ["", "/", "1.2.3", "1.2.3.4/", "1.2.3.4/+8", "1.2.3.4/99999999999", "a::b/x"] {
            assert_eq!(wrong(text), PrefixError::Form, "{text}");
        }
        assert_eq!(wrong("1.2.3.4/33"), PrefixError::Bits { bits: 33, bits_max: 32 });
        assert_eq!(wrong("::/129"), PrefixError::Bits { bits: 129, bits_max: 128 });
        assert_eq!(wrong("::ffff:1.2.3.4"), PrefixError::Mapped);
        assert!(wrong("192.0.2.1/24").to_string().ends_with("write 192.0.2.0/24"));
    }

    #[test]
    fn addresses_are_in_it_by_their_first_bits() {
        let prefix: Prefix = "192.0.2.0/23".parse().unwrap();
        assert!(prefix.contains("192.0.3.255".parse().unwrap()));
        assert!(!prefix.contains("192.0.4.0".parse().unwrap()));
        assert!(!prefix.contains("::".parse().unwrap()));
        let all: Prefix = "::/0".parse().unwrap();
        assert!(all.contains("ffff::".parse().unwrap()));
        assert!(!all.contains("0.0.0.0".parse().unwrap()));
    }
}
