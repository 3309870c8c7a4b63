//! Queues, ring sizes and features of a driver: the netlink family `ethtool`
//! (linux/ethtool_netlink.h, Documentation/networking/ethtool-netlink.rst), from 5.7 on.

use crate::netlink::generic::{Family, GENERIC_HEADER_BYTES};
use crate::netlink::message::{
    Attribute, Message, NESTED, Request, attributes, damaged, joined_attributes,
};
use ringside_sys::SysError;
use std::collections::BTreeSet;
use std::io;

const FAMILY: &str = "ethtool";
const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_MSG_RINGS_GET: u8 = 15;
const ETHTOOL_MSG_RINGS_SET: u8 = 16;
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_MSG_CHANNELS_SET: u8 = 18;
/// The header is the first attribute of every message.
const HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_OMIT_REPLY: u32 = 2;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
const ETHTOOL_A_RINGS_RX_MAX: u16 = 2;
const ETHTOOL_A_RINGS_RX: u16 = 6;
const ETHTOOL_A_CHANNELS_RX_MAX: u16 = 2;
const ETHTOOL_A_CHANNELS_COMBINED_MAX: u16 = 5;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;

/// How many queues receive: those that only receive, and those that send too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Most of these.
    pub rx_max: u32,
    /// Queues that receive and send.
    pub combined: u32,
    /// Most of these.
    pub combined_max: u32,
}

impl Channels {
    /// Queues that receive.
    pub fn receiving(self) -> u32 {
        self.rx.saturating_add(self.combined)
    }

    /// Most queues that can receive.
    pub fn receiving_max(self) -> u32 {
        self.combined_max.max(self.rx_max)
    }

    /// The same with `count` queues that receive: combined ones where the driver has them.
    pub fn with_receiving(self, count: u32) -> Channels {
        if self.combined_max > 0 {
            Channels { rx: 0, combined: count, ..self }
        } else {
            Channels { rx: count, ..self }
        }
    }
}

/// Descriptors of each receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// Descriptors that are set.
    pub rx: u32,
    /// The most that can be set.
    pub rx_max: u32,
}

/// Features by the kernel's names (`rx-gro`, `rx-lro`, `rx-vlan-hw-parse`; net/ethtool/common.c).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Those that are on.
    pub active: BTreeSet<String>,
    /// Those that can be turned on and off.
    pub changeable: BTreeSet<String>,
}

/// The features by which a driver takes VLAN tags out of frames.
const TAKES_TAGS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// True if a driver takes VLAN tags of some kind out of frames, or does not say whether it does.
pub fn may_take_tags_out(name: &str) -> bool {
    let takes = |found: Features| TAKES_TAGS.iter().any(|tags| found.active.contains(*tags));
    features(name).map_or(true, takes)
}

/// The queues of an interface.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn channels(name: &str) -> Result<Channels, SysError> {
    get(name, "queues", ETHTOOL_MSG_CHANNELS_GET, |parts| Ok(channels_of(parts)))
}

fn channels_of(parts: &[Attribute<'_>]) -> Channels {
    let number = |kind| number_of(parts, kind);
    Channels {
        rx: number(ETHTOOL_A_CHANNELS_RX_COUNT),
        rx_max: number(ETHTOOL_A_CHANNELS_RX_MAX),
        combined: number(ETHTOOL_A_CHANNELS_COMBINED_COUNT),
        combined_max: number(ETHTOOL_A_CHANNELS_COMBINED_MAX),
    }
}

/// Sets how many queues receive. Many drivers start the interface anew for that.
///
/// # Errors
/// The driver cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_channels(name: &str, wanted: Channels) -> Result<(), SysError> {
    let number = |request: Request, kind, most: u32, value: u32| match most {
        // What the driver does not have must not be named.
        0 => request,
        _ => request.attribute(kind, &value.to_ne_bytes()),
    };
    set(name, "queues", ETHTOOL_MSG_CHANNELS_SET, |request| {
        let request = number(request, ETHTOOL_A_CHANNELS_RX_COUNT, wanted.rx_max, wanted.rx);
        let kind = ETHTOOL_A_CHANNELS_COMBINED_COUNT;
        number(request, kind, wanted.combined_max, wanted.combined)
    })
}

/// The speed of an interface's link, in bits a second; `None` where it is not known, as without a
/// cable.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn link_bits_per_sec(name: &str) -> Result<Option<u64>, SysError> {
    get(name, "its speed", ETHTOOL_MSG_LINKMODES_GET, |parts| {
        // SPEED_UNKNOWN of linux/ethtool.h is -1.
        let megabits = number_of(parts, ETHTOOL_A_LINKMODES_SPEED);
        Ok((!matches!(megabits, 0 | u32::MAX)).then(|| u64::from(megabits) * 1_000_000))
    })
}

/// The sizes of an interface's receive rings.
///
/// # Errors
/// There is no such interface, or its driver does not say.
pub fn ring_sizes(name: &str) -> Result<RingSizes, SysError> {
    get(name, "ring sizes", ETHTOOL_MSG_RINGS_GET, |parts| {
        let number = |kind| number_of(parts, kind);
        Ok(RingSizes { rx: number(ETHTOOL_A_RINGS_RX), rx_max: number(ETHTOOL_A_RINGS_RX_MAX) })
    })
}

/// Sets how many descriptors each receive queue has. Many drivers start the interface anew.
///
/// # Errors
/// The driver cannot do that, or CAP_NET_ADMIN is missing.
pub fn set_receive_ring(name: &str, descriptors: u32) -> Result<(), SysError> {
    set(name, "ring sizes", ETHTOOL_MSG_RINGS_SET, |request| {
        request.attribute(ETHTOOL_A_RINGS_RX, &descriptors.to_ne_bytes())
    })
}

/// The features of an interface.
///
/// # Errors
/// There is no such interface.
pub fn features(name: &str) -> Result<Features, SysError> {
    get(name, "features", ETHTOOL_MSG_FEATURES_GET, |parts| {
        let of = |kind| {
            let set = parts.iter().find(|part| part.kind == kind);
            set.map_or(Ok(BTreeSet::new()), |set| names(set.value))
        };
        Ok(Features {
            active: of(ETHTOOL_A_FEATURES_ACTIVE)?,
            changeable: of(ETHTOOL_A_FEATURES_HW)?,
        })
    })
}

/// Turns a feature on or off. Whether it is so afterwards, [`features`] tells: what others need
/// stays.
///
/// # Errors
/// There is no such feature, or CAP_NET_ADMIN is missing.
pub fn set_feature(name: &str, feature: &str, on: bool) -> Result<(), SysError> {
    let mut text = feature.as_bytes().to_vec();
    text.push(0);
    let mut bit = joined_attributes(&[(ETHTOOL_A_BITSET_BIT_NAME, &text)]);
    if on {
        bit.extend(joined_attributes(&[(ETHTOOL_A_BITSET_BIT_VALUE, &[])]));
    }
    let bits = joined_attributes(&[(ETHTOOL_A_BITSET_BITS_BIT | NESTED, &bit)]);
    let set_of_bits = joined_attributes(&[(ETHTOOL_A_BITSET_BITS | NESTED, &bits)]);
    set(name, "features", ETHTOOL_MSG_FEATURES_SET, |request| {
        request.attribute(ETHTOOL_A_FEATURES_WANTED | NESTED, &set_of_bits)
    })
}

fn get<T>(
    name: &str,
    what: &str,
    command: u8,
    read: impl Fn(&[Attribute<'_>]) -> io::Result<T>,
) -> Result<T, SysError> {
    let failed = |e: io::Error| SysError::io(format!("asking interface {name} for {what}"), e);
    let mut family = open(name, what)?;
    let request = family.request(command).attribute(HEADER | NESTED, &header(name, 0));
    let decode = |message: &Message<'_>| {
        let body = message.body.get(GENERIC_HEADER_BYTES..).ok_or_else(damaged)?;
        read(&attributes(body)?).map(Some)
    };
    let answer = family.connection.ask(request, decode).map_err(failed)?;
    answer.ok_or_else(|| failed(damaged()))
}

fn set(
    name: &str,
    what: &str,
    command: u8,
    complete: impl Fn(Request) -> Request,
) -> Result<(), SysError> {
    let failed = |e: io::Error| SysError::io(format!("setting {what} of interface {name}"), e);
    let mut family = open(name, what)?;
    let header = header(name, ETHTOOL_FLAG_OMIT_REPLY);
    let request = complete(family.request(command).attribute(HEADER | NESTED, &header));
    family.connection.ask(request, |_| Ok(None::<()>)).map(drop).map_err(failed)
}

fn open(name: &str, what: &str) -> Result<Family, SysError> {
    Family::open(FAMILY)?.ok_or_else(|| {
        let context = format!("asking interface {name} for {what} by netlink");
        SysError::io(context, io::Error::from(io::ErrorKind::Unsupported))
    })
}

fn header(name: &str, flags: u32) -> Vec<u8> {
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    let flags = flags.to_ne_bytes();
    joined_attributes(&[(ETHTOOL_A_HEADER_DEV_NAME, &text), (ETHTOOL_A_HEADER_FLAGS, &flags)])
}

fn number_of(parts: &[Attribute<'_>], kind: u16) -> u32 {
    parts.iter().find(|part| part.kind == kind).map_or(0, |part| part.word())
}

/// The names of the bits that are set. A set without a mask lists these alone; one with a mask
/// lists all that the mask has, and marks those that are set.
fn names(set: &[u8]) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let parts = attributes(set)?;
    let lists_all = parts.iter().all(|part| part.kind != ETHTOOL_A_BITSET_NOMASK);
    for list in parts.into_iter().filter(|part| part.kind == ETHTOOL_A_BITSET_BITS) {
        for bit in attributes(list.value)? {
            let parts = attributes(bit.value)?;
            let part = |kind| parts.iter().find(|part| part.kind == kind);
            let is_set = !lists_all || part(ETHTOOL_A_BITSET_BIT_VALUE).is_some();
            let name = part(ETHTOOL_A_BITSET_BIT_NAME).filter(|_| is_set);
            names.extend(name.map(|name| name.text()));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(features: &[&[u8]]) -> Vec<u8> {
        let bit = |name: &&[u8]| {
            let bit = joined_attributes(&[(1, &[0; 4]), (ETHTOOL_A_BITSET_BIT_NAME, name)]);
            joined_attributes(&[(ETHTOOL_A_BITSET_BITS_BIT, &bit)])
        };
        let bits: Vec<u8> = features.iter().flat_map(bit).collect();
        joined_attributes(&[(1, &[]), (2, &[64, 0, 0, 0]), (ETHTOOL_A_BITSET_BITS, &bits)])
    }

    #[test]
    fn names_of_a_set_are_read() {
        let found = names(&set_of(&[b"rx-gro\0", b"rx-lro\0"])).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["rx-gro", "rx-lro"]);
        assert!(names(&set_of(&[])).unwrap().is_empty());
        assert!(names(&[9, 0, 0, 0]).is_err());
    }

    #[test]
    fn of_a_set_with_a_mask_only_marked_bits_count() {
        let bit = |parts: &[(u16, &[u8])]| {
            joined_attributes(&[(ETHTOOL_A_BITSET_BITS_BIT, &joined_attributes(parts))])
        };
        let marked = bit(&[(ETHTOOL_A_BITSET_BIT_NAME, b"rx-gro\0"), (3, &[])]);
        let unmarked = bit(&[(ETHTOOL_A_BITSET_BIT_NAME, b"rx-lro\0")]);
        let set = joined_attributes(&[(ETHTOOL_A_BITSET_BITS, &[marked, unmarked].concat())]);
        assert_eq!(names(&set).unwrap().into_iter().collect::<Vec<_>>(), ["rx-gro"]);
    }

    #[test]
    fn queues_are_counted_in_the_way_that_the_driver_has_them() {
        let network_card = Channels { rx: 0, rx_max: 0, combined: 4, combined_max: 8 };
        assert_eq!((network_card.receiving(), network_card.receiving_max()), (4, 8));
        assert_eq!(network_card.with_receiving(2), Channels { combined: 2, ..network_card });
        let pair = Channels { rx: 2, rx_max: 2, combined: 0, combined_max: 0 };
        assert_eq!(pair.with_receiving(1), Channels { rx: 1, ..pair });
        let both = Channels { rx: 1, rx_max: 4, combined: 1, combined_max: 4 };
        assert_eq!(both.with_receiving(3).receiving(), 3);
    }

    #[test]
    fn the_loopback_interface_has_features_and_no_rings() {
        let found = features("lo").unwrap();
        assert!(found.changeable.contains("rx-gro"), "{found:?}");
        assert!(found.active.contains("loopback"), "{found:?}");
        assert!(!found.changeable.contains("loopback"), "{found:?}");
        assert!(ring_sizes("lo").is_err());
        assert!(link_bits_per_sec("lo").is_err());
        let error = channels("rsafp-none").unwrap_err().to_string();
        assert!(error.contains("rsafp-none"), "{error}");
    }

    #[test]
    fn whatever_a_driver_says_of_its_queues_they_are_counted() {
        let answer = |rx: u32, combined: u32| {
            let counts = [
                (ETHTOOL_A_CHANNELS_RX_COUNT, rx),
                (ETHTOOL_A_CHANNELS_RX_MAX, 8),
                (ETHTOOL_A_CHANNELS_COMBINED_COUNT, combined),
                (ETHTOOL_A_CHANNELS_COMBINED_MAX, 8),
            ];
            let parts = counts.map(|(kind, count)| (kind, count.to_ne_bytes()));
            joined_attributes(&parts.each_ref().map(|(kind, value)| (*kind, &value[..])))
        };
        let read = |bytes: &[u8]| attributes(bytes).ok().map(|parts| channels_of(&parts));
        let found = Channels { rx: 1, rx_max: 8, combined: 4, combined_max: 8 };
        assert_eq!(read(&answer(1, 4)), Some(found));
        let seeds = [answer(1, 4), answer(u32::MAX, 1)];
        ringside_testkit::fuzz("ethtool-channels", 500_000, &seeds, |bytes| {
            let Some(channels) = read(bytes) else { return };
            let receiving = channels.receiving();
            assert!(receiving >= channels.rx.max(channels.combined));
            assert_eq!(channels.with_receiving(3).receiving_max(), channels.receiving_max());
        });
    }

    #[test]
    fn mutated_sets_end() {
        ringside_testkit::fuzz(
            "ethtool-bits",
            500_000,
            &[set_of(&[b"rx-gro\0", b"rx-lro\0"])],
            |input| {
                let _ = names(input);
            },
        );
    }
}
