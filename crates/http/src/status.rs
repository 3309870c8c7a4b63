//! What an HTTP observer says meanwhile of what it has found.

use crate::{Ending, HttpLedger, HttpObserver};
use ringside_core::Timestamp;
use ringside_logs::{LogStatus, Status, Watched, ended_json, logs_json};
use ringside_streams::{FragmentLedger, StreamLedger};
use serde_json::{Value, json};

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
    /// The account of each log.
    pub logs: Vec<LogStatus>,
    /// No byte, no transaction and no line is missing.
    pub balances: bool,
    /// No frame will come again.
    pub is_finished: bool,
}

impl HttpStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let endings = Ending::ALL.map(|end| (end.name(), self.ledger.ended[end.index()]));
        json!({
            "frames": self.frames,
            "not_tcp": self.not_tcp,
            "connections": self.connections,
            "open": self.open,
            "http": ended_json(&self.ledger, endings),
            "streams": self.streams.json(),
            "fragments": self.fragments,
            "logs": logs_json(&self.logs),
            "balances": self.balances,
        })
    }
}

impl Status for HttpStatus {
    fn logs(&self) -> &[LogStatus] {
        &self.logs
    }
}

impl Watched for HttpObserver<'static> {
    type Status = HttpStatus;

    fn status(&self, is_finished: bool) -> HttpStatus {
        let (frames, not_tcp) = self.frames();
        HttpStatus {
            now: self.now(),
            frames,
            not_tcp,
            connections: self.connections(),
            open: self.open(),
            ledger: self.ledger().clone(),
            streams: self.streams().clone(),
            fragments: *self.fragments(),
            logs: self.logs(),
            balances: self.balances(),
            is_finished,
        }
    }
}
