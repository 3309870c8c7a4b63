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
    /// The segment in the innermost IP packet of a frame, if there is a whole one: no fragment, and
    /// none that says it is longer than what came, which hosts drop.
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
        let ip_bytes = frame.ip_bytes(level)?;
        if ip_bytes > frame.wire_bytes().saturating_sub(network.offset) {
            return None;
        }
        let payload_bytes = ip_bytes.saturating_sub(headers);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface};

    /// What a segment with five bytes of payload is whose IP header says that the packet is longer.
    fn payload_bytes(longer: u16, wire_bytes: u32) -> Option<u32> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((45 + longer).to_be_bytes());
        bytes.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 80, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 16, 255, 255, 0, 0, 0, 0]);
        bytes.extend(b"hello");
        let (meta, interface) = (FrameMeta::default(), SourceInterface::ethernet("eth1"));
        let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
        let frame = DissectedFrame::new(&bytes, wire_bytes, LinkType::RAW);
        Segment::of(&frame, &received).map(|segment| segment.payload_bytes)
    }

    #[test]
    fn a_packet_that_says_more_than_came_is_none() {
        assert_eq!(payload_bytes(0, 45), Some(5));
        assert_eq!(payload_bytes(3, 48), Some(8), "the snapshot length cut it");
        assert_eq!(payload_bytes(0, 60), Some(5), "padding");
        assert_eq!(payload_bytes(3, 45), None);
    }
}
