//! Addresses within one frame, and the checksums over them.

use super::AddressMap;
use ringside_core::LinkType;
use ringside_wire::checksum::{Sum, pseudo, update};
use ringside_wire::{
    Arp, EtherType, Gre, Icmp, IpProtocol, Layer, LayerKind, Layers, dissect, pseudo_addresses,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Where addresses begin in an ICMPv6 message: the target, and of a redirect the destination.
const TARGET_AT: usize = 8;
const DESTINATION_AT: usize = 24;
/// Redirect of neighbour discovery (RFC 4861, 4.5).
const ICMPV6_REDIRECT: u8 = 137;
/// Source quench and parameter problem, which quote a packet as the other errors do (RFC 792).
const ICMP_QUENCH: u8 = 4;
const ICMP_PARAMETER: u8 = 12;
/// Errors of ICMPv6 that quote a packet (RFC 4443, 2.1).
const ICMPV6_ERRORS: Range<u8> = 1..5;
/// A packet that an error quotes follows its first eight bytes, in both versions.
const QUOTE_AT: usize = 8;

/// Changes the addresses of a frame, and the checksums over them by the difference. True if there
/// was any. `scratch` gives memory.
pub(super) fn map(
    frame: &mut [u8],
    link: LinkType,
    map: &AddressMap,
    scratch: &mut Vec<u8>,
) -> bool {
    scratch.clear();
    scratch.extend_from_slice(frame);
    Edit { new: frame, old: scratch, map, changed_end: 0 }.packet(link, Quotes::Followed)
}

/// Whether a packet that an error quotes is looked into: no error answers an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Followed,
    Left,
}

/// A packet while it is changed.
struct Edit<'a> {
    new: &'a mut [u8],
    /// As it was, as long.
    old: &'a [u8],
    map: &'a AddressMap,
    /// Behind the last byte that was changed so far; 0 for none.
    changed_end: usize,
}

impl Edit<'_> {
    fn packet(&mut self, link: LinkType, quotes: Quotes) -> bool {
        let layers = dissect(self.old, link);
        for layer in layers.iter() {
            self.header(layer);
        }
        if quotes == Quotes::Followed
            && let Some(quote) = quoted(self.old, &layers)
        {
            self.quote(quote);
        }
        if self.changed_end == 0 {
            return false;
        }
        // From the innermost out: a checksum counts for those around it.
        for index in (0..layers.as_slice().len()).rev() {
            self.checksum(&layers, index);
        }
        true
    }

    /// The addresses of one header.
    fn header(&mut self, layer: Layer) {
        let start = layer.start();
        match layer.kind {
            LayerKind::Ipv4 => [12, 16].into_iter().for_each(|at| self.v4(start + at)),
            LayerKind::Ipv6 => [8, 24].into_iter().for_each(|at| self.v6(start + at)),
            LayerKind::Arp => self.arp(start),
            LayerKind::Routing => self.source_route(layer),
            LayerKind::Icmp if self.old.get(start) == Some(&Icmp::REDIRECT) => self.v4(start + 4),
            LayerKind::Icmpv6 => match self.old.get(start) {
                Some(135 | 136) => self.v6(start + TARGET_AT),
                Some(&ICMPV6_REDIRECT) => {
                    self.v6(start + TARGET_AT);
                    self.v6(start + DESTINATION_AT);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn arp(&mut self, start: usize) {
        let Some(Ok(arp)) = self.old.get(start..).map(Arp::new) else { return };
        if arp.protocol_type() == EtherType::IPV4 && arp.protocol_bytes() == 4 {
            let sender_at = start + 8 + arp.hardware_bytes();
            self.v4(sender_at);
            self.v4(sender_at + 4 + arp.hardware_bytes());
        }
    }

    /// The list of types 0 and 2 fills the header (RFC 2460, RFC 6275); that of type 4 says which
    /// entry is its last, and options may follow it (RFC 8754).
    fn source_route(&mut self, layer: Layer) {
        let entries_max = usize::from(layer.header_bytes).saturating_sub(8) / 16;
        let entries = match self.old.get(layer.start()..layer.end()) {
            Some([_, _, 0 | 2, ..]) => entries_max,
            Some([_, _, 4, _, last, ..]) => entries_max.min(usize::from(*last) + 1),
            _ => 0,
        };
        for entry in 0..entries {
            self.v6(layer.start() + 8 + 16 * entry);
        }
    }

    fn quote(&mut self, quote: Range<usize>) {
        let (Some(new), Some(old)) = (self.new.get_mut(quote.clone()), self.old.get(quote.clone()))
        else {
            return;
        };
        let mut inner = Edit { new, old, map: self.map, changed_end: 0 };
        if inner.packet(LinkType::RAW, Quotes::Left) {
            let end = inner.changed_end;
            self.changed(quote.start + end);
        }
    }

    fn v4(&mut self, at: usize) {
        let Some(bytes) = self.new.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<4>())
        else {
            return;
        };
        if let Some(address) = self.map.v4(Ipv4Addr::from(*bytes)) {
            *bytes = address.octets();
            self.changed(at + 4);
        }
    }

    fn v6(&mut self, at: usize) {
        let Some(bytes) = self.new.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<16>())
        else {
            return;
        };
        if let Some(address) = self.map.v6(Ipv6Addr::from(*bytes)) {
            *bytes = address.octets();
            self.changed(at + 16);
        }
    }

    fn changed(&mut self, end: usize) {
        self.changed_end = self.changed_end.max(end);
    }

    /// The checksum of one header, by what changed under it.
    fn checksum(&mut self, layers: &Layers, index: usize) {
        let layer = layers.as_slice()[index];
        let start = layer.start();
        // What a checksum covers beyond what changed makes no difference.
        let covered = start..self.changed_end.max(start);
        match layer.kind {
            LayerKind::Ipv4 => self.difference(start + 10, start..layer.end(), None),
            LayerKind::Icmp => self.difference(start + 2, covered, None),
            LayerKind::Icmpv6 => self.difference(start + 2, covered, envelope(layers, index)),
            LayerKind::Tcp => self.difference(start + 16, covered, envelope(layers, index)),
            LayerKind::Udp => {
                let at = start + 6;
                // No checksum is written as zero, and one of zero as its complement (RFC 768).
                if self.old.get(at..at + 2) != Some(&[0, 0]) {
                    self.difference(at, covered, envelope(layers, index));
                    if self.new.get(at..at + 2) == Some(&[0, 0]) {
                        self.new[at..at + 2].fill(0xff);
                    }
                }
            }
            LayerKind::Gre => {
                let gre = self.old.get(start..).map(Gre::new);
                if gre.and_then(Result::ok).and_then(|gre| gre.checksum()).is_some() {
                    self.difference(start + 4, covered, None);
                }
            }
            _ => {}
        }
    }

    /// Adds to the checksum at `at` what changed in `covered`, and in the pseudo header.
    fn difference(
        &mut self,
        at: usize,
        covered: Range<usize>,
        envelope: Option<(Layer, &[Layer])>,
    ) {
        let sum = |bytes: &[u8]| {
            let addresses =
                envelope.and_then(|(network, after)| pseudo_addresses(bytes, network, after));
            let sum = addresses.map_or(Sum::new(), |a| pseudo(a, IpProtocol(0), 0));
            Some(sum.bytes(bytes.get(covered.clone())?).folded())
        };
        let (Some(before), Some(after)) = (sum(self.old), sum(self.new)) else { return };
        let field = self.new.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<2>());
        let Some(field) = field.filter(|_| before != after) else { return };
        *field = update(u16::from_be_bytes(*field), before, after).to_be_bytes();
        self.changed(at + 2);
    }
}

/// The IP header around a transport header, and the headers behind it.
fn envelope(layers: &Layers, index: usize) -> Option<(Layer, &[Layer])> {
    let layers = layers.as_slice();
    let network = layers[..index].iter().rposition(|layer| layer.kind.is_network())?;
    Some((layers[network], &layers[network + 1..]))
}

/// Where the packet lies that an ICMP error quotes.
fn quoted(bytes: &[u8], layers: &Layers) -> Option<Range<usize>> {
    let icmp = layers.last()?;
    let kind = *bytes.get(icmp.start())?;
    let is_error = match icmp.kind {
        LayerKind::Icmp => matches!(
            kind,
            Icmp::UNREACHABLE | ICMP_QUENCH | Icmp::REDIRECT | Icmp::TIME_EXCEEDED | ICMP_PARAMETER
        ),
        LayerKind::Icmpv6 => ICMPV6_ERRORS.contains(&kind),
        _ => false,
    };
    let (begin, end) = (icmp.start() + QUOTE_AT, layers.payload().end);
    (is_error && begin < end).then_some(begin..end)
}
