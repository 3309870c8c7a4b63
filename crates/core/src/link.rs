//! Link types: how the first bytes of a frame are to be read.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A LINKTYPE_ value as capture files store it (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Of frames whose interface is not named: no assigned value, so that none of them is taken
    /// for anything.
    pub const UNKNOWN: LinkType = LinkType(u16::MAX);
    /// BSD loopback: a four-byte protocol family in the byte order of the capturing host.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet II and IEEE 802.3.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, as read from files.
    pub const PPP: LinkType = LinkType(9);
    /// FDDI.
    pub const FDDI: LinkType = LinkType(10);
    /// Raw IP; the version nibble says which version.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco HDLC.
    pub const C_HDLC: LinkType = LinkType(104);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// Frame relay.
    pub const FRELAY: LinkType = LinkType(107);
    /// OpenBSD loopback: as NULL, the family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IEEE 802.11 behind what the radio says of the frame.
    pub const IEEE802_11_RADIOTAP: LinkType = LinkType(127);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// What the kernel's packet filter logs.
    pub const NFLOG: LinkType = LinkType(239);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
    /// Ethernet with the tag of a Marvell switch.
    pub const DSA_TAG_DSA: LinkType = LinkType(284);
    /// As DSA_TAG_DSA, the tag with an EtherType of its own.
    pub const DSA_TAG_EDSA: LinkType = LinkType(285);

    /// The name by which tcpdump.org lists it, of the types that are met in captures.
    pub fn name(self) -> Option<&'static str> {
        let place = NAMES.binary_search_by_key(&self.0, |&(number, _)| number).ok()?;
        Some(NAMES[place].1)
    }
}

/// Numbers and names, in order (<https://www.tcpdump.org/linktypes.html>).
const NAMES: [(u16, &str); 72] = [
    (0, "NULL"),
    (1, "ETHERNET"),
    (3, "AX25"),
    (6, "IEEE802_5"),
    (7, "ARCNET_BSD"),
    (8, "SLIP"),
    (9, "PPP"),
    (10, "FDDI"),
    (50, "PPP_HDLC"),
    (51, "PPP_ETHER"),
    (100, "ATM_RFC1483"),
    (101, "RAW"),
    (104, "C_HDLC"),
    (105, "IEEE802_11"),
    (107, "FRELAY"),
    (108, "LOOP"),
    (113, "LINUX_SLL"),
    (114, "LTALK"),
    (117, "PFLOG"),
    (119, "IEEE802_11_PRISM"),
    (122, "IP_OVER_FC"),
    (123, "SUNATM"),
    (127, "IEEE802_11_RADIOTAP"),
    (129, "ARCNET_LINUX"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (139, "MTP2_WITH_PHDR"),
    (140, "MTP2"),
    (141, "MTP3"),
    (142, "SCCP"),
    (143, "DOCSIS"),
    (144, "LINUX_IRDA"),
    (147, "USER0"),
    (148, "USER1"),
    (149, "USER2"),
    (150, "USER3"),
    (151, "USER4"),
    (152, "USER5"),
    (153, "USER6"),
    (154, "USER7"),
    (155, "USER8"),
    (156, "USER9"),
    (157, "USER10"),
    (158, "USER11"),
    (159, "USER12"),
    (160, "USER13"),
    (161, "USER14"),
    (162, "USER15"),
    (163, "IEEE802_11_AVS"),
    (165, "BACNET_MS_TP"),
    (166, "PPP_PPPD"),
    (177, "LINUX_LAPD"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (192, "PPI"),
    (195, "IEEE802_15_4_WITHFCS"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (220, "USB_LINUX_MMAPPED"),
    (227, "CAN_SOCKETCAN"),
    (228, "IPV4"),
    (229, "IPV6"),
    (230, "IEEE802_15_4_NOFCS"),
    (239, "NFLOG"),
    (240, "NETANALYZER"),
    (247, "INFINIBAND"),
    (249, "USBPCAP"),
    (252, "WIRESHARK_UPPER_PDU"),
    (253, "NETLINK"),
    (258, "PKTAP"),
    (272, "NORDIC_BLE"),
    (276, "LINUX_SLL2"),
    (284, "DSA_TAG_DSA"),
    (285, "DSA_TAG_EDSA"),
];

/// `147 (USER0)`, or the number alone.
impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_number() {
        assert!(NAMES.is_sorted_by(|(one, _), (next, _)| one < next));
        for (number, text) in [(1, "1 (ETHERNET)"), (147, "147 (USER0)"), (276, "276 (LINUX_SLL2)")]
        {
            assert_eq!(LinkType(number).to_string(), text);
        }
        assert_eq!(LinkType(9999).to_string(), "9999");
    }
}
