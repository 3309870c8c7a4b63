//! The numbers of rules: newtypes for those that have none elsewhere, and how all are written.

use super::names::{ETHER_TYPES, PROTOCOLS};
use super::ranges::Ordinal;
use ringside_wire::{EtherType, IpProtocol, Port};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $first:expr, $last:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Ordinal for $name {
            const FIRST: $name = $name($first);
            const LAST: $name = $name($last);

            fn after(self) -> Option<$name> {
                (self.0 < $last).then(|| $name(self.0 + 1))
            }
        }
    };
}

number! {
    /// Identifier of a VLAN (IEEE 802.1Q): 12 bits.
    VlanId(u16), 0, 0xfff
}
number! {
    /// Label of an MPLS entry (RFC 3032): 20 bits.
    MplsLabel(u32), 0, 0xf_ffff
}
number! {
    /// Status code of a reply in HTTP (RFC 9110, 15): three digits.
    HttpStatus(u16), 100, 999
}

/// A kind of number as it stands in lists.
pub(super) trait Numeric: Ordinal + 'static {
    /// What one is called.
    const WHAT: &'static str;
    /// Names that stand for numbers.
    const NAMES: &'static [(&'static str, Self)] = &[];

    /// The value of a number from `FIRST` to `LAST`.
    fn of_number(number: u32) -> Self;

    /// The value as a number.
    fn number(self) -> u32;

    /// The number as text.
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.number(), f)
    }
}

impl Numeric for VlanId {
    const WHAT: &'static str = "VLAN id";

    fn of_number(number: u32) -> VlanId {
        VlanId(number as u16)
    }

    fn number(self) -> u32 {
        self.0.into()
    }
}

impl Numeric for MplsLabel {
    const WHAT: &'static str = "MPLS label";

    fn of_number(number: u32) -> MplsLabel {
        MplsLabel(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

impl Numeric for HttpStatus {
    const WHAT: &'static str = "HTTP status";

    fn of_number(number: u32) -> HttpStatus {
        HttpStatus(number as u16)
    }

    fn number(self) -> u32 {
        self.0.into()
    }
}

impl Numeric for Port {
    const WHAT: &'static str = "port";

    fn of_number(number: u32) -> Port {
        Port(number as u16)
    }

    fn number(self) -> u32 {
        self.0.into()
    }
}

impl Numeric for IpProtocol {
    const WHAT: &'static str = "IP protocol";
    const NAMES: &'static [(&'static str, IpProtocol)] = PROTOCOLS;

    fn of_number(number: u32) -> IpProtocol {
        IpProtocol(number as u8)
    }

    fn number(self) -> u32 {
        self.0.into()
    }
}

impl Numeric for EtherType {
    const WHAT: &'static str = "EtherType";
    const NAMES: &'static [(&'static str, EtherType)] = ETHER_TYPES;

    fn of_number(number: u32) -> EtherType {
        EtherType(number as u16)
    }

    fn number(self) -> u32 {
        self.0.into()
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self, f)
    }
}

impl Numeric for u32 {
    const WHAT: &'static str = "number of bytes";

    fn of_number(number: u32) -> u32 {
        number
    }

    fn number(self) -> u32 {
        self
    }
}
