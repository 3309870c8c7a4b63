//! From frames to what TCP and UDP carry, whole packets and fragments alike.

use crate::{
    Datagram, Defragmenter, FragmentLedger, Handler, Limits, Segment, StreamLedger, Streams,
};
use ringside_core::{LinkType, Timestamp};
use ringside_inspect::{DissectedFrame, Received};

/// What a frame carried, or the packet that it was the last fragment of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// A segment of TCP.
    Segment,
    /// A datagram of UDP; only for handlers that want those.
    Datagram,
    /// Something else, or a fragment behind which others are missing.
    Other,
}

/// Follows connections, and puts fragments together.
#[derive(Debug)]
pub struct Transport<C> {
    streams: Streams<C>,
    fragments: Defragmenter,
}

impl<C: Default> Transport<C> {
    /// Within these limits.
    pub fn new(limits: Limits) -> Transport<C> {
        Transport { streams: Streams::new(limits), fragments: Defragmenter::new() }
    }

    /// The account of the streams.
    pub fn streams(&self) -> &StreamLedger {
        self.streams.ledger()
    }

    /// The account of fragments.
    pub fn fragments(&self) -> &FragmentLedger {
        self.fragments.ledger()
    }

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.streams.connections()
    }

    /// Takes a frame in.
    #[inline]
    pub fn take_in<H: Handler<Kept = C>>(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
        handler: &mut H,
    ) -> Carried {
        if let Some(segment) = Segment::of(frame, received) {
            self.streams.take_in(&segment, handler);
            return Carried::Segment;
        }
        if Defragmenter::is_fragment(frame) {
            return self.fragment(frame, received, handler);
        }
        if !H::TAKES_DATAGRAMS {
            return Carried::Other;
        }
        match Datagram::of(frame, received) {
            Some(datagram) => {
                handler.datagram(&datagram);
                Carried::Datagram
            }
            None => Carried::Other,
        }
    }

    #[cold]
    fn fragment<H: Handler<Kept = C>>(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
        handler: &mut H,
    ) -> Carried {
        let Some((packet, place)) = self.fragments.take_in(frame, received) else {
            return Carried::Other;
        };
        let whole = DissectedFrame::new(packet, packet.len() as u32, LinkType::RAW);
        let stamp = received.meta.timestamp;
        if let Some(segment) = Segment::read(&whole, stamp, place) {
            self.streams.take_in(&segment, handler);
            return Carried::Segment;
        }
        match Datagram::read(&whole, stamp, place).filter(|_| H::TAKES_DATAGRAMS) {
            Some(datagram) => {
                handler.datagram(&datagram);
                Carried::Datagram
            }
            None => Carried::Other,
        }
    }

    /// Time has come to `now`.
    pub fn tick<H: Handler<Kept = C>>(&mut self, now: Timestamp, handler: &mut H) {
        self.streams.tick(now, handler);
    }

    /// Ends all connections, in the order in which they began.
    pub fn finish<H: Handler<Kept = C>>(&mut self, handler: &mut H) {
        self.streams.finish(handler);
    }
}
