//! What flows need of a frame.

mod fragments;
mod icmp;

use crate::key::Around;
use crate::{Application, Key, NoFlow};
use fragments::Fragments;
pub use icmp::is_question;
use ringside_core::{FrameMeta, LinkType, Timestamp};
use ringside_inspect::frame::ip_bytes as ip_bytes_of;
use ringside_inspect::{DissectedFrame, Received};
use ringside_wire::{
    EtherType, Ethernet, FlowKey, Fragment, IpProtocol, Ipv4, Ipv6, Isl, Layer, LayerKind, Level,
    Mpls, Port, Stop, Tcp, TunnelId, Udp,
};

/// A packet of a flow: the innermost IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its flow.
    pub key: Key,
    /// True if the key's higher endpoint sent it.
    pub from_high: bool,
    /// True if it is known to be a question: a message of ICMP that has an answer.
    pub is_question: bool,
    /// When it was received; 0 if that is unknown.
    pub stamp: Timestamp,
    /// Octets of the frame on the wire.
    pub wire_bytes: u32,
    /// Octets of the IP packet.
    pub ip_bytes: u32,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Label at the top of the MPLS stack.
    pub mpls_label: Option<u32>,
    /// What its TCP header says.
    pub segment: Option<Segment>,
}

/// What flows need of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub sequence: u32,
    /// Flags, as in [`Tcp::flags`].
    pub flags: u16,
    /// Window, not scaled.
    pub window: u16,
    /// Bytes behind the header, also if they were not captured.
    pub payload_bytes: u32,
}

/// Reads packets of frames. It remembers the ports of fragmented packets.
#[derive(Debug)]
pub struct PacketReader {
    fragments: Fragments,
}

/// What an IP header says.
struct Network {
    /// Octets of the packet, header included.
    bytes: u32,
    tos: u8,
    fragment_id: u32,
}

impl PacketReader {
    /// Bytes that a reader takes.
    pub const BYTES: usize = Fragments::BYTES;

    /// One that has seen nothing.
    pub fn new() -> PacketReader {
        PacketReader { fragments: Fragments::new() }
    }

    /// The packet of a frame.
    ///
    /// # Errors
    /// It carries no IP header that can be read.
    #[inline]
    pub fn read(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Result<Packet, NoFlow> {
        match plain(frame.bytes(), received.meta, frame.link()) {
            Some(packet) => Ok(packet),
            None => self.dissected(frame, received),
        }
    }

    /// Fragments whose first was not seen.
    pub fn fragments_without_ports(&self) -> u64 {
        self.fragments.without_ports
    }

    fn dissected(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Result<Packet, NoFlow> {
        let (bytes, layers) = (frame.bytes(), frame.layers());
        let (level, stamp) = (Level::Inner, received.meta.timestamp);
        let tuple = frame.tuple(level).ok_or_else(|| no_flow(layers.stop()))?;
        let network = network(frame, level).ok_or(NoFlow::Unreadable)?;
        let transport = layers.transport(level);
        let around = Around {
            protocol: tuple.protocol,
            vlan: FlowKey::vlan_of(bytes, layers, level),
            tunnel: TunnelId::around(bytes, layers, level),
            interface: received.meta.interface,
        };
        let message = transport.and_then(|layer| icmp::message(frame.from(layer), layer.kind));
        let ports = match message {
            Some(message) => Some((message.kind.into(), message.other.into())),
            None => tuple.ports.map(|(from, to)| (from.0, to.0)),
        };
        let fragment = fragments::Id {
            source: tuple.source,
            destination: tuple.destination,
            around,
            id: fragment_id(frame).unwrap_or(network.fragment_id),
        };
        let (ports, is_one_way) = match layers.fragment(level) {
            Fragment::No => (ports, message.is_some_and(|message| message.is_one_way)),
            Fragment::First => {
                let is_one_way = message.is_some_and(|message| message.is_one_way);
                self.fragments.remember(fragment, stamp, ports.map(|ports| (ports, is_one_way)));
                (ports, is_one_way)
            }
            Fragment::Later => match self.fragments.recall(fragment, stamp) {
                Some((ports, is_one_way)) => (Some(ports), is_one_way),
                None => (None, false),
            },
        };
        let (from, to) = ports.unwrap_or_default();
        let ends = ((tuple.source, from), (tuple.destination, to));
        let (key, from_high) = Key::new(ends.0, ends.1, &around, is_one_way);
        let segment = transport.filter(|layer| layer.kind == LayerKind::Tcp).and_then(|layer| {
            let start = layers.network(level).map_or(0, Layer::start);
            let after = (start + network.bytes as usize).saturating_sub(layer.start());
            Tcp::new(frame.from(layer)).ok().map(|tcp| Segment::of(&tcp, after))
        });
        Ok(Packet {
            key,
            from_high,
            is_question: message.is_some_and(|message| message.is_question),
            stamp,
            wire_bytes: frame.wire_bytes(),
            ip_bytes: network.bytes,
            tos: network.tos,
            mpls_label: top_label(frame),
            segment,
        })
    }
}

impl Default for PacketReader {
    fn default() -> PacketReader {
        PacketReader::new()
    }
}

impl Segment {
    /// Of a header with `bytes` bytes from its start to the end of the packet.
    #[inline]
    fn of(tcp: &Tcp<'_>, bytes: usize) -> Segment {
        let payload_bytes = bytes.saturating_sub(tcp.header_bytes());
        Segment {
            sequence: tcp.sequence(),
            flags: tcp.flags(),
            window: tcp.window(),
            payload_bytes: u32::try_from(payload_bytes).unwrap_or(u32::MAX),
        }
    }
}

/// What a frame carries, by the message that begins in it.
pub fn application(frame: &DissectedFrame<'_>) -> Option<Application> {
    let level = Level::Inner;
    if frame.http(level).is_some() {
        Some(Application::Http)
    } else if frame.tls_name(level).is_some() {
        Some(Application::Tls)
    } else if frame.dns_name(level).is_some() {
        Some(Application::Dns)
    } else {
        frame.sip(level).map(|_| Application::Sip)
    }
}

/// Most packets: TCP or UDP right behind IP, that right behind Ethernet, nothing fragmented or
/// tunnelled. Costs a fraction of a dissection and gives what that gives; `None` for all others.
/// Nothing is remembered of such a packet.
#[inline]
pub(crate) fn plain(frame: &[u8], meta: &FrameMeta, link: LinkType) -> Option<Packet> {
    if link != LinkType::ETHERNET || Isl::is_isl(frame) {
        return None;
    }
    let ethernet = Ethernet::new(frame).ok()?;
    let wire_bytes = meta.wire_bytes;
    let after_ethernet = wire_bytes.saturating_sub(Ethernet::BYTES as u32);
    let (is_v6, addresses, protocol, tos): (bool, [u128; 2], IpProtocol, u8);
    let (ip_bytes, header_bytes, payload): (u32, usize, &[u8]);
    match ethernet.ether_type()? {
        EtherType::IPV4 => {
            let ip = Ipv4::new(ethernet.payload()).ok()?;
            if ip.fragment() != Fragment::No {
                return None;
            }
            ip_bytes = ip_bytes_of(ip.total_length().into(), after_ethernet);
            (header_bytes, payload) = (ip.header_bytes(), ip.payload());
            let [from, to] = [ip.source().to_bits(), ip.destination().to_bits()];
            (is_v6, addresses) = (false, [from.into(), to.into()]);
            (protocol, tos) = (ip.protocol(), ip.tos());
        }
        EtherType::IPV6 => {
            let ip = Ipv6::new(ethernet.payload()).ok()?;
            let bytes = ip.payload_length().map_or(0, |bytes| bytes + Ipv6::BYTES);
            ip_bytes = ip_bytes_of(bytes, after_ethernet);
            (header_bytes, payload) = (Ipv6::BYTES, ip.payload());
            (is_v6, addresses) = (true, [ip.source().to_bits(), ip.destination().to_bits()]);
            (protocol, tos) = (ip.next_header(), ip.traffic_class());
        }
        _ => return None,
    }
    let (from, to, segment) = match protocol {
        IpProtocol::TCP => {
            let tcp = Tcp::new(payload).ok()?;
            let segment = Segment::of(&tcp, (ip_bytes as usize).saturating_sub(header_bytes));
            (tcp.source(), tcp.destination(), Some(segment))
        }
        IpProtocol::UDP => {
            let udp = Udp::new(payload).ok()?;
            (udp.source(), udp.destination(), None)
        }
        _ => return None,
    };
    if segment.is_none() && is_tunnel(from, to) {
        return None;
    }
    let interface = meta.interface;
    let around = Around { protocol, vlan: None, tunnel: None, interface };
    let (from, to) = ((addresses[0], from.0), (addresses[1], to.0));
    let (key, from_high) = Key::of_bits(from, to, is_v6, &around, false);
    let stamp = meta.timestamp;
    let (is_question, mpls_label) = (false, None);
    Some(Packet {
        key,
        from_high,
        is_question,
        stamp,
        wire_bytes,
        ip_bytes,
        tos,
        mpls_label,
        segment,
    })
}

/// UDP between these ports may carry headers: as [`dissect`](ringside_wire::dissect()) has it.
#[inline]
fn is_tunnel(from: Port, to: Port) -> bool {
    matches!(to, Port::VXLAN | Port::VXLAN_LINUX | Port::GENEVE | Port::MPLS | Port::GTP_U)
        || from == Port::GTP_U
}

fn network(frame: &DissectedFrame<'_>, level: Level) -> Option<Network> {
    let layer = frame.layers().network(level)?;
    let (here, bytes) = (frame.from(layer), frame.ip_bytes(level)?);
    match layer.kind {
        LayerKind::Ipv4 => {
            let ip = Ipv4::new(here).ok()?;
            Some(Network { bytes, tos: ip.tos(), fragment_id: ip.id().into() })
        }
        LayerKind::Ipv6 => {
            let ip = Ipv6::new(here).ok()?;
            Some(Network { bytes, tos: ip.traffic_class(), fragment_id: 0 })
        }
        _ => None,
    }
}

/// Identification in the innermost fragment header of IPv6.
fn fragment_id(frame: &DissectedFrame<'_>) -> Option<u32> {
    let layer = frame.layers().iter().rev().find(|layer| layer.kind == LayerKind::Fragment)?;
    ringside_wire::Ipv6Fragment::new(frame.from(layer)).ok().map(|header| header.id())
}

fn top_label(frame: &DissectedFrame<'_>) -> Option<u32> {
    let layer = frame.layers().find(LayerKind::Mpls)?;
    Mpls::new(frame.from(layer)).ok()?.labels().next().map(|label| label.value())
}

/// Why there is no IP header.
fn no_flow(stop: Stop) -> NoFlow {
    match stop {
        Stop::Truncated(kind) | Stop::Malformed(kind) if kind != LayerKind::Arp => {
            NoFlow::Unreadable
        }
        Stop::DepthLimit => NoFlow::Unreadable,
        _ => NoFlow::NotIp,
    }
}

#[cfg(test)]
mod tests;
