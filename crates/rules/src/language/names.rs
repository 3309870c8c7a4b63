//! Names that stand for numbers, bits and fields. Each value has one name, so that a text can be
//! written back.

use super::term::{BytesBase, HostField, TcpFlags, TextField};
use ringside_wire::{EtherType, IpProtocol};

/// Names of EtherTypes, as tcpdump has them where it does.
pub const ETHER_TYPES: &[(&str, EtherType)] = &[
    ("ip", EtherType::IPV4),
    ("ip6", EtherType::IPV6),
    ("arp", EtherType::ARP),
    ("rarp", EtherType::RARP),
    ("vlan", EtherType::VLAN),
    ("qinq", EtherType::QINQ),
    ("mpls", EtherType::MPLS),
    ("pppoe", EtherType::PPPOE_SESSION),
    ("pppoed", EtherType::PPPOE_DISCOVERY),
    ("loopback", EtherType(0x9000)),
    ("lldp", EtherType(0x88cc)),
    ("eapol", EtherType(0x888e)),
    ("macsec", EtherType(0x88e5)),
    ("ptp", EtherType(0x88f7)),
];

/// Names of IP protocols (IANA).
pub const PROTOCOLS: &[(&str, IpProtocol)] = &[
    ("icmp", IpProtocol::ICMP),
    ("igmp", IpProtocol::IGMP),
    ("ipip", IpProtocol::IPV4),
    ("tcp", IpProtocol::TCP),
    ("udp", IpProtocol::UDP),
    ("ipv6", IpProtocol::IPV6),
    ("gre", IpProtocol::GRE),
    ("esp", IpProtocol(50)),
    ("ah", IpProtocol::AUTH),
    ("icmp6", IpProtocol::ICMPV6),
    ("ospf", IpProtocol(89)),
    ("pim", IpProtocol(103)),
    ("vrrp", IpProtocol(112)),
    ("sctp", IpProtocol::SCTP),
];

/// Protocols whose name alone is a match.
pub const SHORTHANDS: [&str; 7] = ["tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "gre"];

/// Flags of TCP.
pub const TCP_FLAGS: [(&str, TcpFlags); 8] = [
    ("fin", TcpFlags(0x01)),
    ("syn", TcpFlags(0x02)),
    ("rst", TcpFlags(0x04)),
    ("psh", TcpFlags(0x08)),
    ("ack", TcpFlags(0x10)),
    ("urg", TcpFlags(0x20)),
    ("ece", TcpFlags(0x40)),
    ("cwr", TcpFlags(0x80)),
];

/// Where `bytes` counts from.
pub const BASES: [(&str, BytesBase); 4] = [
    ("frame", BytesBase::Frame),
    ("net", BytesBase::Network),
    ("transport", BytesBase::Transport),
    ("payload", BytesBase::Payload),
];

/// Fields that are compared exactly, case included.
pub const TEXT_FIELDS: [(&str, TextField); 6] = [
    ("http.method", TextField::HttpMethod),
    ("sip.method", TextField::SipMethod),
    ("sip.from", TextField::SipFrom),
    ("sip.to", TextField::SipTo),
    ("sip.via", TextField::SipVia),
    ("sip.call_id", TextField::SipCallId),
];

/// Fields that hold a host name.
pub const HOST_FIELDS: [(&str, HostField); 3] = [
    ("http.host", HostField::HttpHost),
    ("dns.qname", HostField::DnsQname),
    ("tls.sni", HostField::TlsSni),
];

/// The value of a name.
pub fn value<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// The name of a value.
pub fn name<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> Option<&'static str> {
    table.iter().find(|(_, known)| known == value).map(|&(name, _)| name)
}

/// All names of a table.
pub fn names<T>(table: &[(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|&(name, _)| name)
}
