//! Changing frames before they are sent: hardware addresses, VLAN tags, IP addresses.
//!
//! Checksums are changed by the difference alone (RFC 1624), so that one that was wrong stays as
//! wrong as it was. What is changed and what is left says [`AddressMap`].

mod addresses;
mod packet;

pub use self::addresses::{ADDRESS_RULES_MAX, AddressMap, AddressMapError, AddressRule};

use ringside_core::LinkType;
use ringside_wire::{EtherType, MacAddr};

/// Destination and source.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
/// Tags of a frame that are taken off; what has more is made to cost time.
const TAGS_MAX: usize = 16;

/// What becomes of VLAN tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanChange {
    /// They stay.
    #[default]
    Keep,
    /// The outermost tag gets this id and keeps its priority; a frame without one gets one of
    /// 802.1Q.
    Set(VlanId),
    /// All are taken off.
    Strip,
}

/// A VLAN id, 0 to 4,095.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanId(u16);

impl VlanId {
    /// `None` above 4,095.
    pub fn new(id: u16) -> Option<VlanId> {
        (id <= 0x0fff).then_some(VlanId(id))
    }
}

/// What is changed in every frame.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// Source address of the link layer.
    mac_source: Option<MacAddr>,
    /// Destination address of the link layer.
    mac_destination: Option<MacAddr>,
    /// VLAN tags.
    vlan: VlanChange,
    /// IP addresses.
    addresses: AddressMap,
    /// The frame as it was; kept for its memory.
    scratch: Vec<u8>,
}

/// What was changed in one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// An IP address.
    pub mapped: bool,
}

impl Rewrite {
    /// Sets the hardware addresses that are given, and changes the rest as `vlan` and `addresses`
    /// say.
    pub fn new(
        mac_source: Option<MacAddr>,
        mac_destination: Option<MacAddr>,
        vlan: VlanChange,
        addresses: AddressMap,
    ) -> Rewrite {
        Rewrite { mac_source, mac_destination, vlan, addresses, scratch: Vec::new() }
    }

    /// Appends an Ethernet frame of any bytes to `out`, changed: at most four bytes longer.
    pub fn append(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Changed {
        let begin = out.len();
        let Some((addresses, rest)) = frame.split_at_checked(ADDRESSES_BYTES) else {
            out.extend_from_slice(frame);
            return Changed::default();
        };
        out.extend_from_slice(addresses);
        for (at, address) in [(0, self.mac_destination), (6, self.mac_source)] {
            if let Some(MacAddr(bytes)) = address {
                out[begin + at..][..6].copy_from_slice(&bytes);
            }
        }
        self.tags(rest, out);
        let mapped = !self.addresses.is_empty()
            && packet::map(
                &mut out[begin..],
                LinkType::ETHERNET,
                &self.addresses,
                &mut self.scratch,
            );
        Changed { mapped }
    }

    /// Appends what follows the addresses, with the tags that it is to have.
    fn tags(&self, rest: &[u8], out: &mut Vec<u8>) {
        match (self.vlan, rest) {
            (VlanChange::Keep, _) => out.extend_from_slice(rest),
            (VlanChange::Strip, _) => {
                let mut rest = rest;
                for _ in 0..TAGS_MAX {
                    match rest.split_at_checked(TAG_BYTES) {
                        Some((tag, behind)) if is_tag(tag) && behind.len() >= 2 => rest = behind,
                        _ => break,
                    }
                }
                out.extend_from_slice(rest);
            }
            (VlanChange::Set(VlanId(id)), &[a, b, high, low, ref behind @ ..])
                if is_tag(&[a, b]) =>
            {
                let control = u16::from_be_bytes([high, low]) & 0xf000 | id;
                out.extend_from_slice(&[a, b]);
                out.extend_from_slice(&control.to_be_bytes());
                out.extend_from_slice(behind);
            }
            (VlanChange::Set(VlanId(id)), _) => {
                out.extend_from_slice(&EtherType::VLAN.0.to_be_bytes());
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(rest);
            }
        }
    }
}

/// True if `bytes` begin with the identifier of a tag.
fn is_tag(bytes: &[u8]) -> bool {
    let Some(&identifier) = bytes.first_chunk() else { return false };
    let identifier = EtherType(u16::from_be_bytes(identifier));
    matches!(identifier, EtherType::VLAN | EtherType::QINQ | EtherType::QINQ_OLD)
}

#[cfg(test)]
mod tests;
