//! An HTTP observer that shows meanwhile what it has found.

use crate::{Ending, HttpLedger, HttpObserver, LogCounts, Options, TransactionSink};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_streams::{Cause, FragmentLedger, StreamLedger};
use serde_json::{Map, Value, json};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was found so far, and where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpStatus {
    /// The time of the packets.
    pub now: Timestamp,
    /// Frames that were seen.
    pub frames: u64,
    /// Of these: without TCP, or fragments.
    pub not_tcp: u64,
    /// Connections that are followed.
    pub connections: usize,
    /// Transactions that are not over.
    pub open: u64,
    /// The account of messages and transactions.
    pub ledger: HttpLedger,
    /// The account of streams.
    pub streams: StreamLedger,
    /// The account of fragments.
    pub fragments: FragmentLedger,
    /// The account of each log, by its name, and why nothing is written there any more.
    pub logs: Vec<(String, LogCounts, Option<String>)>,
    /// No byte, no transaction and no line is missing.
    pub balances: bool,
    /// No frame will come again.
    pub is_finished: bool,
}

impl HttpStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let endings = Ending::ALL.map(|end| (end.name(), self.ledger.ended[end.index()].into()));
        let gaps = Cause::ALL.map(|cause| {
            let (count, bytes) =
                (self.streams.gaps[cause.index()], self.streams.gap_bytes[cause.index()]);
            (cause.name(), json!({ "count": count, "bytes": bytes }))
        });
        let mut ledger = json!(self.ledger);
        ledger["ended"] = object(endings);
        let mut streams = json!(self.streams);
        streams["gaps"] = object(gaps);
        if let Value::Object(streams) = &mut streams {
            streams.remove("gap_bytes");
        }
        let logs = self.logs.iter().map(|(name, counts, _)| (name.as_str(), json!(counts)));
        json!({
            "frames": self.frames,
            "not_tcp": self.not_tcp,
            "connections": self.connections,
            "open": self.open,
            "http": ledger,
            "streams": streams,
            "fragments": self.fragments,
            "logs": object(logs),
            "balances": self.balances,
        })
    }
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    fields.collect::<Map<_, _>>().into()
}

/// Drives an [`HttpObserver`], and answers a [`MonitorHandle`].
pub struct HttpMonitor {
    observer: HttpObserver<'static>,
    names: Vec<String>,
    status: Arc<Mutex<HttpStatus>>,
}

/// Asks a monitor, which may be in another thread.
#[derive(Clone)]
pub struct MonitorHandle(Arc<Mutex<HttpStatus>>);

impl HttpMonitor {
    /// Transactions go to each of `sinks`, which have names.
    pub fn new(options: Options, sinks: Vec<(String, Box<dyn TransactionSink>)>) -> HttpMonitor {
        let (names, sinks) = sinks.into_iter().unzip();
        let observer = HttpObserver::new(options, sinks);
        HttpMonitor { observer, names, status: Arc::default() }
    }

    /// A handle for another thread.
    pub fn handle(&self) -> MonitorHandle {
        MonitorHandle(self.status.clone())
    }

    fn publish(&mut self, is_finished: bool) {
        let observer = &self.observer;
        let (frames, not_tcp) = observer.frames();
        let logs = self.names.iter().zip(observer.sinks());
        *lock(&self.status) = HttpStatus {
            now: observer.now(),
            frames,
            not_tcp,
            connections: observer.connections(),
            open: observer.open(),
            ledger: observer.ledger().clone(),
            streams: observer.streams().clone(),
            fragments: *observer.fragments(),
            logs: logs.map(|(name, sink)| (name.clone(), sink.counts(), sink.error())).collect(),
            balances: observer.balances(),
            is_finished,
        };
    }
}

impl Observer for HttpMonitor {
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
    pub fn status(&self) -> HttpStatus {
        lock(&self.0).clone()
    }

    /// Whether all logs are written.
    ///
    /// # Errors
    /// One of them cannot be written, and gets nothing any more.
    pub fn check_logs(&self) -> io::Result<()> {
        let refused = |(name, _, error): &(String, LogCounts, Option<String>)| {
            let error = error.as_ref()?;
            Some(io::Error::other(format!("{name} is not written any more: {error}")))
        };
        lock(&self.0).logs.iter().find_map(refused).map_or(Ok(()), Err)
    }
}

/// What another thread that panicked has left is a whole status.
fn lock(status: &Mutex<HttpStatus>) -> MutexGuard<'_, HttpStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
