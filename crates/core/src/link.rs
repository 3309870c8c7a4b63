//! Link types: how the first bytes of a frame are to be read.

use serde::{Deserialize, Serialize};

/// A LINKTYPE_ value as capture files store it (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a four-byte protocol family in the byte order of the capturing host.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet II and IEEE 802.3.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, as read from files.
    pub const PPP: LinkType = LinkType(9);
    /// Raw IP; the version nibble tells which.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco HDLC.
    pub const C_HDLC: LinkType = LinkType(104);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// OpenBSD loopback: as NULL, the family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// The name by which tcpdump.org lists it, of the types that stand here.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            LinkType::NULL => "NULL",
            LinkType::ETHERNET => "ETHERNET",
            LinkType::PPP => "PPP",
            LinkType::RAW => "RAW",
            LinkType::C_HDLC => "C_HDLC",
            LinkType::IEEE802_11 => "IEEE802_11",
            LinkType::LOOP => "LOOP",
            LinkType::LINUX_SLL => "LINUX_SLL",
            LinkType::IPV4 => "IPV4",
            LinkType::IPV6 => "IPV6",
            LinkType::LINUX_SLL2 => "LINUX_SLL2",
            _ => return None,
        })
    }
}
