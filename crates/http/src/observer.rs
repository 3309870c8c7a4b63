//! From a stream of frames to transactions in sinks.

use crate::conversation::Shared;
use crate::tracker::{Kept, Tracker};
use crate::{HttpLedger, Limits, LogCounts, Transaction};
use ringside_core::{LinkType, Timestamp};
use ringside_inspect::{DissectedFrame, InterfaceNames, Observer, Received};
use ringside_streams::{Defragmenter, FragmentLedger, Segment, StreamLedger, Streams};

/// Takes transactions.
pub trait TransactionSink: Send {
    /// The next transaction, from the interface of this name.
    fn put(&mut self, transaction: &Transaction, interface: &str);

    /// Time has passed: what waits for company need not wait any more.
    fn tick(&mut self) {}

    /// What became of the transactions.
    fn counts(&self) -> LogCounts;

    /// Why nothing is written any more.
    fn error(&self) -> Option<String> {
        None
    }
}

/// How transactions are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Memory.
    pub limits: Limits,
    /// Passwords, cookies and secrets in URLs are kept.
    pub shows_credentials: bool,
    /// Only packets with heads come, as rules let them through: nothing is waited for, bodies are
    /// not looked at, and a head that does not end in its packet ends there.
    pub headers_only: bool,
}

/// Drives streams, transactions and sinks by every frame of a stream.
pub struct HttpObserver<'s> {
    streams: Streams<Kept>,
    fragments: Defragmenter,
    shared: Shared,
    sinks: Vec<Box<dyn TransactionSink + 's>>,
    interfaces: InterfaceNames,
    /// Frames that were seen, and those of them without TCP.
    frames: u64,
    not_tcp: u64,
    now: Timestamp,
}

impl<'s> HttpObserver<'s> {
    /// Transactions go to each of `sinks`.
    pub fn new(options: Options, sinks: Vec<Box<dyn TransactionSink + 's>>) -> HttpObserver<'s> {
        let mut limits = options.limits.streams;
        if options.headers_only {
            limits.wait = std::time::Duration::ZERO;
        }
        let shared = Shared {
            shows_credentials: options.shows_credentials,
            headers_only: options.headers_only,
            ..Shared::default()
        };
        HttpObserver {
            streams: Streams::new(limits),
            fragments: Defragmenter::new(),
            shared,
            sinks,
            interfaces: InterfaceNames::default(),
            frames: 0,
            not_tcp: 0,
            now: Timestamp::default(),
        }
    }

    /// The account of messages and transactions.
    pub fn ledger(&self) -> &HttpLedger {
        &self.shared.ledger
    }

    /// The account of the streams below.
    pub fn streams(&self) -> &StreamLedger {
        self.streams.ledger()
    }

    /// The account of fragments.
    pub fn fragments(&self) -> &FragmentLedger {
        self.fragments.ledger()
    }

    /// The sinks, with theirs.
    pub fn sinks(&self) -> &[Box<dyn TransactionSink + 's>] {
        &self.sinks
    }

    /// Frames that were seen, and of these such without TCP.
    pub fn frames(&self) -> (u64, u64) {
        (self.frames, self.not_tcp)
    }

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.streams.connections()
    }

    /// Transactions that are not over.
    pub fn open(&self) -> u64 {
        self.shared.open
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if no byte, no transaction and no line is missing.
    pub fn balances(&self) -> bool {
        let Shared { ledger, kept_bytes, open, .. } = &self.shared;
        let delivered = self.streams.ledger().delivered_bytes;
        self.streams.ledger().balances()
            && ledger.balances(delivered, *kept_bytes as u64, *open)
            && self.sinks.iter().all(|sink| sink.counts().given() == ledger.ended())
    }

    #[inline]
    fn parts(&mut self) -> (&mut Streams<Kept>, &mut Defragmenter, Sinks<'_, 's>, &mut Shared) {
        let HttpObserver { streams, fragments, shared, sinks, interfaces, .. } = self;
        (streams, fragments, Sinks { sinks, interfaces }, shared)
    }

    /// A fragment. True if it ends a packet of TCP.
    #[cold]
    fn fragment(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) -> bool {
        let (streams, fragments, mut sinks, shared) = self.parts();
        let Some((packet, place)) = fragments.take_in(frame, received) else { return false };
        let whole = DissectedFrame::new(packet, packet.len() as u32, LinkType::RAW);
        let segment = Segment::read(&whole, received.meta.timestamp, place);
        if let Some(segment) = &segment {
            let out = &mut |transaction: Transaction| sinks.put(&transaction);
            streams.take_in(segment, &mut Tracker { shared, out });
        }
        segment.is_some()
    }
}

/// All sinks, and the names that they want to know.
struct Sinks<'o, 's> {
    sinks: &'o mut [Box<dyn TransactionSink + 's>],
    interfaces: &'o InterfaceNames,
}

impl Sinks<'_, '_> {
    fn put(&mut self, transaction: &Transaction) {
        let name = self.interfaces.of(transaction.interface);
        for sink in self.sinks.iter_mut() {
            sink.put(transaction, name);
        }
    }
}

impl Observer for HttpObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.frames += 1;
        self.interfaces.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let is_tcp = match Segment::of(frame, received) {
            Some(segment) => {
                let (streams, _, mut sinks, shared) = self.parts();
                let out = &mut |transaction: Transaction| sinks.put(&transaction);
                streams.take_in(&segment, &mut Tracker { shared, out });
                true
            }
            None => Defragmenter::is_fragment(frame) && self.fragment(frame, received),
        };
        self.not_tcp += u64::from(!is_tcp);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let (streams, _, mut sinks, shared) = self.parts();
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        streams.tick(low_water, &mut Tracker { shared, out });
        self.sinks.iter_mut().for_each(|sink| sink.tick());
    }

    fn finish(&mut self) {
        let (streams, _, mut sinks, shared) = self.parts();
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        streams.finish(&mut Tracker { shared, out });
        self.sinks.iter_mut().for_each(|sink| sink.tick());
    }
}
