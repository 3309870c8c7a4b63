//! From a stream of frames to transactions in sinks.

use crate::conversation::{Bytes, Kept};
use crate::tracker::{Shared, Tracker};
use crate::transactions::Transactions;
use crate::{DnsLedger, Limits, Transaction};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogStatus, RecordSink, Sinks};
use ringside_streams::{Carried, FragmentLedger, StreamLedger};

/// Drives streams, transactions and sinks by every frame of a stream.
pub struct DnsObserver<'s> {
    transport: ringside_streams::Transport<Kept>,
    shared: Shared,
    sinks: Sinks<'s, Transaction>,
    /// Frames that were seen, and those of them with neither TCP nor UDP.
    frames: u64,
    other_frames: u64,
    now: Timestamp,
}

impl<'s> DnsObserver<'s> {
    /// Transactions go to each of `sinks`, which have names.
    pub fn new(
        limits: Limits,
        sinks: Vec<(String, Box<dyn RecordSink<Transaction> + 's>)>,
    ) -> DnsObserver<'s> {
        DnsObserver {
            transport: ringside_streams::Transport::new(limits.streams),
            shared: Shared {
                ledger: DnsLedger::default(),
                transactions: Transactions::new(limits.transactions),
                bytes: Bytes::default(),
                other_datagrams: 0,
            },
            sinks: Sinks::new(sinks),
            frames: 0,
            other_frames: 0,
            now: Timestamp::default(),
        }
    }

    /// The account of messages and transactions.
    pub fn ledger(&self) -> DnsLedger {
        let Shared { ledger, bytes, .. } = &self.shared;
        DnsLedger {
            framing_bytes: bytes.framing,
            unread_bytes: bytes.unread,
            not_dns_bytes: bytes.not_dns,
            ..ledger.clone()
        }
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

    /// Frames that were seen, and of these such with neither TCP nor UDP.
    pub fn frames(&self) -> (u64, u64) {
        (self.frames, self.other_frames)
    }

    /// Datagrams that are none of DNS.
    pub fn other_datagrams(&self) -> u64 {
        self.shared.other_datagrams
    }

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.transport.connections()
    }

    /// Transactions that are not over.
    pub fn open(&self) -> u64 {
        self.shared.transactions.open().0
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if no byte, no message, no transaction and no line is missing.
    pub fn balances(&self) -> bool {
        let ledger = self.ledger();
        let (open, open_messages) = self.shared.transactions.open();
        let (delivered, kept) = (self.streams().delivered_bytes, self.shared.bytes.kept);
        self.streams().balances()
            && ledger.balances(delivered, kept as u64, open, open_messages)
            && self.sinks.were_given(ledger.ended())
    }
}

impl Observer for DnsObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.frames += 1;
        self.sinks.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let DnsObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        let carried = transport.take_in(frame, received, &mut Tracker { shared, out });
        self.other_frames += u64::from(carried == Carried::Other);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let DnsObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        transport.tick(low_water, &mut Tracker { shared, out });
        shared.transactions.tick(low_water, &mut shared.ledger, out);
        sinks.tick();
    }

    fn finish(&mut self) {
        let DnsObserver { transport, shared, sinks, .. } = self;
        let out = &mut |transaction: Transaction| sinks.put(&transaction);
        transport.finish(&mut Tracker { shared, out });
        shared.transactions.finish(&mut shared.ledger, out);
        sinks.finish();
    }
}
