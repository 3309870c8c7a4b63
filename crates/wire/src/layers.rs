//! What a dissection found: kinds, offsets and lengths of headers, and why it ended.

use std::fmt;
use std::ops::Range;

/// Headers of one frame that are followed. VXLAN three deep takes 15; a frame with more is made to
/// cost time.
pub const LAYERS_MAX: usize = 20;

/// Tunnels within each other that are followed: IP headers of one frame, less one. Real networks
/// stack two, mirrored tunnels three.
pub const TUNNELS_MAX: usize = 4;

/// Kind of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // each is the name of its protocol, spelled out by `name`
pub enum LayerKind {
    #[default]
    Ethernet,
    Vlan,
    QinQ,
    Isl,
    VnTag,
    Cmd,
    Llc,
    Snap,
    Mpls,
    /// Control word of a pseudowire (RFC 4385).
    ControlWord,
    Pppoe,
    Ppp,
    Null,
    Sll,
    Sll2,
    Chdlc,
    Radiotap,
    Ieee80211,
    FrameRelay,
    Nflog,
    Fddi,
    Dsa,
    Arp,
    Ipv4,
    Ipv6,
    HopByHop,
    Routing,
    Fragment,
    DestinationOptions,
    Auth,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Igmp,
    Gre,
    Erspan,
    Vxlan,
    Geneve,
    GtpU,
}

impl LayerKind {
    /// Short name, as it stands in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Ethernet => "ethernet",
            LayerKind::Vlan => "vlan",
            LayerKind::QinQ => "qinq",
            LayerKind::Isl => "isl",
            LayerKind::VnTag => "vntag",
            LayerKind::Cmd => "cmd",
            LayerKind::Llc => "llc",
            LayerKind::Snap => "snap",
            LayerKind::Mpls => "mpls",
            LayerKind::ControlWord => "control_word",
            LayerKind::Pppoe => "pppoe",
            LayerKind::Ppp => "ppp",
            LayerKind::Null => "null",
            LayerKind::Sll => "sll",
            LayerKind::Sll2 => "sll2",
            LayerKind::Chdlc => "chdlc",
            LayerKind::Radiotap => "radiotap",
            LayerKind::Ieee80211 => "ieee80211",
            LayerKind::FrameRelay => "frame_relay",
            LayerKind::Nflog => "nflog",
            LayerKind::Fddi => "fddi",
            LayerKind::Dsa => "dsa",
            LayerKind::Arp => "arp",
            LayerKind::Ipv4 => "ipv4",
            LayerKind::Ipv6 => "ipv6",
            LayerKind::HopByHop => "ipv6_hop_by_hop",
            LayerKind::Routing => "ipv6_routing",
            LayerKind::Fragment => "ipv6_fragment",
            LayerKind::DestinationOptions => "ipv6_destination",
            LayerKind::Auth => "ah",
            LayerKind::Tcp => "tcp",
            LayerKind::Udp => "udp",
            LayerKind::Sctp => "sctp",
            LayerKind::Icmp => "icmp",
            LayerKind::Icmpv6 => "icmpv6",
            LayerKind::Igmp => "igmp",
            LayerKind::Gre => "gre",
            LayerKind::Erspan => "erspan",
            LayerKind::Vxlan => "vxlan",
            LayerKind::Geneve => "geneve",
            LayerKind::GtpU => "gtp_u",
        }
    }

    /// True for IPv4, IPv6 and ARP.
    #[inline]
    pub fn is_network(self) -> bool {
        matches!(self, LayerKind::Ipv4 | LayerKind::Ipv6 | LayerKind::Arp)
    }

    /// True for what IP carries and ends a dissection, or holds ports: TCP, UDP, SCTP, ICMP, IGMP.
    #[inline]
    pub fn is_transport(self) -> bool {
        use LayerKind::{Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp};
        matches!(self, Tcp | Udp | Sctp | Icmp | Icmpv6 | Igmp)
    }

    /// True for headers with an identifier of a tunnel.
    #[inline]
    pub fn is_tunnel(self) -> bool {
        use LayerKind::{Erspan, Geneve, Gre, GtpU, Vxlan};
        matches!(self, Gre | Erspan | Vxlan | Geneve | GtpU)
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Kind.
    pub kind: LayerKind,
    /// Bytes of the header, options and extensions included.
    pub header_bytes: u16,
    /// Where it begins in the frame.
    pub offset: u32,
}

impl Layer {
    /// Where it begins, as an index.
    #[inline]
    pub fn start(self) -> usize {
        self.offset as usize
    }

    /// Where the next header begins.
    #[inline]
    pub fn end(self) -> usize {
        self.offset as usize + usize::from(self.header_bytes)
    }
}

/// Whether an IP packet is a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// It is whole.
    #[default]
    No,
    /// The first: it holds the transport header, or its beginning.
    First,
    /// A later one: it has no transport header.
    Later,
}

impl Fragment {
    pub(crate) fn of(offset_bytes: u32, more: bool) -> Fragment {
        match (offset_bytes, more) {
            (0, false) => Fragment::No,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }
}

/// Why a dissection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// All headers that this crate knows were read; what follows is payload.
    #[default]
    Complete,
    /// A later fragment: what follows the IP headers is the middle of something.
    LaterFragment,
    /// The captured bytes end within this header.
    Truncated(LayerKind),
    /// This header contradicts itself, or the length of the one around it.
    Malformed(LayerKind),
    /// More than [`LAYERS_MAX`] headers or [`TUNNELS_MAX`] tunnels.
    DepthLimit,
    /// The last layer names a protocol that this crate does not know.
    Unknown {
        /// The number, in the name space of the last layer (EtherType, IP protocol, PPP protocol,
        /// service access point, version nibble).
        protocol: u16,
    },
    /// A link type that this crate does not know.
    UnknownLink,
}

impl Stop {
    /// Short name, as it stands in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Complete => "complete",
            Stop::LaterFragment => "later_fragment",
            Stop::Truncated(_) => "truncated",
            Stop::Malformed(_) => "malformed",
            Stop::DepthLimit => "depth_limit",
            Stop::Unknown { .. } => "unknown_protocol",
            Stop::UnknownLink => "unknown_link_type",
        }
    }
}

/// Which IP header of a tunnelled packet is meant; without a tunnel both are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// The first IP header.
    #[default]
    Outer,
    /// The last IP header.
    Inner,
}

const NONE: u8 = u8::MAX;

/// The network layer of one level and what belongs to it.
#[derive(Clone, Copy, Debug)]
struct Found {
    network: u8,
    transport: u8,
    fragment: Fragment,
    /// Where the datagram ends whose header was read, also if headers follow.
    datagram_end: u32,
}

const NOTHING: Found =
    Found { network: NONE, transport: NONE, fragment: Fragment::No, datagram_end: 0 };

/// The headers of a frame, outermost first. Offsets only: it does not borrow the frame.
#[derive(Clone, Copy)]
pub struct Layers {
    layers: [Layer; LAYERS_MAX],
    count: u8,
    networks: u8,
    outer: Found,
    inner: Found,
    payload_offset: u32,
    payload_end: u32,
    stop: Stop,
}

impl Layers {
    pub(crate) fn empty() -> Layers {
        Layers {
            layers: [Layer::default(); LAYERS_MAX],
            count: 0,
            networks: 0,
            outer: NOTHING,
            inner: NOTHING,
            payload_offset: 0,
            payload_end: 0,
            stop: Stop::Complete,
        }
    }

    /// Adds a header; `Err` at a limit.
    #[inline]
    pub(crate) fn push(&mut self, layer: Layer) -> Result<(), Stop> {
        let index = self.count;
        if layer.kind.is_network() && usize::from(self.networks) > TUNNELS_MAX {
            return Err(Stop::DepthLimit);
        }
        let slot = self.layers.get_mut(usize::from(index)).ok_or(Stop::DepthLimit)?;
        *slot = layer;
        self.count += 1;
        if layer.kind.is_network() {
            self.inner = Found { network: index, ..NOTHING };
            self.networks += 1;
        } else if layer.kind.is_transport() && self.inner.transport == NONE {
            self.inner.transport = index;
        } else {
            return Ok(());
        }
        if self.networks <= 1 {
            self.outer = self.inner;
        }
        Ok(())
    }

    pub(crate) fn set_fragment(&mut self, fragment: Fragment) {
        self.inner.fragment = fragment;
        if self.networks <= 1 {
            self.outer.fragment = fragment;
        }
    }

    /// The UDP header just added has its datagram end there.
    #[inline]
    pub(crate) fn set_datagram_end(&mut self, end: usize) {
        // The dissector clamps it to 32 bits.
        self.inner.datagram_end = end as u32;
        if self.networks <= 1 {
            self.outer.datagram_end = self.inner.datagram_end;
        }
    }

    pub(crate) fn finish(&mut self, stop: Stop, payload_offset: usize, payload_end: usize) {
        self.stop = stop;
        // The dissector clamps both to 32 bits.
        self.payload_offset = payload_offset as u32;
        self.payload_end = payload_end as u32;
    }

    /// The headers, outermost first.
    #[inline]
    pub fn as_slice(&self) -> &[Layer] {
        self.layers.get(..usize::from(self.count)).unwrap_or(&self.layers)
    }

    /// The headers, outermost first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Layer> + '_ {
        self.as_slice().iter().copied()
    }

    /// The first header of `kind`.
    pub fn find(&self, kind: LayerKind) -> Option<Layer> {
        self.iter().find(|layer| layer.kind == kind)
    }

    /// The last header.
    pub fn last(&self) -> Option<Layer> {
        self.as_slice().last().copied()
    }

    /// Why the dissection ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// The network header (IPv4, IPv6, ARP) of a level.
    #[inline]
    pub fn network(&self, level: Level) -> Option<Layer> {
        self.at(self.found(level).network)
    }

    /// The transport header of a level: `None` if that IP header carries another IP header
    /// directly, a later fragment, or something cut or unknown.
    #[inline]
    pub fn transport(&self, level: Level) -> Option<Layer> {
        self.at(self.found(level).transport)
    }

    /// Whether the IP packet of a level is a fragment.
    pub fn fragment(&self, level: Level) -> Fragment {
        self.found(level).fragment
    }

    /// True if there is more than one network header.
    pub fn is_tunnelled(&self) -> bool {
        self.networks > 1
    }

    /// The headers between the network header of a level and the one before it, nearest first:
    /// its link layer and its tunnel.
    pub(crate) fn before_network(&self, level: Level) -> impl Iterator<Item = Layer> + '_ {
        let end = match self.found(level).network {
            NONE => 0,
            index => usize::from(index),
        };
        let before = self.layers.get(..end).unwrap_or(&[]);
        before.iter().rev().copied().take_while(|layer| !layer.kind.is_network())
    }

    /// The headers after the network header of a level.
    pub(crate) fn after_network(&self, level: Level) -> &[Layer] {
        let from = usize::from(self.found(level).network).saturating_add(1);
        self.as_slice().get(from..).unwrap_or(&[])
    }

    /// What follows the last header, without padding behind a header's length, within the
    /// captured bytes.
    pub fn payload(&self) -> Range<usize> {
        self.payload_offset as usize..self.payload_end as usize
    }

    /// What follows the transport header of a level, headers of a tunnel included; without padding
    /// behind a header's length, within the captured bytes.
    pub fn transport_payload(&self, level: Level) -> Option<Range<usize>> {
        let transport = self.transport(level)?;
        let end = match transport.kind {
            // Of all transport headers this one alone is followed by others.
            LayerKind::Udp => self.found(level).datagram_end as usize,
            _ => self.payload_end as usize,
        };
        Some(transport.end()..end)
    }

    /// Where the payload begins.
    pub fn payload_offset(&self) -> usize {
        self.payload_offset as usize
    }

    fn found(&self, level: Level) -> Found {
        match level {
            Level::Outer => self.outer,
            Level::Inner => self.inner,
        }
    }

    fn at(&self, index: u8) -> Option<Layer> {
        self.as_slice().get(usize::from(index)).copied()
    }
}

impl fmt::Debug for Layers {
    /// Kind, offset and length of each header, and why it ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for layer in self.iter() {
            write!(f, "{}@{}+{} ", layer.kind, layer.offset, layer.header_bytes)?;
        }
        write!(f, "{:?}", self.stop)
    }
}
