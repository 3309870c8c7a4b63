//! What a DNS observer says meanwhile of what it has found.

use crate::{DnsLedger, DnsObserver, Ending};
use ringside_logs::{LogStatus, Status, Watched, ended_json, logs_json};
use ringside_streams::{FragmentLedger, StreamLedger};
use serde_json::{Value, json};

/// What was found so far, and where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsStatus {
    /// Frames that were seen.
    pub frames: u64,
    /// Of these: with neither TCP nor UDP, or fragments.
    pub other_frames: u64,
    /// Datagrams that are none of DNS.
    pub other_datagrams: u64,
    /// Connections that are followed.
    pub connections: usize,
    /// Transactions that are not over.
    pub open: u64,
    /// The account of messages and transactions.
    pub ledger: DnsLedger,
    /// The account of streams.
    pub streams: StreamLedger,
    /// The account of fragments.
    pub fragments: FragmentLedger,
    /// The account of each log.
    pub logs: Vec<LogStatus>,
    /// No byte, no message, no transaction and no line is missing.
    pub balances: bool,
    /// No frame will come again.
    pub is_finished: bool,
}

impl DnsStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let endings = Ending::ALL.map(|end| (end.name(), self.ledger.ended[end.index()]));
        json!({
            "frames": self.frames,
            "other_frames": self.other_frames,
            "other_datagrams": self.other_datagrams,
            "connections": self.connections,
            "open": self.open,
            "dns": ended_json(&self.ledger, endings),
            "streams": self.streams.json(),
            "fragments": self.fragments,
            "logs": logs_json(&self.logs),
            "balances": self.balances,
        })
    }
}

impl Status for DnsStatus {
    fn logs(&self) -> &[LogStatus] {
        &self.logs
    }
}

impl Watched for DnsObserver<'static> {
    type Status = DnsStatus;

    fn status(&self, is_finished: bool) -> DnsStatus {
        let (frames, other_frames) = self.frames();
        DnsStatus {
            frames,
            other_frames,
            other_datagrams: self.other_datagrams(),
            connections: self.connections(),
            open: self.open(),
            ledger: self.ledger(),
            streams: self.streams().clone(),
            fragments: *self.fragments(),
            logs: self.logs(),
            balances: self.balances(),
            is_finished,
        }
    }
}
