//! What an observer of calls says meanwhile of what it has found.

use crate::{CallsLedger, CallsObserver, Ending, KernelMedia, KernelStatus, Ladder};
use ringside_core::Timestamp;
use ringside_logs::{LogStatus, Status, Watched, ended_json, logs_json};
use ringside_streams::{FragmentLedger, StreamLedger};
use serde_json::{Value, json};

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
    /// What the kernel did, where it counts media.
    pub kernel: Option<KernelStatus>,
    /// The account of each log.
    pub logs: Vec<LogStatus>,
    /// The messages of the call that was asked for, once no frame will come again.
    pub ladder: Option<Ladder>,
    /// No packet, no message, no call and no line is missing: known at the end, since all streams
    /// have to be looked at for it.
    pub balances: bool,
}

impl CallsStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let endings = Ending::ALL.map(|end| (end.name(), self.ledger.ended[end.index()]));
        json!({
            "calls": ended_json(&self.ledger, endings),
            "tcp": self.tcp.json(),
            "fragments": self.fragments,
            "kernel": self.kernel,
            "open_calls": self.open_calls,
            "open_streams": self.open_streams,
            "logs": logs_json(&self.logs),
            "balances": self.balances,
        })
    }
}

impl Status for CallsStatus {
    fn logs(&self) -> &[LogStatus] {
        &self.logs
    }
}

impl Watched for CallsObserver<'static> {
    type Status = CallsStatus;

    fn status(&self, is_finished: bool) -> CallsStatus {
        let (open_calls, open_streams) = self.open();
        CallsStatus {
            now: self.now(),
            open_calls,
            open_streams,
            ledger: self.ledger().clone(),
            tcp: self.streams().clone(),
            fragments: *self.fragments(),
            kernel: self.kernel().map(KernelMedia::status),
            logs: self.logs(),
            ladder: self.ladder().filter(|_| is_finished).cloned(),
            balances: is_finished && self.balances(),
        }
    }
}
