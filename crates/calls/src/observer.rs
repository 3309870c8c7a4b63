//! From a stream of frames to calls in sinks.

use crate::CallsLedger;
use crate::call::Call;
use crate::kernel_media::KernelMedia;
use crate::ladder::Ladder;
use crate::limits::Limits;
use crate::reader::{Kept, Reader};
use crate::tracker::Tracker;
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogStatus, RecordSink, Sinks};
use ringside_streams::{Carried, FragmentLedger, StreamLedger, Transport};
use ringside_sys::clock;

/// How calls are found.
#[derive(Debug, Default)]
pub struct Options {
    /// Memory.
    pub limits: Limits,
    /// RTP that no call announced is looked for as well.
    pub finds_unannounced: bool,
    /// The messages of the call with this Call-ID are kept.
    pub ladder: Option<String>,
    /// Media are counted there as far as there is room. Everything that is not is seen.
    pub kernel: Option<KernelMedia>,
}

/// Drives streams, calls and sinks by every frame of a stream.
pub struct CallsObserver<'s> {
    transport: Transport<Kept>,
    tracker: Tracker,
    kept_bytes: usize,
    sinks: Sinks<'s, Call>,
    now: Timestamp,
}

impl<'s> CallsObserver<'s> {
    /// Calls go to each of `sinks`, which have names.
    pub fn new(
        options: Options,
        sinks: Vec<(String, Box<dyn RecordSink<Call> + 's>)>,
    ) -> CallsObserver<'s> {
        let Options { limits, finds_unannounced, ladder, kernel } = options;
        let ladder = ladder.map(|call_id| Ladder::new(&call_id));
        CallsObserver {
            transport: Transport::new(limits.tcp),
            tracker: Tracker::new(limits, finds_unannounced, ladder, kernel),
            kept_bytes: 0,
            sinks: Sinks::new(sinks),
            now: Timestamp::default(),
        }
    }

    /// The account of packets, messages and calls.
    pub fn ledger(&self) -> &CallsLedger {
        &self.tracker.ledger
    }

    /// The account of TCP streams.
    pub fn streams(&self) -> &StreamLedger {
        self.transport.streams()
    }

    /// The account of fragments.
    pub fn fragments(&self) -> &FragmentLedger {
        self.transport.fragments()
    }

    /// Calls that go on, and streams.
    pub fn open(&self) -> (usize, usize) {
        (self.tracker.open_calls(), self.tracker.open_streams())
    }

    /// The account of each sink.
    pub fn logs(&self) -> Vec<LogStatus> {
        self.sinks.status()
    }

    /// The messages of the call that was asked for.
    pub fn ladder(&self) -> Option<&Ladder> {
        self.tracker.ladder.as_ref()
    }

    /// What counts media in the kernel, if something does.
    pub fn kernel(&self) -> Option<&KernelMedia> {
        self.tracker.kernel.as_ref()
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// True if no packet, no message, no call and no line is missing. Looks at all streams.
    pub fn balances(&self) -> bool {
        let ledger = self.ledger();
        let tcp_bytes = ledger.sip_tcp_bytes + ledger.other_tcp_bytes + self.kept_bytes as u64;
        self.tracker.balances()
            && self.streams().balances()
            && tcp_bytes == self.streams().delivered_bytes
            && self.sinks.were_given(ledger.given())
    }

    /// Hands out what is over.
    #[inline]
    fn give(&mut self) {
        if self.tracker.has_done() {
            self.tracker.take_done().for_each(|call| self.sinks.put(&call));
        }
    }
}

impl Observer for CallsObserver<'_> {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.tracker.ledger.frames += 1;
        self.sinks.learn(received);
        let stamp = received.meta.timestamp;
        if stamp != Timestamp::default() {
            self.now = stamp;
            self.tracker.advance(stamp.0);
        }
        let CallsObserver { transport, tracker, kept_bytes, .. } = self;
        match transport.take_in(frame, received, &mut Reader { tracker, kept_bytes }) {
            Carried::Segment => self.tracker.ledger.tcp_frames += 1,
            Carried::Datagram => self.tracker.ledger.datagrams += 1,
            Carried::Other => self.tracker.ledger.other_frames += 1,
        }
        self.give();
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        if let Some(kernel) = &self.tracker.kernel {
            kernel.keep_alive(clock::monotonic_ns());
        }
        let CallsObserver { transport, tracker, kept_bytes, .. } = self;
        transport.tick(low_water, &mut Reader { tracker, kept_bytes });
        self.tracker.advance(low_water.0);
        self.give();
        self.sinks.tick();
    }

    fn finish(&mut self) {
        let CallsObserver { transport, tracker, kept_bytes, .. } = self;
        transport.finish(&mut Reader { tracker, kept_bytes });
        self.tracker.finish();
        self.give();
        self.sinks.finish();
    }
}
