//! What a rule can ask of a frame, one term each.

use super::address_set::AddressSet;
use super::numbers::{HttpStatus, MplsLabel, VlanId};
use super::ranges::Ranges;
use super::sets::AddressFile;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port};
use std::net::IpAddr;
use std::sync::Arc;

/// A question about a frame. Lists are sorted and merged, texts in their normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// Every frame.
    Any,
    /// A tag of the outer stack, 802.1Q or 802.1ad, has one of these identifiers.
    Vlan(Ranges<VlanId>),
    /// An entry of the outer MPLS stack has one of these labels.
    Mpls(Ranges<MplsLabel>),
    /// A hardware address.
    Mac(Side, MacPattern),
    /// A type field of the outer link layer: Ethernet's own or one behind a tag.
    EtherType(Ranges<EtherType>),
    /// The version of the IP header.
    IpVersion(IpVersion),
    /// The protocol above IP and its extension headers.
    Protocol(Ranges<IpProtocol>),
    /// An IP address.
    Ip(Side, Addresses),
    /// A port of TCP, UDP or SCTP.
    Port(Side, Ranges<Port>),
    /// Flags of TCP.
    TcpFlags(FlagPattern),
    /// The frame's length on the wire, in bytes.
    WireBytes(Ranges<u32>),
    /// Bytes at an offset.
    Bytes(BytePattern),
    /// An expression of pcap-filter(7), not yet compiled; without NUL.
    Filter(Box<str>),
    /// Bytes anywhere in the payload, or at a place in it.
    Payload(PayloadPattern),
    /// A field of a protocol above transport is one of these texts, case included.
    Text(TextField, Box<[Box<str>]>),
    /// A host name in a protocol above transport is one of these.
    Host(HostField, Box<[HostPattern]>),
    /// The status of a reply in HTTP.
    HttpStatus(Ranges<HttpStatus>),
}

/// Which end of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// One of both, or both.
    Either,
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
}

impl Side {
    /// The side after source and destination were exchanged.
    pub fn exchanged(self) -> Side {
        match self {
            Side::Either => Side::Either,
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }
}

/// The hardware addresses `a` with `a & mask == address`. No bit of `address` lies outside `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacPattern {
    /// The bits that are compared.
    pub address: MacAddr,
    /// Which bits those are.
    pub mask: MacAddr,
}

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// IP addresses as a rule names them; never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Those that stand in the rule.
    pub listed: AddressSet,
    /// Address files, each named once, in order of path.
    pub files: Box<[Arc<AddressFile>]>,
}

impl Addresses {
    /// True if `address` is listed or in one of the files.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.listed.contains(address)
            || self.files.iter().any(|file| file.addresses.contains(address))
    }
}

/// Flags of TCP as bits, as they stand in the header's fourteenth byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

/// Flags of TCP that must be set, and flags that must not; no flag is in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlagPattern {
    /// All of these are set.
    pub set: TcpFlags,
    /// None of these is set.
    pub clear: TcpFlags,
}

/// Where the offset of a [`BytePattern`] counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BytesBase {
    /// The first byte of the frame.
    Frame,
    /// The first byte of the network header.
    Network,
    /// The first byte of the transport header.
    Transport,
    /// The first byte after the transport header.
    Payload,
}

/// Bytes `b` at `base + offset` with `b & mask == value`, byte by byte. Value and mask are equally
/// long, not empty, and no bit of the value lies outside the mask. A frame that ends before does
/// not match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BytePattern {
    /// Where counting begins.
    pub base: BytesBase,
    /// Bytes from there.
    pub offset: u32,
    /// What is expected.
    pub value: Box<[u8]>,
    /// Which bits are compared.
    pub mask: Box<[u8]>,
}

/// Bytes to be found in what follows the transport header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PayloadPattern {
    /// The bytes; not empty. ASCII letters are lower case if case is ignored.
    pub bytes: Box<[u8]>,
    /// True if ASCII letters of either case match.
    pub ignore_case: bool,
    /// The only place where they are looked for, in bytes from the payload's first; else anywhere.
    pub at: Option<u32>,
}

/// Fields that are compared exactly, case included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextField {
    /// Method of a request in HTTP.
    HttpMethod,
    /// Method of a request in SIP.
    SipMethod,
    /// The address in the From header of SIP.
    SipFrom,
    /// The address in the To header of SIP.
    SipTo,
    /// The host in a Via header of SIP.
    SipVia,
    /// Call-ID of SIP.
    SipCallId,
}

/// Fields that hold a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostField {
    /// Host header of HTTP, without the port.
    HttpHost,
    /// A name that is asked for in DNS.
    DnsQname,
    /// Server name in TLS.
    TlsSni,
}

/// A host name in lower case without a final dot, or all names below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// This name alone.
    Exact(Box<str>),
    /// Names that end in a dot and this name (`*.` in the text), at any depth; not the name itself.
    Below(Box<str>),
}
