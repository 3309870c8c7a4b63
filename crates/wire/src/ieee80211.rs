//! IEEE 802.11 (LINKTYPE_IEEE802_11, and behind radiotap).

use crate::bytes::{head, part};
use crate::{LayerKind, MacAddr, WireError};

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WlanKind {
    /// Beacons, association, authentication.
    Management,
    /// Acknowledgements and who may send.
    Control,
    /// What networks exist for.
    Data,
    /// Of 60 GHz networks.
    Extension,
}

/// View of the header of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Ieee80211<'a> {
    control: [u8; 2],
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ieee80211<'a> {
    /// Bytes that every frame has.
    const CONTROL_BYTES: usize = 2;

    /// Views the header at the start of `bytes`, which `is_padded` to a multiple of 4.
    ///
    /// # Errors
    /// The bytes end within it. Of kinds that are not known the header is the first two bytes.
    pub fn new(bytes: &'a [u8], is_padded: bool) -> Result<Ieee80211<'a>, WireError> {
        let (&control, _) = head::<{ Ieee80211::CONTROL_BYTES }>(bytes, LayerKind::Ieee80211)?;
        let count = header_bytes(control).unwrap_or(Ieee80211::CONTROL_BYTES);
        let count = if is_padded { count.next_multiple_of(4) } else { count };
        let (header, payload) = part(bytes, count, 0, LayerKind::Ieee80211)?;
        Ok(Ieee80211 { control, header, payload })
    }

    /// What it is for.
    pub fn kind(&self) -> WlanKind {
        kind(self.control)
    }

    /// Number of the kind within [`kind`](Self::kind).
    pub fn subtype(&self) -> u8 {
        self.control[0] >> 4
    }

    /// False for a frame whose header is not known beyond its first two bytes.
    pub fn is_known(&self) -> bool {
        header_bytes(self.control).is_some()
    }

    fn flag(&self, bit: u8) -> bool {
        self.control[1] & bit != 0
    }

    /// To the wired network.
    pub fn to_distribution(&self) -> bool {
        self.flag(0x01)
    }

    /// From the wired network.
    pub fn from_distribution(&self) -> bool {
        self.flag(0x02)
    }

    /// More fragments follow.
    pub fn has_more_fragments(&self) -> bool {
        self.flag(0x04)
    }

    /// Sent before.
    pub fn is_retry(&self) -> bool {
        self.flag(0x08)
    }

    /// The sender sleeps behind it.
    pub fn saves_power(&self) -> bool {
        self.flag(0x10)
    }

    /// More frames wait for the receiver.
    pub fn has_more_data(&self) -> bool {
        self.flag(0x20)
    }

    /// Encrypted.
    pub fn is_protected(&self) -> bool {
        self.flag(0x40)
    }

    /// Strictly ordered, or with the control of high throughput.
    pub fn is_ordered(&self) -> bool {
        self.flag(0x80)
    }

    /// Duration field.
    pub fn duration(&self) -> u16 {
        self.word(2)
    }

    /// Two bytes of the header, little endian; 0 where it has none there.
    pub fn word(&self, at: usize) -> u16 {
        let word = self.header.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// The address that begins there; zeros where the header has none.
    pub fn address(&self, at: usize) -> MacAddr {
        let address = self.header.get(at..).and_then(|rest| rest.first_chunk());
        address.map_or(MacAddr::default(), |bytes| MacAddr(*bytes))
    }

    /// Where source and destination of data are, by the network that it comes from and goes to.
    fn ends(&self) -> (usize, usize) {
        match (self.to_distribution(), self.from_distribution()) {
            (false, false) => (10, 4),
            (false, true) => (16, 4),
            (true, false) => (10, 16),
            (true, true) => (24, 16),
        }
    }

    /// Who made the frame, of data and management.
    pub fn source(&self) -> MacAddr {
        let at = if self.kind() == WlanKind::Data { self.ends().0 } else { 10 };
        self.address(at)
    }

    /// Whom it is for, of data and management.
    pub fn destination(&self) -> MacAddr {
        let at = if self.kind() == WlanKind::Data { self.ends().1 } else { 4 };
        self.address(at)
    }

    /// Number of the fragment, of data and management.
    pub fn fragment(&self) -> u8 {
        (self.word(22) & 0x0f) as u8
    }

    /// True for data with the control of quality of service.
    pub fn has_quality(&self) -> bool {
        has_quality(self.control)
    }

    /// True for data that carries something.
    pub fn has_data(&self) -> bool {
        self.kind() == WlanKind::Data && self.subtype() & 4 == 0
    }

    /// True if several frames of Ethernet's form follow.
    pub fn is_aggregate(&self) -> bool {
        let at = if self.ends().0 == 24 { 30 } else { 24 };
        self.has_data() && self.has_quality() && self.word(at) & 0x80 != 0
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.header.len()
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

fn kind([first, _]: [u8; 2]) -> WlanKind {
    match first >> 2 & 3 {
        0 => WlanKind::Management,
        1 => WlanKind::Control,
        2 => WlanKind::Data,
        _ => WlanKind::Extension,
    }
}

fn has_quality(control: [u8; 2]) -> bool {
    kind(control) == WlanKind::Data && control[0] & 0x80 != 0
}

/// Bytes of a header without padding; nothing for kinds that are not known.
fn header_bytes(control: [u8; 2]) -> Option<usize> {
    let [first, flags] = control;
    // The control of high throughput, where a field has room for it.
    let ordered = if flags & 0x80 != 0 { 4 } else { 0 };
    Some(match (kind(control), first >> 4) {
        (WlanKind::Management, _) => 24 + ordered,
        // Announcement of a block's acknowledgement: with its control and sequence.
        (WlanKind::Control, 8) => 20,
        (WlanKind::Control, 9 | 10 | 11 | 14 | 15) => 16,
        (WlanKind::Control, 12 | 13) => 10,
        (WlanKind::Data, _) => {
            let addresses = if flags & 3 == 3 { 30 } else { 24 };
            addresses + if has_quality(control) { 2 + ordered } else { 0 }
        }
        _ => return None,
    })
}
