//! What calls need of a frame of UDP.

use crate::stream::Endpoint;
use ringside_inspect::DissectedFrame;
use ringside_wire::Level;

/// The innermost UDP datagram of a frame.
pub(crate) struct Datagram<'f> {
    pub source: Endpoint,
    pub destination: Endpoint,
    /// The payload, as far as it was captured, and its bytes on the wire.
    pub payload: &'f [u8],
    pub wire_bytes: usize,
}

impl<'f> Datagram<'f> {
    /// Of a frame that carries one.
    pub(crate) fn of(frame: &DissectedFrame<'f>) -> Option<Datagram<'f>> {
        let level = Level::Inner;
        let tuple = frame.tuple(level)?;
        let (from, to) = tuple.ports?;
        let payload = frame.payload(level)?;
        let missing = (frame.wire_bytes() as usize).saturating_sub(frame.bytes().len());
        Some(Datagram {
            source: (tuple.source, from.0),
            destination: (tuple.destination, to.0),
            payload,
            wire_bytes: payload.len() + missing,
        })
    }
}
