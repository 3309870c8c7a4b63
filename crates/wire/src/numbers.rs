//! Newtypes for numbers that could be swapped by accident.

use std::fmt;
use std::str::FromStr;

/// An EtherType (IEEE 802 Numbers, IANA), host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// ERSPAN type III, inside GRE.
    pub const ERSPAN_III: EtherType = EtherType(0x22eb);
    /// Transparent Ethernet bridging, inside GRE (NVGRE) and Geneve.
    pub const TEB: EtherType = EtherType(0x6558);
    /// Reverse ARP.
    pub const RARP: EtherType = EtherType(0x8035);
    /// IEEE 802.1Q tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// PPP, inside GRE version 1.
    pub const PPP: EtherType = EtherType(0x880b);
    /// MPLS.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS with upstream-assigned label (multicast).
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);
    /// PPPoE discovery.
    pub const PPPOE_DISCOVERY: EtherType = EtherType(0x8863);
    /// PPPoE session.
    pub const PPPOE_SESSION: EtherType = EtherType(0x8864);
    /// IEEE 802.1ad service tag.
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// ERSPAN types I and II, inside GRE.
    pub const ERSPAN: EtherType = EtherType(0x88be);
    /// Cisco MetaData.
    pub const CMD: EtherType = EtherType(0x8909);
    /// VN-Tag.
    pub const VN_TAG: EtherType = EtherType(0x8926);
    /// Stacked VLAN tag before IEEE 802.1ad.
    pub const QINQ_OLD: EtherType = EtherType(0x9100);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// An IP protocol number (IANA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: IpProtocol = IpProtocol(0);
    /// ICMP.
    pub const ICMP: IpProtocol = IpProtocol(1);
    /// IGMP.
    pub const IGMP: IpProtocol = IpProtocol(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP.
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP.
    pub const UDP: IpProtocol = IpProtocol(17);
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// IPv6 routing header.
    pub const ROUTING: IpProtocol = IpProtocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: IpProtocol = IpProtocol(44);
    /// GRE.
    pub const GRE: IpProtocol = IpProtocol(47);
    /// Authentication header.
    pub const AUTH: IpProtocol = IpProtocol(51);
    /// ICMPv6.
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// Nothing follows (IPv6).
    pub const NO_NEXT: IpProtocol = IpProtocol(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: IpProtocol = IpProtocol(60);
    /// SCTP.
    pub const SCTP: IpProtocol = IpProtocol(132);
    /// MPLS in IP (RFC 4023).
    pub const MPLS: IpProtocol = IpProtocol(137);
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A port of TCP, UDP or SCTP, host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    /// GTP-U (3GPP TS 29.281).
    pub const GTP_U: Port = Port(2152);
    /// VXLAN (RFC 7348).
    pub const VXLAN: Port = Port(4789);
    /// Geneve (RFC 8926).
    pub const GENEVE: Port = Port(6081);
    /// MPLS in UDP (RFC 7510).
    pub const MPLS: Port = Port(6635);
    /// VXLAN as Linux had it before the port was assigned.
    pub const VXLAN_LINUX: Port = Port(8472);
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 48-bit IEEE 802 address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddr {
    type Err = String;

    /// Six bytes in hexadecimal, between colons or hyphens.
    fn from_str(text: &str) -> Result<MacAddr, String> {
        let byte = |part: &str| match part.len() {
            1 | 2 if part.bytes().all(|b| b.is_ascii_hexdigit()) => {
                u8::from_str_radix(part, 16).ok()
            }
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.split([':', '-']).take(7).map(byte).collect();
        let address = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        address.map(MacAddr).ok_or_else(|| {
            format!("{text:?} is no hardware address: write six bytes, as 02:00:00:00:00:01")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_read() {
        let address = MacAddr([2, 0, 0xab, 0, 0, 1]);
        for text in [address.to_string().as_str(), "2:0:AB:0:0:1", "02-00-ab-00-00-01"] {
            assert_eq!(text.parse(), Ok(address), "{text}");
        }
        for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "g:0:0:0:0:0", "+2:0:0:0:0:0"] {
            assert!(wrong.parse::<MacAddr>().is_err(), "{wrong}");
        }
    }
}
