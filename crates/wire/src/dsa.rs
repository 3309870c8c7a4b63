//! Frames of a Marvell switch on its way to or from the CPU (LINKTYPE_DSA_TAG_DSA and
//! LINKTYPE_DSA_TAG_EDSA): Ethernet with a tag between the addresses and the type.

use crate::bytes::{be16, head, part};
use crate::{LayerKind, MacAddr, WireError};

/// Which way a tagged frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsaMode {
    /// From a port to the CPU.
    ToCpu,
    /// From the CPU to a port.
    FromCpu,
    /// Mirrored.
    ToSniffer,
    /// From switch to switch.
    Forward,
}

/// View of Ethernet addresses, tag and type.
#[derive(Clone, Copy, Debug)]
pub struct Dsa<'a> {
    addresses: &'a [u8; 12],
    /// EtherType of the tag and two reserved bytes.
    extended: Option<[u8; 4]>,
    tag: [u8; 4],
    type_or_length: u16,
    payload: &'a [u8],
}

impl<'a> Dsa<'a> {
    /// Bytes of a header with the plain tag.
    pub const BYTES: usize = 18;
    /// Bytes of a header with the tag that has an EtherType.
    pub const BYTES_EXTENDED: usize = 22;

    /// Views the header at the start of `bytes`, whose tag is the extended one or the plain.
    ///
    /// # Errors
    /// Fewer than 22 or 18 bytes.
    pub fn new(bytes: &'a [u8], is_extended: bool) -> Result<Dsa<'a>, WireError> {
        let count = if is_extended { Dsa::BYTES_EXTENDED } else { Dsa::BYTES };
        part(bytes, count, 0, LayerKind::Dsa)?;
        let (addresses, mut rest) = head::<12>(bytes, LayerKind::Dsa)?;
        let mut extended = None;
        if is_extended {
            let (&bytes, after) = head::<4>(rest, LayerKind::Dsa)?;
            (extended, rest) = (Some(bytes), after);
        }
        let (&tag, rest) = head::<4>(rest, LayerKind::Dsa)?;
        let (&[high, low], payload) = head::<2>(rest, LayerKind::Dsa)?;
        Ok(Dsa { addresses, extended, tag, type_or_length: be16(high, low), payload })
    }

    /// Destination address.
    pub fn destination(&self) -> MacAddr {
        let a = self.addresses;
        MacAddr([a[0], a[1], a[2], a[3], a[4], a[5]])
    }

    /// Source address.
    pub fn source(&self) -> MacAddr {
        let a = self.addresses;
        MacAddr([a[6], a[7], a[8], a[9], a[10], a[11]])
    }

    /// EtherType of the tag, and its reserved bytes.
    pub fn extended(&self) -> Option<(u16, [u8; 2])> {
        self.extended.map(|[high, low, first, second]| (be16(high, low), [first, second]))
    }

    /// Which way it goes.
    pub fn mode(&self) -> DsaMode {
        match self.tag[0] >> 6 {
            0 => DsaMode::ToCpu,
            1 => DsaMode::FromCpu,
            2 => DsaMode::ToSniffer,
            _ => DsaMode::Forward,
        }
    }

    /// True if the frame had a tag of a VLAN at that port.
    pub fn is_tagged(&self) -> bool {
        self.tag[0] & 0x20 != 0
    }

    /// Number of the switch.
    pub fn device(&self) -> u8 {
        self.tag[0] & 0x1f
    }

    /// Port of the switch, or the trunk.
    pub fn port(&self) -> u8 {
        self.tag[1] >> 3
    }

    /// Of forwarded frames: the port is a trunk. Of mirrored ones: they came in there.
    pub fn is_trunk_or_ingress(&self) -> bool {
        self.tag[1] & 4 != 0
    }

    /// Canonical format indicator of the tag of the VLAN.
    pub fn has_cfi(&self) -> bool {
        self.tag[1] & 1 != 0
    }

    /// Why a frame went to the CPU.
    pub fn code(&self) -> u8 {
        (self.tag[1] & 6) | (self.tag[2] >> 4 & 1)
    }

    /// Priority.
    pub fn priority(&self) -> u8 {
        self.tag[2] >> 5
    }

    /// VLAN.
    pub fn vlan_id(&self) -> u16 {
        be16(self.tag[2] & 0x0f, self.tag[3])
    }

    /// Type or length of what follows.
    pub fn type_or_length(&self) -> u16 {
        self.type_or_length
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        if self.extended.is_some() { Dsa::BYTES_EXTENDED } else { Dsa::BYTES }
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
