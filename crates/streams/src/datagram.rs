//! What observers need of a UDP datagram.

use crate::Place;
use ringside_core::Timestamp;
use ringside_inspect::key::{Around, Key};
use ringside_inspect::{DissectedFrame, Received};
use ringside_wire::{Fragment, IpProtocol, LayerKind, Level, Udp};

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'f> {
    /// Between whom.
    pub key: Key,
    /// True if the key's higher endpoint sent it.
    pub from_high: bool,
    /// When it was received; 0 if that is unknown.
    pub stamp: Timestamp,
    /// The payload, as far as it was captured.
    pub payload: &'f [u8],
    /// Bytes of the payload on the wire.
    pub payload_bytes: u32,
}

impl<'f> Datagram<'f> {
    /// The datagram in the innermost IP packet of a frame, if there is one that is no fragment.
    #[inline]
    pub fn of(frame: &DissectedFrame<'f>, received: &Received<'_>) -> Option<Datagram<'f>> {
        let layers = frame.layers();
        let transport = layers.transport(Level::Inner)?;
        if transport.kind != LayerKind::Udp || layers.fragment(Level::Inner) != Fragment::No {
            return None;
        }
        Datagram::read(frame, received.meta.timestamp, Place::of(frame, received))
    }

    /// The same, of a packet that was put together of fragments, which were met at `place`.
    pub fn read(frame: &DissectedFrame<'f>, stamp: Timestamp, place: Place) -> Option<Self> {
        let (layers, level) = (frame.layers(), Level::Inner);
        let transport = layers.transport(level).filter(|layer| layer.kind == LayerKind::Udp)?;
        let tuple = frame.tuple(level)?;
        let udp = Udp::new(frame.from(transport)).ok()?;
        let Place { interface, vlan, tunnel } = place;
        let around = Around { protocol: IpProtocol::UDP, vlan, tunnel, interface };
        let source = (tuple.source, udp.source().0);
        let destination = (tuple.destination, udp.destination().0);
        let (key, from_high) = Key::new(source, destination, &around, false);
        let payload = frame.payload(level)?;
        let said = udp.payload_length().unwrap_or(payload.len()) as u32;
        let payload_bytes = said.max(payload.len() as u32);
        Some(Datagram { key, from_high, stamp, payload, payload_bytes })
    }

    /// Who sent it, and to whom.
    pub fn ends(&self) -> [(std::net::IpAddr, u16); 2] {
        match self.from_high {
            true => [self.key.high(), self.key.low()],
            false => [self.key.low(), self.key.high()],
        }
    }
}
