//! From a stream of frames to handshakes in sinks.

use crate::conversation::{Kept, Tracker};
use crate::quic::Connections;
use crate::shared::Shared;
use crate::{Handshake, QuicLedger, TlsLedger};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogStatus, RecordSink, Sinks};
use ringside_streams::{Carried, FragmentLedger, Limits, StreamLedger, Transport};

/// Drives streams, handshakes and sinks by every frame of a stream.
pub struct TlsObserver<'s> {
    transport: Transport<Kept>,
    quic: Connections,
    shared: Shared,
    sinks: Sinks<'s, Handshake>,
    /// Frames that were seen, and those of them with neither TCP nor UDP.
    frames: u64,
    other_frames: u64,
    now: Timestamp,
}

impl<'s> TlsObserver<'s> {
    /// Within these limits of streams, of which that of connections holds over QUIC too; handshakes
    /// go to each of `sinks`, which have names.
    pub fn new(
        limits: Limits,
        sinks: Vec<(String, Box<dyn RecordSink<Handshake> + 's>)>,
    ) -> TlsObserver<'s> {
        TlsObserver {
            transport: Transport::new(limits),
            quic: Connections::new(limits.connections),
            shared: Shared::default(),
            sinks: Sinks::new(sinks),
            frames: 0,
            other_frames: 0,
            now: Timestamp::default(),
        }
    }

    /// The account of handshakes.
    pub fn ledger(&self) -> &TlsLedger {
        &self.shared.ledger
    }

    /// The account of the streams below.
    pub fn streams(&self) -> &StreamLedger {
        self.transport.streams()
    }

    /// The account of QUIC.
    pub fn quic(&self) -> &QuicLedger {
        self.quic.ledger()
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

    /// Connections that are followed.
    pub fn connections(&self) -> usize {
        self.transport.connections()
    }

    /// Handshakes that are not over.
    pub fn open(&self) -> u64 {
        self.shared.open
    }

    /// Memory of these, and of messages that are not whole.
    pub fn kept_memory(&self) -> usize {
        self.shared.kept
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if no byte, no handshake and no line is missing.
    pub fn balances(&self) -> bool {
        let Shared { ledger, open, .. } = &self.shared;
        self.streams().balances()
            && self.quic().balances()
            && ledger.balances(self.streams().delivered_bytes, *open)
            && self.sinks.were_given(ledger.ended())
    }
}

impl Observer for TlsObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.frames += 1;
        self.sinks.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let TlsObserver { transport, quic, shared, sinks, .. } = self;
        let out = &mut |found: Handshake| sinks.put(&found);
        let carried = transport.take_in(frame, received, &mut Tracker { shared, quic, out });
        self.other_frames += u64::from(carried == Carried::Other);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        let TlsObserver { transport, quic, shared, sinks, .. } = self;
        let out = &mut |found: Handshake| sinks.put(&found);
        transport.tick(low_water, &mut Tracker { shared, quic, out });
        quic.tick(low_water, shared, out);
        self.sinks.tick();
    }

    fn finish(&mut self) {
        let TlsObserver { transport, quic, shared, sinks, .. } = self;
        let out = &mut |found: Handshake| sinks.put(&found);
        transport.finish(&mut Tracker { shared, quic, out });
        quic.finish(shared, out);
        self.sinks.finish();
    }
}
