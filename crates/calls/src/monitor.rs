//! An observer of calls that shows meanwhile what it has found.

use crate::{CallSink, CallsLedger, CallsObserver, Ending, Ladder, Options};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_streams::{FragmentLedger, StreamLedger};
use serde_json::{Map, Value, json};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was found so far, and where everything is.
#[derive(Clone, Debug, Default)]
pub struct CallsStatus {
    /// The time of the packets.
    pub now: Timestamp,
    /// Calls and streams that are not over.
    pub open_calls: usize,
    /// See `open_calls`.
    pub open_streams: usize,
    /// The account of packets, messages and calls.
    pub ledger: CallsLedger,
    /// The account of TCP streams.
    pub tcp: StreamLedger,
    /// The account of fragments.
    pub fragments: FragmentLedger,
    /// Calls that were written.
    pub delivered: u64,
    /// Why nothing is written any more.
    pub error: Option<String>,
    /// The messages of the call that was asked for.
    pub ladder: Option<Ladder>,
    /// No packet, no message, no call and no line is missing: known at the end, since all streams
    /// have to be looked at for it.
    pub balances: bool,
}

impl CallsStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let ended = Ending::ALL
            .map(|end| (end.name().to_owned(), Value::from(self.ledger.ended[end.index()])));
        let mut ledger = json!(self.ledger);
        ledger["ended"] = ended.into_iter().collect::<Map<_, _>>().into();
        json!({
            "calls": ledger,
            "tcp": self.tcp,
            "fragments": self.fragments,
            "open_calls": self.open_calls,
            "open_streams": self.open_streams,
            "delivered": self.delivered,
            "balances": self.balances,
        })
    }
}

/// Drives a [`CallsObserver`], and answers a [`MonitorHandle`].
pub struct CallsMonitor {
    observer: CallsObserver<'static>,
    status: Arc<Mutex<CallsStatus>>,
}

/// Asks a monitor, which may be in another thread.
#[derive(Clone)]
pub struct MonitorHandle(Arc<Mutex<CallsStatus>>);

impl CallsMonitor {
    /// Calls go to `sink`, if there is one.
    pub fn new(options: Options, sink: Option<Box<dyn CallSink>>) -> CallsMonitor {
        let observer = CallsObserver::new(options, sink.into_iter().collect());
        CallsMonitor { observer, status: Arc::default() }
    }

    /// A handle for another thread.
    pub fn handle(&self) -> MonitorHandle {
        MonitorHandle(self.status.clone())
    }

    fn publish(&mut self, is_finished: bool) {
        let observer = &self.observer;
        let (open_calls, open_streams) = observer.open();
        let ledger = observer.ledger().clone();
        let error = observer.sinks().iter().find_map(|sink| sink.error());
        let is_written = |sink: &dyn CallSink| sink.delivered() == ledger.given();
        let all_written = observer.sinks().iter().all(|sink| is_written(&**sink));
        *lock(&self.status) = CallsStatus {
            now: observer.now(),
            open_calls,
            open_streams,
            tcp: observer.streams().clone(),
            fragments: *observer.fragments(),
            delivered: observer.sinks().iter().map(|sink| sink.delivered()).sum(),
            balances: is_finished && observer.balances() && (error.is_some() || all_written),
            error,
            ladder: observer.ladder().filter(|_| is_finished).cloned(),
            ledger,
        };
    }
}

impl Observer for CallsMonitor {
    #[inline]
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.observer.see(frame, received);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.observer.tick(low_water);
        self.publish(false);
    }

    fn finish(&mut self) {
        self.observer.finish();
        self.publish(true);
    }
}

impl MonitorHandle {
    /// The latest status, some tenth of a second of the packets' time old: after the stream's end
    /// the last.
    pub fn status(&self) -> CallsStatus {
        lock(&self.0).clone()
    }

    /// Whether calls are written.
    ///
    /// # Errors
    /// They cannot be, and nothing is written any more.
    pub fn check(&self) -> io::Result<()> {
        lock(&self.0).error.clone().map_or(Ok(()), |error| Err(io::Error::other(error)))
    }
}

/// What another thread that panicked has left is a whole status.
fn lock(status: &Mutex<CallsStatus>) -> MutexGuard<'_, CallsStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
