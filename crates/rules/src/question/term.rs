//! Terms about headers and bytes: each is false where the frame does not have what it asks about.

use super::{Asked, application};
use crate::language::{
    BytePattern, BytesBase, FlagPattern, HttpStatus, IpVersion, MacPattern, MplsLabel, Ranges,
    Side, Term, VlanId,
};
use ringside_inspect::DissectedFrame;
use ringside_wire::{
    Chdlc, Cmd, Dsa, EtherType, Ethernet, FrameRelay, Layer, LayerKind, Level, MacAddr, Mpls,
    RelayProtocol, Sll, Snap, Tcp, Vlan, VnTag,
};

/// True if the frame has what `term` asks about, and it is as asked.
pub(super) fn holds(term: &Term, dissected: &DissectedFrame<'_>, asked: Asked) -> bool {
    let level = asked.level;
    let tuple = || dissected.tuple(level);
    let sides = |side: Side| if asked.exchanged { side.exchanged() } else { side };
    match term {
        Term::Any => true,
        Term::Vlan(ids) => vlan(ids, dissected, level),
        Term::Mpls(labels) => mpls(labels, dissected, level),
        Term::Mac(side, pattern) => mac(sides(*side), pattern, dissected, level),
        Term::EtherType(types) => {
            let mut layers = dissected.link_layers(level).iter().zip(0..);
            layers.any(|(&l, at)| {
                ether_type(l, at == 0, dissected).is_some_and(|t| types.contains(t))
            })
        }
        Term::IpVersion(version) => {
            let kind = match version {
                IpVersion::V4 => LayerKind::Ipv4,
                IpVersion::V6 => LayerKind::Ipv6,
            };
            dissected.layers().network(level).is_some_and(|network| network.kind == kind)
        }
        Term::Protocol(protocols) => tuple().is_some_and(|t| protocols.contains(t.protocol)),
        Term::Ip(side, addresses) => tuple().is_some_and(|tuple| {
            either(sides(*side), (tuple.source, tuple.destination), |a| addresses.contains(a))
        }),
        Term::Port(side, ports) => tuple()
            .and_then(|tuple| tuple.ports)
            .is_some_and(|both| either(sides(*side), both, |port| ports.contains(port))),
        Term::TcpFlags(pattern) => tcp_flags(*pattern, dissected, level),
        Term::WireBytes(lengths) => lengths.contains(dissected.wire_bytes()),
        Term::Bytes(pattern) => bytes(pattern, dissected, level),
        Term::Text(field, texts) => application::text(*field, texts, dissected, level),
        Term::Host(field, patterns) => application::host(*field, patterns, dissected, level),
        Term::HttpStatus(statuses) => {
            let status = dissected.http(level).and_then(|http| http.status);
            status.is_some_and(|status| statuses.contains(HttpStatus(status)))
        }
        // Made ready beforehand: they are no terms of a question.
        Term::Filter(_) | Term::Payload(_) => false,
    }
}

/// True if `is_meant` holds for the asked side of (source, destination).
fn either<T: Copy>(side: Side, (from, to): (T, T), is_meant: impl Fn(T) -> bool) -> bool {
    match side {
        Side::Source => is_meant(from),
        Side::Destination => is_meant(to),
        Side::Either => is_meant(from) || is_meant(to),
    }
}

fn vlan(ids: &Ranges<VlanId>, dissected: &DissectedFrame<'_>, level: Level) -> bool {
    let mut tags = dissected
        .link_layers(level)
        .iter()
        .filter(|layer| matches!(layer.kind, LayerKind::Vlan | LayerKind::QinQ))
        .filter_map(|&layer| Vlan::new(dissected.from(layer)).ok());
    tags.any(|tag| ids.contains(VlanId(tag.id())))
}

fn mpls(labels: &Ranges<MplsLabel>, dissected: &DissectedFrame<'_>, level: Level) -> bool {
    let stack = dissected.link_layers(level).iter().find(|layer| layer.kind == LayerKind::Mpls);
    let stack = stack.and_then(|&layer| Mpls::new(dissected.from(layer)).ok());
    let is_meant = |stack: Mpls<'_>| stack.labels().any(|l| labels.contains(MplsLabel(l.value())));
    stack.is_some_and(is_meant)
}

fn mac(side: Side, pattern: &MacPattern, dissected: &DissectedFrame<'_>, level: Level) -> bool {
    let ethernet = dissected.link_layers(level).iter().find(|l| l.kind == LayerKind::Ethernet);
    let Some(ethernet) = ethernet.and_then(|&layer| Ethernet::new(dissected.from(layer)).ok())
    else {
        return false;
    };
    either(side, (ethernet.source(), ethernet.destination()), |MacAddr(address)| {
        let (mask, wanted) = (&pattern.mask.0, &pattern.address.0);
        is_masked(&address, mask, wanted)
    })
}

/// The type field of one header of a link layer. A length is none, nor are the small numbers of
/// Linux's own that a cooked header may have there.
fn ether_type(layer: Layer, is_first: bool, dissected: &DissectedFrame<'_>) -> Option<EtherType> {
    let here = dissected.from(layer);
    let found = match layer.kind {
        LayerKind::Ethernet => Ethernet::new(here).ok()?.ether_type()?,
        LayerKind::Vlan | LayerKind::QinQ => Vlan::new(here).ok()?.ether_type(),
        LayerKind::VnTag => VnTag::new(here).ok()?.ether_type(),
        // Nothing of a link layer is before it in GRE, and there it is written otherwise.
        LayerKind::Cmd if is_first => Cmd::new_in_gre(here).ok()?.ether_type(),
        LayerKind::Cmd => Cmd::new(here).ok()?.ether_type(),
        LayerKind::Snap => Snap::new(here).ok()?.ether_type()?,
        LayerKind::Sll => EtherType(Sll::new(here).ok()?.protocol()),
        LayerKind::Sll2 => EtherType(Sll::new_v2(here).ok()?.protocol()),
        LayerKind::Chdlc => Chdlc::new(here).ok()?.ether_type(),
        LayerKind::Dsa => {
            let is_extended = usize::from(layer.header_bytes) == Dsa::BYTES_EXTENDED;
            EtherType(Dsa::new(here, is_extended).ok()?.type_or_length())
        }
        LayerKind::FrameRelay => match FrameRelay::new(here).ok()?.protocol() {
            RelayProtocol::Type(ether_type) => ether_type,
            RelayProtocol::Nlpid(_) => return None,
        },
        _ => return None,
    };
    (found.0 > Ethernet::LENGTH_MAX).then_some(found)
}

fn tcp_flags(pattern: FlagPattern, dissected: &DissectedFrame<'_>, level: Level) -> bool {
    let transport = dissected.layers().transport(level);
    let tcp = transport.filter(|layer| layer.kind == LayerKind::Tcp);
    let Some(tcp) = tcp.and_then(|layer| Tcp::new(dissected.from(layer)).ok()) else {
        return false;
    };
    let (set, clear) = (u16::from(pattern.set.0), u16::from(pattern.clear.0));
    tcp.has(set) && tcp.flags() & clear == 0
}

fn bytes(pattern: &BytePattern, dissected: &DissectedFrame<'_>, level: Level) -> bool {
    let layers = dissected.layers();
    let base = match pattern.base {
        BytesBase::Frame => Some(0),
        BytesBase::Network => layers.network(level).map(Layer::start),
        BytesBase::Transport => layers.transport(level).map(Layer::start),
        BytesBase::Payload => layers.transport(level).map(Layer::end),
    };
    let start = base.zip(usize::try_from(pattern.offset).ok());
    let start = start.and_then(|(base, offset)| base.checked_add(offset));
    let here = start.and_then(|start| dissected.bytes().get(start..));
    let here = here.and_then(|rest| rest.get(..pattern.value.len()));
    here.is_some_and(|here| is_masked(here, &pattern.mask, &pattern.value))
}

/// True if `bytes & mask` is `wanted`, all of one length.
fn is_masked(bytes: &[u8], mask: &[u8], wanted: &[u8]) -> bool {
    bytes.iter().zip(mask).zip(wanted).all(|((byte, mask), wanted)| byte & mask == *wanted)
}
