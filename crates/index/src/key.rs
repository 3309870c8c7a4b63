//! What is written of a frame: values of a few fields.

/// Which field a key is the value of. The numbers are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// EtherType of a frame, and of what follows each VLAN tag; also a length in its place.
    EtherType = 1,
    /// Identifier of a VLAN.
    Vlan = 2,
    /// First label of an MPLS stack, in the upper 20 of 32 bits, as in the header.
    Mpls = 3,
    /// Either MAC address of an Ethernet header.
    Mac = 4,
    /// Either address of an IPv4 header or of an ARP message.
    Ipv4 = 5,
    /// Either address of an IPv6 header.
    Ipv6 = 6,
    /// Protocol of an IPv4 header, next header of an IPv6 or fragment header.
    Protocol = 7,
    /// Either port of TCP, UDP or SCTP.
    Port = 8,
}

impl Kind {
    /// All kinds, in their order.
    pub(crate) const ALL: [Kind; 8] = [
        Kind::EtherType,
        Kind::Vlan,
        Kind::Mpls,
        Kind::Mac,
        Kind::Ipv4,
        Kind::Ipv6,
        Kind::Protocol,
        Kind::Port,
    ];

    pub(crate) fn of_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) value: u128,
}

/// Which values of a field are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    pub(crate) kind: Kind,
    /// These bits have these values,
    pub(crate) mask: u128,
    pub(crate) bits: u128,
    /// and the whole lies between these, both included.
    pub(crate) low: u128,
    pub(crate) high: u128,
}

impl Condition {
    pub(crate) fn holds(&self, value: u128) -> bool {
        value & self.mask == self.bits && (self.low..=self.high).contains(&value)
    }

    /// The smallest and the largest value that can hold: free bits are all 0, or all 1.
    pub(crate) fn bounds(&self) -> (u128, u128) {
        (self.low.max(self.bits), self.high.min(self.bits | !self.mask))
    }
}
