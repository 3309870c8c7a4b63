//! What varies from flow to flow: ranges of addresses, ports and tags, as people type them.

use super::template::Places;
use crate::Error;
use std::net::IpAddr;

/// A field that may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Source MAC address.
    SourceMac,
    /// Destination MAC address.
    DestinationMac,
    /// Id of the outermost VLAN tag, 12 bits.
    Vlan,
    /// Source address of the first IP header.
    SourceAddress,
    /// Destination address of the first IP header.
    DestinationAddress,
    /// Source port of TCP or UDP.
    SourcePort,
    /// Destination port of TCP or UDP.
    DestinationPort,
}

impl Field {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Field::SourceMac => "source MAC address",
            Field::DestinationMac => "destination MAC address",
            Field::Vlan => "VLAN",
            Field::SourceAddress => "source address",
            Field::DestinationAddress => "destination address",
            Field::SourcePort => "source port",
            Field::DestinationPort => "destination port",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Field::SourceMac | Field::DestinationMac => {
                "02:00:00:00:00:01 or 02:00:00:00:00:01-02:00:00:00:00:ff"
            }
            Field::Vlan => "100 or 100-199, 0 to 4095",
            Field::SourceAddress | Field::DestinationAddress => {
                "192.0.2.1, 192.0.2.1-192.0.2.99, 192.0.2.0/24 or 2001:db8::/64"
            }
            Field::SourcePort | Field::DestinationPort => "80 or 1024-2047, 0 to 65535",
        }
    }
}

/// The values of one field: flow `n` has the `n mod count`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    field: Field,
    first: u128,
    count: u128,
    /// From one value to the next.
    step: u128,
    /// Of addresses: IPv6.
    is_v6: bool,
}

impl Range {
    /// Reads `text`: a value, `LOW-HIGH`, or of addresses also `PREFIX/LENGTH`.
    ///
    /// # Errors
    /// It is none of these, or runs downwards.
    pub fn parse(field: Field, text: &str) -> Result<Range, Error> {
        let refused =
            || Error::Range { field: field.name(), text: text.into(), example: field.example() };
        let value = |text: &str| value(field, text.trim()).ok_or_else(refused);
        if let Some((prefix, length)) = text.split_once('/') {
            let (address, is_v6) = value(prefix)?;
            let width: u32 = if is_v6 { 128 } else { 32 };
            let is_address = matches!(field, Field::SourceAddress | Field::DestinationAddress);
            let length: u32 = length.parse().map_err(|_| refused())?;
            if !is_address || length > width {
                return Err(refused());
            }
            // The count of ::/0 is one more than fits; no run sends as many flows.
            let count = 1u128.checked_shl(width - length).unwrap_or(u128::MAX);
            let first = address & !(count - 1);
            return Ok(Range { field, first, count, step: 1, is_v6 });
        }
        let (first, is_v6) = value(text.split_once('-').map_or(text, |(low, _)| low))?;
        let (last, last_is_v6) = match text.split_once('-') {
            Some((_, high)) => value(high)?,
            None => (first, is_v6),
        };
        if last < first || is_v6 != last_is_v6 {
            return Err(refused());
        }
        let count = (last - first).saturating_add(1);
        Ok(Range { field, first, count, step: 1, is_v6 })
    }

    pub(super) fn new(field: Field, first: u128, count: u128) -> Range {
        Range { field, first, count, step: 1, is_v6: false }
    }

    /// Only every `step`-th of its values, from the first on.
    pub fn every(self, step: u32) -> Range {
        let step = u128::from(step.max(1));
        Range { step: self.step * step, count: self.count.div_ceil(step), ..self }
    }

    /// Its field.
    pub fn field(&self) -> Field {
        self.field
    }

    /// How many values there are.
    pub fn count(&self) -> u128 {
        self.count
    }

    /// Its only value, if it has one only.
    pub fn single(&self) -> Option<u128> {
        (self.count == 1).then_some(self.first)
    }

    /// True for IPv6 addresses.
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Writes the value of `flow` into a frame with these places; false if it has no such field.
    pub(super) fn write(&self, places: &Places, flow: u32, frame: &mut [u8]) -> bool {
        let value = self.first.wrapping_add(u128::from(flow) % self.count * self.step);
        let ports = |second: usize| places.transport.map(|at| (at + 2 * second, 2));
        let addresses = |second: usize| match (self.is_v6, places.ipv4, places.ipv6) {
            (false, Some(at), _) => Some((at + 12 + 4 * second, 4)),
            (true, None, Some(at)) => Some((at + 8 + 16 * second, 16)),
            _ => None,
        };
        let place = match self.field {
            Field::DestinationMac => Some((0, 6)),
            Field::SourceMac => Some((6, 6)),
            Field::Vlan => places.vlan.map(|at| (at, 2)),
            Field::SourceAddress => addresses(0),
            Field::DestinationAddress => addresses(1),
            Field::SourcePort => ports(0),
            Field::DestinationPort => ports(1),
        };
        let Some(bytes) = place.and_then(|(at, width)| frame.get_mut(at..at + width)) else {
            return false;
        };
        let mut value = value.to_be_bytes();
        if self.field == Field::Vlan {
            value[14] |= bytes[0] & 0xf0;
        }
        bytes.copy_from_slice(&value[16 - bytes.len()..]);
        true
    }
}

/// A single value, and whether it is an IPv6 address.
fn value(field: Field, text: &str) -> Option<(u128, bool)> {
    match field {
        Field::SourceMac | Field::DestinationMac => {
            let mut value = 0u128;
            let mut count = 0;
            for byte in text.split([':']) {
                value = value << 8 | u128::from(u8::from_str_radix(byte, 16).ok()?);
                count += 1;
            }
            (count == 6).then_some((value, false))
        }
        Field::Vlan => {
            let id: u16 = text.parse().ok()?;
            (id < 4096).then_some((id.into(), false))
        }
        Field::SourcePort | Field::DestinationPort => {
            Some((text.parse::<u16>().ok()?.into(), false))
        }
        Field::SourceAddress | Field::DestinationAddress => match text.parse().ok()? {
            IpAddr::V4(address) => Some((u32::from(address).into(), false)),
            IpAddr::V6(address) => Some((address.into(), true)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let read = |field, text| {
            let range = Range::parse(field, text).unwrap_or_else(|e| panic!("{text}: {e}"));
            (range.first, range.count)
        };
        assert_eq!(read(Field::SourceMac, "02:00:00:00:00:01-02:00:00:00:01:00").1, 256);
        assert_eq!(read(Field::Vlan, "5-4095"), (5, 4091));
        assert_eq!(read(Field::SourcePort, "80"), (80, 1));
        assert_eq!(read(Field::SourceAddress, "10.1.2.3/24"), (0x0a01_0200, 256));
        assert_eq!(read(Field::SourceAddress, "0.0.0.0/0").1, 1 << 32);
        assert_eq!(read(Field::DestinationAddress, "::/0").1, u128::MAX);
        assert_eq!(read(Field::DestinationAddress, "2001:db8::1-2001:db8::2").1, 2);
    }

    #[test]
    fn every_so_many_values_are_a_range() {
        let range = Range::parse(Field::SourcePort, "1000-1010").unwrap().every(5);
        assert_eq!((range.count(), range.single()), (3, None));
        let places = Places { transport: Some(0), ..Places::default() };
        let ports = [0, 1, 2, 3].map(|flow| {
            let mut frame = [0; 2];
            assert!(range.write(&places, flow, &mut frame));
            u16::from_be_bytes(frame)
        });
        assert_eq!(ports, [1000, 1005, 1010, 1000]);
    }

    #[test]
    fn what_is_no_range_is_refused_with_an_example() {
        for (field, text) in [
            (Field::SourceMac, "02:00:00:00:00"),
            (Field::SourceMac, "02:00:00:00:00:zz"),
            (Field::SourceMac, "02:00:00:00:00:01/8"),
            (Field::Vlan, "4096"),
            (Field::Vlan, "9-5"),
            (Field::SourcePort, "65536"),
            (Field::SourcePort, ""),
            (Field::SourcePort, "1-"),
            (Field::SourceAddress, "10.0.0.0/33"),
            (Field::SourceAddress, "10.0.0.1-::2"),
            (Field::SourceAddress, "10.0.0"),
        ] {
            let error = Range::parse(field, text).expect_err(text).to_string();
            assert!(error.contains(" or "), "{text}: {error}");
        }
    }
}
