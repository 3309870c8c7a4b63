//! From a stream of frames to transactions in sinks.

use crate::conversation::Shared;
use crate::tracker::{Kept, Tracker};
use crate::{HttpLedger, Limits, Transaction};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogStatus, RecordSink, Sinks};
use ringside_streams::{Carried, FragmentLedger, StreamLedger, Transport};

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
    transport: Transport<Kept>,
    shared: Shared,
    sinks: Sinks<'s, Transaction>,
    /// Frames that were seen, and those of them without TCP.
    frames: u64,
    not_tcp: u64,
    now: Timestamp,
}

impl<'s> HttpObserver<'s> {
    /// Transactions go to each of `sinks`, which have names.
    pub fn new(
        options: Options,
        sinks: Vec<(String, Box<dyn RecordSink<Transaction> + 's>)>,
    ) -> HttpObserver<'s> {
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
            transport: Transport::new(limits),
            shared,
            sinks: Sinks::new(sinks),
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
        self.transport.streams()
    }

    /// The account of fragments.
    pub fn fragments(&self) -> &FragmentLedger {
        self.transport.fragments()
    }

    /// The account of each sink.
    pub fn logs(&self) -> Vec<LogStatus> {
        self.sinks.status()
    }

    /// Frames that were seen, and of these such without TCP.
    pub fn frames(&self) -> (u64, u64) {
        (self.frames, self.not_tcp)
    }

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.transport.connections()
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
        let delivered = self.transport.streams().delivered_bytes;
        self.transport.streams().balances()
            && ledger.balances(delivered, *kept_bytes as u64, *open)
            && self.sinks.were_given(ledger.ended())
    }
}

impl Observer for HttpObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.frames += 1;
        self.sinks.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let HttpObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        let carried = transport.take_in(frame, received, &mut Tracker { shared, out });
        self.not_tcp += u64::from(carried != Carried::Segment);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let HttpObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        transport.tick(low_water, &mut Tracker { shared, out });
        self.sinks.tick();
    }

    fn finish(&mut self) {
        let HttpObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        transport.finish(&mut Tracker { shared, out });
        self.sinks.finish();
    }
}
