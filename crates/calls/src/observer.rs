//! From a stream of frames to calls in sinks.

use crate::CallsLedger;
use crate::call::{Call, Transport};
use crate::datagram::Datagram;
use crate::ladder::Ladder;
use crate::limits::Limits;
use crate::met::Met;
use crate::reader::{Kept, Reader};
use crate::tracker::Tracker;
use ringside_core::{LinkType, Timestamp};
use ringside_inspect::{DissectedFrame, InterfaceNames, Observer, Received};
use ringside_proto::{Outcome, rtcp, rtp, sip};
use ringside_streams::{Defragmenter, FragmentLedger, Place, Segment, StreamLedger, Streams};
use ringside_wire::{Fragment, LayerKind, Level};

/// Ports where SIP is at home: what comes there and is none is counted as such.
const SIP_PORTS: [u16; 2] = [5060, 5061];

/// Takes calls.
pub trait CallSink: Send {
    /// The next call, from the interface of this name.
    fn put(&mut self, call: &Call, interface: &str);

    /// Time has passed: what waits for company need not wait any more.
    fn tick(&mut self) {}

    /// Calls that were given and written.
    fn delivered(&self) -> u64;

    /// Why nothing is written any more.
    fn error(&self) -> Option<String> {
        None
    }
}

/// How calls are found.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Memory.
    pub limits: Limits,
    /// RTP that no call announced is looked for as well.
    pub finds_unannounced: bool,
    /// The messages of the call with this Call-ID are kept.
    pub ladder: Option<String>,
}

/// Drives streams, calls and sinks by every frame of a stream.
pub struct CallsObserver<'s> {
    tcp: Streams<Kept>,
    fragments: Defragmenter,
    tracker: Tracker,
    kept_bytes: usize,
    sinks: Vec<Box<dyn CallSink + 's>>,
    interfaces: InterfaceNames,
    now: Timestamp,
}

impl<'s> CallsObserver<'s> {
    /// Calls go to each of `sinks`.
    pub fn new(options: Options, sinks: Vec<Box<dyn CallSink + 's>>) -> CallsObserver<'s> {
        let Options { limits, finds_unannounced, ladder } = options;
        let ladder = ladder.map(|call_id| Ladder::new(&call_id));
        CallsObserver {
            tcp: Streams::new(limits.tcp),
            fragments: Defragmenter::new(),
            tracker: Tracker::new(limits, finds_unannounced, ladder),
            kept_bytes: 0,
            sinks,
            interfaces: InterfaceNames::default(),
            now: Timestamp::default(),
        }
    }

    /// The account of packets, messages and calls.
    pub fn ledger(&self) -> &CallsLedger {
        &self.tracker.ledger
    }

    /// The account of TCP streams.
    pub fn streams(&self) -> &StreamLedger {
        self.tcp.ledger()
    }

    /// The account of fragments.
    pub fn fragments(&self) -> &FragmentLedger {
        self.fragments.ledger()
    }

    /// Calls that go on, and streams.
    pub fn open(&self) -> (usize, usize) {
        (self.tracker.open_calls(), self.tracker.open_streams())
    }

    /// The sinks.
    pub fn sinks(&self) -> &[Box<dyn CallSink + 's>] {
        &self.sinks
    }

    /// The messages of the call that was asked for.
    pub fn ladder(&self) -> Option<&Ladder> {
        self.tracker.ladder.as_ref()
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if no packet, no message and no call is missing.
    pub fn balances(&self) -> bool {
        let ledger = self.ledger();
        let tcp_bytes = ledger.sip_tcp_bytes + ledger.other_tcp_bytes + self.kept_bytes as u64;
        self.tracker.balances()
            && self.tcp.ledger().balances()
            && tcp_bytes == self.tcp.ledger().delivered_bytes
    }

    /// A frame, or a packet that was put together of fragments.
    fn packet(&mut self, frame: &DissectedFrame<'_>, stamp: Timestamp, place: &dyn Fn() -> Place) {
        let layers = frame.layers();
        let transport = layers.transport(Level::Inner).map(|layer| layer.kind);
        match transport {
            Some(LayerKind::Udp) => {
                self.tracker.ledger.datagrams += 1;
                self.datagram(frame, stamp, place());
            }
            Some(LayerKind::Tcp) => {
                self.tracker.ledger.tcp_frames += 1;
                if let Some(segment) = Segment::read(frame, stamp, place()) {
                    let CallsObserver { tcp, tracker, kept_bytes, .. } = self;
                    tcp.take_in(&segment, &mut Reader { tracker, kept_bytes });
                }
            }
            _ => self.tracker.ledger.other_frames += 1,
        }
    }

    fn datagram(&mut self, frame: &DissectedFrame<'_>, stamp: Timestamp, place: Place) {
        let Some(datagram) = Datagram::of(frame) else {
            self.tracker.ledger.other_udp += 1;
            return;
        };
        let met = Met {
            now_ns: stamp.0,
            source: datagram.source,
            destination: datagram.destination,
            interface: place.interface,
            vlan: place.vlan,
            transport: Transport::Udp,
        };
        self.payload(&met, datagram.payload, datagram.wire_bytes);
    }

    fn payload(&mut self, met: &Met, payload: &[u8], wire_bytes: usize) {
        let tracker = &mut self.tracker;
        let is_at_home = [met.source.1, met.destination.1].iter().any(|p| SIP_PORTS.contains(p));
        if is_at_home && payload.iter().all(|byte| b"\r\n\0".contains(byte)) {
            tracker.ledger.keepalives += 1;
            return;
        }
        if is_at_home || sip::looks_like(payload) {
            match whole(payload) {
                Some(message) => {
                    tracker.ledger.sip_udp += 1;
                    tracker.message(met, &message);
                }
                None => tracker.ledger.sip_malformed_udp += 1,
            }
            return;
        }
        let is_taken = if rtcp::looks_like(payload) {
            tracker.rtcp(met, payload)
        } else {
            let found = rtp::parse(payload, wire_bytes).found();
            found.is_some_and(|rtp| tracker.rtp(met, &rtp))
        };
        match (is_taken, tracker.is_media(met)) {
            (true, _) => {}
            (false, true) => tracker.ledger.other_media += 1,
            (false, false) => tracker.ledger.other_udp += 1,
        }
    }

    /// Hands out what is over.
    #[inline]
    fn give(&mut self) {
        if self.tracker.has_done() {
            let CallsObserver { tracker, sinks, interfaces, .. } = self;
            for call in tracker.take_done() {
                let name = interfaces.of(call.interface);
                sinks.iter_mut().for_each(|sink| sink.put(&call, name));
            }
        }
    }
}

/// A message over UDP: all of its head, and of the body as much as it says. What was cut by the
/// capture has as much as there is.
fn whole(payload: &[u8]) -> Option<sip::Message<'_>> {
    let Outcome::Fields(message) = sip::message(payload) else { return None };
    message.start.call_id?;
    message.cseq?;
    let bytes = message.content_length.unwrap_or(message.body.len());
    let body = message.body.get(..bytes).unwrap_or(message.body);
    Some(sip::Message { body, ..message })
}

impl Observer for CallsObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.tracker.ledger.frames += 1;
        self.interfaces.learn(received);
        let stamp = received.meta.timestamp;
        if stamp != Timestamp::default() {
            self.now = stamp;
            self.tracker.advance(stamp.0);
        }
        let is_fragment = frame.layers().fragment(Level::Inner) != Fragment::No;
        if !is_fragment {
            self.packet(frame, stamp, &|| Place::of(frame, received));
        } else if let Some((packet, place)) =
            self.fragments.take_in(frame, received).map(|(packet, place)| (packet.to_vec(), place))
        {
            let whole = DissectedFrame::new(&packet, packet.len() as u32, LinkType::RAW);
            self.packet(&whole, stamp, &|| place);
        } else {
            self.tracker.ledger.fragments_kept += 1;
        }
        self.give();
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let CallsObserver { tcp, tracker, kept_bytes, .. } = self;
        tcp.tick(low_water, &mut Reader { tracker, kept_bytes });
        self.tracker.advance(low_water.0);
        self.give();
        self.sinks.iter_mut().for_each(|sink| sink.tick());
    }

    fn finish(&mut self) {
        let CallsObserver { tcp, tracker, kept_bytes, .. } = self;
        tcp.finish(&mut Reader { tracker, kept_bytes });
        self.tracker.finish();
        self.give();
        self.sinks.iter_mut().for_each(|sink| sink.tick());
    }
}
