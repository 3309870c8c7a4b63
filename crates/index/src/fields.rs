//! Where a frame has which field, as far as the filter language reads it.
//!
//! The one statement that both sides are made of. Of a frame, everything is known, and all its
//! fields are found. Of a program, what it has tested so far is known. Conditions are only ever
//! required to hold, never to fail, so what is found with less knowledge is found with more: a
//! field that a program reads on its way to accept a frame was written of that frame.

use crate::key::Kind;
use ringside_core::LinkType;

/// A place in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The IPv4 header, by its offset, whose length comes on top.
    pub(crate) behind: Option<u32>,
    pub(crate) offset: u32,
}

impl Place {
    pub(crate) fn at(offset: u32) -> Place {
        Place { behind: None, offset }
    }
}

/// A field: big endian, at most 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) bytes: u32,
    /// The bits that belong to it.
    pub(crate) mask: u128,
}

/// What is known of a frame.
pub(crate) trait Known {
    /// True if the number in these bytes, at most four of them, under `mask` is one of `values`.
    fn is_one_of(&self, place: Place, bytes: u32, mask: u32, values: &[u32]) -> bool;
}

/// Tags that the filter language takes for those of VLANs (libpcap, gencode.c).
const VLAN_TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags of a frame that are followed. An expression of more is rare, and only pruned less.
const TAGS_MAX: usize = 4;
const WITH_PORTS: [u32; 3] = [6, 17, 132];
const FRAGMENT: u32 = 44;
/// BSD's values of LINKTYPE_RAW.
const RAW_BSD: [LinkType; 2] = [LinkType(12), LinkType(14)];

/// Shows all fields that are known to be there. Of a link type that is not listed there is none.
pub(crate) fn fields(link: LinkType, known: &impl Known, see: &mut impl FnMut(Field)) {
    match link {
        LinkType::ETHERNET => {
            see(field(Kind::Mac, Place::at(0), 6));
            see(field(Kind::Mac, Place::at(6), 6));
            ether_type(12, 14, known, see);
        }
        LinkType::LINUX_SLL => ether_type(14, 16, known, see),
        LinkType::LINUX_SLL2 => ether_type(0, 20, known, see),
        LinkType::IPV4 => ipv4(0, known, see),
        LinkType::IPV6 => ipv6(0, known, see),
        _ if link == LinkType::RAW || RAW_BSD.contains(&link) => {
            let is_version = |bits| known.is_one_of(Place::at(0), 1, 0xf0, &[bits]);
            if is_version(0x40) {
                ipv4(0, known, see);
            } else if is_version(0x60) {
                ipv6(0, known, see);
            }
        }
        _ => {}
    }
}

fn field(kind: Kind, place: Place, bytes: u32) -> Field {
    let mask = u128::MAX >> (128 - 8 * bytes);
    Field { kind, place, bytes, mask }
}

/// An EtherType, and what follows its header at `network`.
fn ether_type(mut at: u32, mut network: u32, known: &impl Known, see: &mut impl FnMut(Field)) {
    for _ in 0..=TAGS_MAX {
        let place = Place::at(at);
        see(field(Kind::EtherType, place, 2));
        let is_one_of = |types: &[u32]| known.is_one_of(place, 2, 0xffff, types);
        if is_one_of(&VLAN_TAGS) {
            see(Field { mask: 0xfff, ..field(Kind::Vlan, Place::at(network), 2) });
            (at, network) = (network + 2, network + 4);
            continue;
        }
        if is_one_of(&[0x0800]) {
            ipv4(network, known, see);
        } else if is_one_of(&[0x86dd]) {
            ipv6(network, known, see);
        } else if is_one_of(&[0x0806, 0x8035]) {
            see(field(Kind::Ipv4, Place::at(network + 14), 4));
            see(field(Kind::Ipv4, Place::at(network + 24), 4));
        } else if is_one_of(&[0x8847, 0x8848]) {
            see(Field { mask: 0xffff_f000, ..field(Kind::Mpls, Place::at(network), 4) });
        }
        return;
    }
}

fn ipv4(at: u32, known: &impl Known, see: &mut impl FnMut(Field)) {
    see(field(Kind::Protocol, Place::at(at + 9), 1));
    see(field(Kind::Ipv4, Place::at(at + 12), 4));
    see(field(Kind::Ipv4, Place::at(at + 16), 4));
    // Only the first fragment has ports.
    if known.is_one_of(Place::at(at + 9), 1, 0xff, &WITH_PORTS)
        && known.is_one_of(Place::at(at + 6), 2, 0x1fff, &[0])
    {
        for offset in [at, at + 2] {
            see(field(Kind::Port, Place { behind: Some(at), offset }, 2));
        }
    }
}

fn ipv6(at: u32, known: &impl Known, see: &mut impl FnMut(Field)) {
    see(field(Kind::Protocol, Place::at(at + 6), 1));
    see(field(Kind::Ipv6, Place::at(at + 8), 16));
    see(field(Kind::Ipv6, Place::at(at + 24), 16));
    let is_next = |protocols: &[u32]| known.is_one_of(Place::at(at + 6), 1, 0xff, protocols);
    if is_next(&WITH_PORTS) {
        see(field(Kind::Port, Place::at(at + 40), 2));
        see(field(Kind::Port, Place::at(at + 42), 2));
    } else if is_next(&[FRAGMENT]) {
        see(field(Kind::Protocol, Place::at(at + 40), 1));
    }
}

/// A frame: everything is known of it, as far as it was captured.
pub(crate) struct Captured<'f>(pub(crate) &'f [u8]);

impl Captured<'_> {
    /// The number in a field; `Err` if the frame was cut within it.
    pub(crate) fn value(&self, field: &Field) -> Result<Option<u128>, CutWithin> {
        let Some(start) = self.offset(field.place) else { return Ok(None) };
        let there = self.0.get(start..).unwrap_or_default();
        match there.get(..field.bytes as usize) {
            Some(bytes) => Ok(Some(number(bytes) & field.mask)),
            None if there.is_empty() => Ok(None),
            None => Err(CutWithin),
        }
    }

    fn offset(&self, place: Place) -> Option<usize> {
        let header_bytes = match place.behind {
            Some(header) => 4 * usize::from(self.0.get(header as usize)? & 15),
            None => 0,
        };
        Some(place.offset as usize + header_bytes)
    }
}

/// A program may look at the part of a field that is there.
#[derive(Debug)]
pub(crate) struct CutWithin;

impl Known for Captured<'_> {
    #[inline]
    fn is_one_of(&self, place: Place, bytes: u32, mask: u32, values: &[u32]) -> bool {
        let Some(start) = self.offset(place) else { return false };
        let bytes = self.0.get(start..).and_then(|there| there.get(..bytes as usize));
        bytes.is_some_and(|bytes| values.contains(&(number(bytes) as u32 & mask)))
    }
}

#[inline]
fn number(bytes: &[u8]) -> u128 {
    match *bytes {
        [one] => one.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f] => u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into(),
        _ => match <[u8; 16]>::try_from(bytes) {
            Ok(address) => u128::from_be_bytes(address),
            Err(_) => bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)),
        },
    }
}
