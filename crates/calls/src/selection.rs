//! The packets of one call among all others.

use crate::call::{Call, Transport};
use crate::stream::Endpoint;
use ringside_inspect::{DissectedFrame, Received};
use ringside_proto::sip;
use ringside_streams::Datagram;
use ringside_wire::{LayerKind, Level};
use std::collections::HashSet;

/// Which frames belong to a call that was found in the same stream of frames: its SIP messages, the
/// TCP connection of the first hop if that carried them, and RTP and RTCP between the endpoints of
/// its streams, from the first message on until the last packet of each. Fragments are none.
#[derive(Clone, Debug)]
pub struct Selection {
    call_id: Vec<u8>,
    connection: Option<(Endpoint, Endpoint)>,
    media: HashSet<(Endpoint, Endpoint)>,
    span_ns: (u64, u64),
}

impl Selection {
    /// Of a call.
    pub fn new(call: &Call) -> Selection {
        let dialog = call.dialog.as_ref();
        let over_tcp = dialog.filter(|dialog| dialog.transport == Transport::Tcp);
        let mut media = HashSet::new();
        for stream in &call.streams {
            let (from, to) = (stream.key.source, stream.key.destination);
            let next = |(address, port): Endpoint| (address, port.saturating_add(1));
            media.extend([(from, to), (to, from), (next(from), next(to)), (next(to), next(from))]);
        }
        let last_ns = call.streams.iter().map(|stream| stream.last_ns).max();
        let first_ns = call.first_ns().unwrap_or(0);
        let last_ns = last_ns.max(dialog.map(|dialog| dialog.last_ns)).unwrap_or(first_ns);
        Selection {
            call_id: dialog.map_or(Vec::new(), |dialog| dialog.call_id.clone().into_bytes()),
            connection: over_tcp.map(|dialog| (dialog.caller_at, dialog.callee_at)),
            media,
            span_ns: (first_ns, last_ns),
        }
    }

    /// True if a frame belongs to it.
    pub fn has(&self, frame: &DissectedFrame<'_>, received: &Received<'_>) -> bool {
        let stamp_ns = received.meta.timestamp.0;
        if frame.layers().transport(Level::Inner).is_some_and(|one| one.kind == LayerKind::Tcp) {
            return self.is_in_time(stamp_ns) && self.has_segment(frame);
        }
        let Some(datagram) = Datagram::of(frame, received) else { return false };
        if sip::looks_like(datagram.payload) {
            let found = sip::message(datagram.payload).found();
            return found.is_some_and(|one| one.start.call_id == Some(&self.call_id));
        }
        self.is_in_time(stamp_ns) && self.media.contains(&datagram.ends().into())
    }

    fn is_in_time(&self, stamp_ns: u64) -> bool {
        (self.span_ns.0..=self.span_ns.1).contains(&stamp_ns)
    }

    fn has_segment(&self, frame: &DissectedFrame<'_>) -> bool {
        let Some((caller, callee)) = self.connection else { return false };
        let Some(tuple) = frame.tuple(Level::Inner) else { return false };
        let Some((from, to)) = tuple.ports else { return false };
        let ends = ((tuple.source, from.0), (tuple.destination, to.0));
        ends == (caller, callee) || ends == (callee, caller)
    }
}
