//! Flow keys: one name for both directions of a conversation.

use crate::{
    Icmp, Icmpv6, IpProtocol, Ipv4, Ipv6, Ipv6Extension, Ipv6Fragment, Layer, LayerKind, Layers,
    Level, Port, Sctp, Tcp, TunnelId, Udp, Vlan,
};
use std::net::IpAddr;

/// What tells conversations between two hosts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discriminator {
    /// Nothing: a protocol without ports, a later fragment, or a header that was not captured.
    None,
    /// Ports of TCP, UDP or SCTP, each beside its address.
    Ports {
        /// Beside `FlowKey::low`.
        low: Port,
        /// Beside `FlowKey::high`.
        high: Port,
    },
    /// ICMP or ICMPv6. A reply has the type of its request.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier, for types that have one.
        id: Option<u16>,
    },
}

/// Names a conversation. Equal for both directions: the lower endpoint (address, then port) is
/// first. Two limits of the wire show: fragments after the first carry no ports, so their key has
/// none; and the identifiers of GTP-U and PPTP belong to the receiver, so that inside these the
/// two directions have different keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Lower address.
    pub low: IpAddr,
    /// Higher address.
    pub high: IpAddr,
    /// Protocol above IP and its extension headers.
    pub protocol: IpProtocol,
    /// Ports, or what stands for them.
    pub discriminator: Discriminator,
    /// Id of the VLAN tag nearest to the IP header, if there is one in the same link layer.
    pub vlan: Option<u16>,
    /// Tunnel that carries this IP header, if it has an identifier.
    pub tunnel: Option<TunnelId>,
}

/// Which way a frame goes within its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowDirection {
    /// From `FlowKey::low`. Also where both endpoints are equal.
    LowToHigh,
    /// From `FlowKey::high`.
    HighToLow,
}

impl FlowKey {
    /// The flow of a frame, by its outer or innermost IP header. `layers` comes from [`dissect`]
    /// over the same `bytes`. `None` if that network header is not IP, or there is none.
    ///
    /// [`dissect`]: crate::dissect()
    pub fn of(bytes: &[u8], layers: &Layers, level: Level) -> Option<(FlowKey, FlowDirection)> {
        let network = layers.network(level)?;
        let (source, destination, first) = addresses(bytes, network)?;
        let protocol = upper_protocol(bytes, layers.after_network(level), first);
        let transport = layers.transport(level);
        let ports = transport.and_then(|layer| ports(bytes, layer));
        let (from, to) = ports.unwrap_or_default();
        let is_forward = (source, from) <= (destination, to);
        let (low, high, low_port, high_port) = match is_forward {
            true => (source, destination, from, to),
            false => (destination, source, to, from),
        };
        let discriminator = match ports {
            Some(_) => Discriminator::Ports { low: low_port, high: high_port },
            None => transport.and_then(|layer| icmp(bytes, layer)).unwrap_or(Discriminator::None),
        };
        let vlan = vlan(bytes, layers, level);
        let tunnel = TunnelId::around(bytes, layers, level);
        let key = FlowKey { low, high, protocol, discriminator, vlan, tunnel };
        let way = if is_forward { FlowDirection::LowToHigh } else { FlowDirection::HighToLow };
        Some((key, way))
    }
}

fn addresses(bytes: &[u8], network: Layer) -> Option<(IpAddr, IpAddr, IpProtocol)> {
    let here = bytes.get(network.start()..)?;
    match network.kind {
        LayerKind::Ipv4 => {
            let ip = Ipv4::new(here).ok()?;
            Some((ip.source().into(), ip.destination().into(), ip.protocol()))
        }
        LayerKind::Ipv6 => {
            let ip = Ipv6::new(here).ok()?;
            Some((ip.source().into(), ip.destination().into(), ip.next_header()))
        }
        _ => None,
    }
}

/// The protocol after the extension headers among `layers`.
fn upper_protocol(bytes: &[u8], layers: &[Layer], first: IpProtocol) -> IpProtocol {
    let mut protocol = first;
    for layer in layers {
        let Some(here) = bytes.get(layer.start()..) else { break };
        let next = match layer.kind {
            LayerKind::Fragment => Ipv6Fragment::new(here).map(|view| view.next_header()),
            LayerKind::HopByHop
            | LayerKind::Routing
            | LayerKind::DestinationOptions
            | LayerKind::Auth => Ipv6Extension::new(here, layer.kind).map(|e| e.next_header()),
            _ => break,
        };
        protocol = next.unwrap_or(protocol);
    }
    protocol
}

fn ports(bytes: &[u8], layer: Layer) -> Option<(Port, Port)> {
    let here = bytes.get(layer.start()..)?;
    match layer.kind {
        LayerKind::Tcp => Tcp::new(here).ok().map(|tcp| (tcp.source(), tcp.destination())),
        LayerKind::Udp => Udp::new(here).ok().map(|udp| (udp.source(), udp.destination())),
        LayerKind::Sctp => Sctp::new(here).ok().map(|sctp| (sctp.source(), sctp.destination())),
        _ => None,
    }
}

fn icmp(bytes: &[u8], layer: Layer) -> Option<Discriminator> {
    let here = bytes.get(layer.start()..)?;
    let (kind, code, id) = match layer.kind {
        LayerKind::Icmp => {
            let icmp = Icmp::new(here).ok()?;
            let request = match icmp.kind() {
                Icmp::ECHO_REPLY => Icmp::ECHO,
                // Timestamp, information and address mask replies follow their requests;
                // advertisement (9) and solicitation (10) of routers are the other way round.
                reply @ (14 | 16 | 18) => reply - 1,
                9 => 10,
                other => other,
            };
            (request, icmp.code(), icmp.id())
        }
        LayerKind::Icmpv6 => {
            let icmp = Icmpv6::new(here).ok()?;
            let request = match icmp.kind() {
                // Echo, router and neighbour discovery, node information.
                reply @ (129 | 134 | 136 | 140) => reply - 1,
                other => other,
            };
            (request, icmp.code(), icmp.id())
        }
        _ => return None,
    };
    Some(Discriminator::Icmp { kind, code, id })
}

fn vlan(bytes: &[u8], layers: &Layers, level: Level) -> Option<u16> {
    let in_link = layers.before_network(level).take_while(|layer| !layer.kind.is_tunnel());
    let mut tags = in_link.filter(|l| matches!(l.kind, LayerKind::Vlan | LayerKind::QinQ));
    let here = bytes.get(tags.next()?.start()..)?;
    Vlan::new(here).ok().map(|tag| tag.id())
}
