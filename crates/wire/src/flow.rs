//! Flow keys: one name for both directions of a conversation.

use crate::{
    EtherType, Ethernet, Fragment, Icmp, Icmpv6, IpProtocol, Ipv4, Ipv6, Ipv6Extension,
    Ipv6Fragment, Isl, Layer, LayerKind, Layers, Level, Port, Sctp, Tcp, TunnelId, Udp, Vlan,
};
use std::net::IpAddr;

/// What distinguishes conversations between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discriminator {
    /// Nothing: a protocol without ports, a later fragment, or a header that was not captured.
    None,
    /// Ports of TCP, UDP or SCTP.
    Ports {
        /// The port of `FlowKey::low`.
        low: Port,
        /// The port of `FlowKey::high`.
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
        let tuple = FiveTuple::of(bytes, layers, level)?;
        let FiveTuple { source, destination, protocol, ports } = tuple;
        let transport = layers.transport(level);
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
        let vlan = FlowKey::vlan_of(bytes, layers, level);
        let tunnel = TunnelId::around(bytes, layers, level);
        let key = FlowKey { low, high, protocol, discriminator, vlan, tunnel };
        let way = if is_forward { FlowDirection::LowToHigh } else { FlowDirection::HighToLow };
        Some((key, way))
    }

    /// Id of the VLAN tag nearest to the network header of a level, if there is one in the same
    /// link layer. `layers` comes from [`dissect`] over the same `bytes`.
    ///
    /// [`dissect`]: crate::dissect()
    pub fn vlan_of(bytes: &[u8], layers: &Layers, level: Level) -> Option<u16> {
        let in_link = layers.before_network(level).take_while(|layer| !layer.kind.is_tunnel());
        let mut tags = in_link.filter(|l| matches!(l.kind, LayerKind::Vlan | LayerKind::QinQ));
        let here = bytes.get(tags.next()?.start()..)?;
        Vlan::new(here).ok().map(|tag| tag.id())
    }
}

/// Sender, receiver and kind of a packet, from one IP header and the transport header behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version.
    pub destination: IpAddr,
    /// Protocol above IP and its extension headers. Behind one that is cut, the number of that one.
    pub protocol: IpProtocol,
    /// Source and destination port of TCP, UDP or SCTP. None in a later fragment, and where that
    /// header is cut or wrong.
    pub ports: Option<(Port, Port)>,
}

impl FiveTuple {
    /// What the IP header of a level says. `layers` comes from [`dissect`] over the same `bytes`.
    /// `None` if that network header is not IP, or there is none.
    ///
    /// [`dissect`]: crate::dissect()
    pub fn of(bytes: &[u8], layers: &Layers, level: Level) -> Option<FiveTuple> {
        let (source, destination, first) = addresses(bytes, layers.network(level)?)?;
        let protocol = upper_protocol(bytes, layers.after_network(level), first);
        let ports = layers.transport(level).and_then(|layer| ports(bytes, layer));
        Some(FiveTuple { source, destination, protocol, ports })
    }

    /// The outer five-tuple of what most Ethernet frames are: IPv4, whole, or IPv6 right behind the
    /// Ethernet header, and TCP or UDP right behind that. Costs a fraction of a dissection; what it
    /// returns is what [`of`](FiveTuple::of) does. `None` for all other frames, and broken ones:
    /// dissect them.
    #[inline]
    pub fn of_plain(bytes: &[u8]) -> Option<FiveTuple> {
        if Isl::is_isl(bytes) {
            return None;
        }
        let ethernet = Ethernet::new(bytes).ok()?;
        let (source, destination, protocol, payload): (IpAddr, IpAddr, IpProtocol, &[u8]);
        match ethernet.ether_type()? {
            EtherType::IPV4 => {
                let ip = Ipv4::new(ethernet.payload()).ok()?;
                if ip.fragment() != Fragment::No {
                    return None;
                }
                (source, destination) = (ip.source().into(), ip.destination().into());
                (protocol, payload) = (ip.protocol(), ip.payload());
            }
            EtherType::IPV6 => {
                let ip = Ipv6::new(ethernet.payload()).ok()?;
                (source, destination) = (ip.source().into(), ip.destination().into());
                (protocol, payload) = (ip.next_header(), ip.payload());
            }
            _ => return None,
        }
        let ports = match protocol {
            IpProtocol::TCP => Tcp::new(payload).ok().map(|tcp| (tcp.source(), tcp.destination())),
            IpProtocol::UDP => Udp::new(payload).ok().map(|udp| (udp.source(), udp.destination())),
            _ => None,
        };
        Some(FiveTuple { source, destination, protocol, ports: Some(ports?) })
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
