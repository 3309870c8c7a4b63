//! What streams need of a frame.

use ringside_core::{InterfaceId, Timestamp};
use ringside_inspect::key::{Around, Key};
use ringside_inspect::{DissectedFrame, Received};
use ringside_wire::{FlowKey, Fragment, IpProtocol, LayerKind, Level, Tcp, TcpOption, TunnelId};

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'f> {
    /// Its connection.
    pub key: Key,
    /// True if the key's higher endpoint sent it.
    pub from_high: bool,
    /// When it was received; 0 if that is unknown.
    pub stamp: Timestamp,
    /// Sequence number of its first byte, or of its SYN.
    pub sequence: u32,
    /// What its sender has of the other side, if it says so.
    pub acknowledgment: Option<u32>,
    /// Flags, as in [`Tcp::flags`].
    pub flags: u16,
    /// Window as it stands, not scaled.
    pub window: u16,
    /// By how many bits windows of its sender are scaled: in a SYN.
    pub window_scale: Option<u8>,
    /// The payload, as far as it was captured.
    pub payload: &'f [u8],
    /// Bytes of the payload on the wire.
    pub payload_bytes: u32,
}

/// Where a packet was met, apart from its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Interface that received it.
    pub interface: InterfaceId,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Tunnel that carries the IP header.
    pub tunnel: Option<TunnelId>,
}

impl Place {
    /// Of the innermost IP header of a frame.
    pub fn of(frame: &DissectedFrame<'_>, received: &Received<'_>) -> Place {
        let (bytes, layers) = (frame.bytes(), frame.layers());
        Place {
            interface: received.meta.interface,
            vlan: FlowKey::vlan_of(bytes, layers, Level::Inner),
            tunnel: TunnelId::around(bytes, layers, Level::Inner),
        }
    }
}

impl<'f> Segment<'f> {
    /// The segment in the innermost IP packet of a frame, if there is a whole one: no fragment.
    #[inline]
    pub fn of(frame: &DissectedFrame<'f>, received: &Received<'_>) -> Option<Segment<'f>> {
        let layers = frame.layers();
        let transport = layers.transport(Level::Inner)?;
        if transport.kind != LayerKind::Tcp || layers.fragment(Level::Inner) != Fragment::No {
            return None;
        }
        Segment::read(frame, received.meta.timestamp, Place::of(frame, received))
    }

    /// The same, of a packet that was put together of fragments, which were met at `place`.
    pub fn read(frame: &DissectedFrame<'f>, stamp: Timestamp, place: Place) -> Option<Segment<'f>> {
        let (layers, level) = (frame.layers(), Level::Inner);
        let transport = layers.transport(level).filter(|layer| layer.kind == LayerKind::Tcp)?;
        let tuple = frame.tuple(level)?;
        let tcp = Tcp::new(frame.from(transport)).ok()?;
        let Place { interface, vlan, tunnel } = place;
        let around = Around { protocol: IpProtocol::TCP, vlan, tunnel, interface };
        let source = (tuple.source, tcp.source().0);
        let destination = (tuple.destination, tcp.destination().0);
        let (key, from_high) = Key::new(source, destination, &around, false);
        let is_syn = tcp.has(Tcp::SYN);
        let scale = |option| match option {
            TcpOption::WindowScale(bits) => Some(bits.min(14)),
            _ => None,
        };
        let network = layers.network(level)?;
        let headers = transport.end().saturating_sub(network.start()) as u32;
        let payload = frame.payload(level)?;
        let payload_bytes = frame.ip_bytes(level)?.saturating_sub(headers);
        Some(Segment {
            key,
            from_high,
            stamp,
            sequence: tcp.sequence(),
            acknowledgment: tcp.has(Tcp::ACK).then(|| tcp.acknowledgment()),
            flags: tcp.flags(),
            window: tcp.window(),
            window_scale: if is_syn { tcp.options().find_map(scale) } else { None },
            payload,
            payload_bytes: payload_bytes.max(payload.len() as u32),
        })
    }

    /// True if all of `flags` are set.
    #[inline]
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}
