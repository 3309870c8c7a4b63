//! A frame with what was read of it so far.

mod application;

use application::Application;
use ringside_core::LinkType;
use ringside_proto::{Http1, Sip};
use ringside_wire::{FiveTuple, Ipv4, Ipv6, Layer, LayerKind, Layers, Level, dissect};
use std::cell::OnceCell;

/// A frame, dissected once for all its readers, when the first of them needs more than its
/// addresses and ports. Its application message is read and kept in the same way.
#[derive(Debug)]
pub struct DissectedFrame<'f> {
    bytes: &'f [u8],
    wire_bytes: u32,
    link: LinkType,
    layers: OnceCell<Layers>,
    outer: Facts<'f>,
    inner: Facts<'f>,
}

/// What was read so far of one level.
#[derive(Debug, Default)]
struct Facts<'f> {
    tuple: OnceCell<Option<FiveTuple>>,
    application: Application<'f>,
}

impl<'f> DissectedFrame<'f> {
    /// A frame that begins as `link` says: its captured bytes, and its length on the wire.
    #[inline]
    pub fn new(bytes: &'f [u8], wire_bytes: u32, link: LinkType) -> DissectedFrame<'f> {
        let (outer, inner) = (Facts::default(), Facts::default());
        DissectedFrame { bytes, wire_bytes, link, layers: OnceCell::new(), outer, inner }
    }

    /// The captured bytes.
    #[inline]
    pub fn bytes(&self) -> &'f [u8] {
        self.bytes
    }

    /// The frame's length on the wire, in bytes.
    #[inline]
    pub fn wire_bytes(&self) -> u32 {
        self.wire_bytes
    }

    /// How the frame begins.
    #[inline]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The headers, dissected by the first call.
    #[inline]
    pub fn layers(&self) -> &Layers {
        self.layers.get_or_init(|| dissect(self.bytes, self.link))
    }

    /// What the IP header of a level and the transport header behind it say. ARP is not IP, and has
    /// none of it.
    #[inline]
    pub fn tuple(&self, level: Level) -> Option<FiveTuple> {
        let tuple = &self.facts(level).tuple;
        *tuple.get_or_init(|| {
            // Most frames need no more than this.
            let may_be_plain = level == Level::Outer && self.link == LinkType::ETHERNET;
            let plain = may_be_plain.then(|| FiveTuple::of_plain(self.bytes)).flatten();
            plain.or_else(|| FiveTuple::of(self.bytes, self.layers(), level))
        })
    }

    /// What follows the transport header of a level, as far as it was captured.
    pub fn payload(&self, level: Level) -> Option<&'f [u8]> {
        self.bytes.get(self.layers().transport_payload(level)?)
    }

    /// Octets of the IP packet of a level, its header included, as it was on the wire.
    pub fn ip_bytes(&self, level: Level) -> Option<u32> {
        let layer = self.layers().network(level)?;
        let on_wire = self.wire_bytes.saturating_sub(layer.offset);
        match layer.kind {
            LayerKind::Ipv4 => {
                let ip = Ipv4::new(self.from(layer)).ok()?;
                Some(ip_bytes(ip.total_length().into(), on_wire))
            }
            LayerKind::Ipv6 => {
                let ip = Ipv6::new(self.from(layer)).ok()?;
                let said = ip.payload_length().map_or(0, |bytes| bytes + Ipv6::BYTES);
                Some(ip_bytes(said, on_wire))
            }
            _ => None,
        }
    }

    /// The captured bytes from the start of a header on.
    pub fn from(&self, layer: Layer) -> &'f [u8] {
        self.bytes.get(layer.start()..).unwrap_or_default()
    }

    /// The headers of a level's link layer: those at the start of the frame, or those that the
    /// innermost tunnel carries before the innermost network header. Bridged Ethernet that lies
    /// within (a pseudowire, for one) is none of them.
    pub fn link_layers(&self, level: Level) -> &[Layer] {
        let all = self.layers().as_slice();
        let ends = |layer: &Layer| layer.kind.is_network() || layer.kind.is_tunnel();
        let found = match level {
            Level::Outer => all.get(..all.iter().position(ends).unwrap_or(all.len())),
            Level::Inner => {
                let is_network = |layer: &Layer| layer.kind.is_network();
                let before = all.iter().rposition(is_network).and_then(|end| all.get(..end));
                let before = before.unwrap_or_default();
                let carries = |layer: &Layer| ends(layer) || layer.kind.is_transport();
                before.get(before.iter().rposition(carries).map_or(0, |last| last + 1)..)
            }
        };
        let found = found.unwrap_or_default();
        let mut ethernets = (0..).zip(found).filter(|(_, l)| l.kind == LayerKind::Ethernet);
        let second = ethernets.nth(1).map_or(found.len(), |(index, _)| index);
        found.get(..second).unwrap_or_default()
    }

    /// The HTTP message that begins in the payload of a level.
    pub fn http(&self, level: Level) -> Option<Http1<'f>> {
        self.facts(level).application.http(self.message(level)?)
    }

    /// The SIP message that begins in the payload of a level.
    pub fn sip(&self, level: Level) -> Option<Sip<'f>> {
        self.facts(level).application.sip(self.message(level)?)
    }

    /// The name that a DNS message in the payload of a level asks for.
    pub fn dns_name(&self, level: Level) -> Option<&[u8]> {
        self.facts(level).application.dns_name(self.message(level)?)
    }

    /// The server's name in a ClientHello in the payload of a level.
    pub fn tls_name(&self, level: Level) -> Option<&[u8]> {
        self.facts(level).application.tls_name(self.message(level)?)
    }

    /// The payload of a level, and what carries it, if that carries application messages.
    fn message(&self, level: Level) -> Option<(&'f [u8], LayerKind)> {
        let carrier = self.layers().transport(level)?.kind;
        matches!(carrier, LayerKind::Tcp | LayerKind::Udp).then_some(())?;
        Some((self.payload(level)?, carrier))
    }

    fn facts(&self, level: Level) -> &Facts<'f> {
        match level {
            Level::Outer => &self.outer,
            Level::Inner => &self.inner,
        }
    }
}

/// What an IP header says its packet's length is; 0, of packets that the kernel or the card has
/// yet to cut, is whatever there was on the wire.
#[inline]
pub fn ip_bytes(said: usize, on_wire: u32) -> u32 {
    if said == 0 { on_wire } else { said as u32 }
}
