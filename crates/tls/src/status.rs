//! What a TLS observer says meanwhile of what it has found.

use crate::{Ending, QuicLedger, TlsLedger, TlsObserver};
use ringside_logs::{LogStatus, Status, Watched, ended_json, logs_json};
use ringside_streams::{FragmentLedger, StreamLedger};
use serde_json::{Value, json};

/// What was found so far, and where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsStatus {
    /// Frames that were seen.
    pub frames: u64,
    /// Of these: with neither TCP nor UDP, or fragments.
    pub other_frames: u64,
    /// Connections that are followed.
    pub connections: usize,
    /// Handshakes that are not over.
    pub open: u64,
    /// The account of handshakes.
    pub ledger: TlsLedger,
    /// The account of QUIC.
    pub quic: QuicLedger,
    /// The account of streams.
    pub streams: StreamLedger,
    /// The account of fragments.
    pub fragments: FragmentLedger,
    /// The account of each log.
    pub logs: Vec<LogStatus>,
    /// No byte, no handshake and no line is missing.
    pub balances: bool,
    /// No frame will come again.
    pub is_finished: bool,
}

impl TlsStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let endings = Ending::ALL.map(|end| (end.name(), self.ledger.ended[end.index()]));
        json!({
            "frames": self.frames,
            "other_frames": self.other_frames,
            "connections": self.connections,
            "open": self.open,
            "tls": ended_json(&self.ledger, endings),
            "quic": self.quic,
            "streams": self.streams.json(),
            "fragments": self.fragments,
            "logs": logs_json(&self.logs),
            "balances": self.balances,
        })
    }
}

impl Status for TlsStatus {
    fn logs(&self) -> &[LogStatus] {
        &self.logs
    }
}

impl Watched for TlsObserver<'static> {
    type Status = TlsStatus;

    fn status(&self, is_finished: bool) -> TlsStatus {
        let (frames, other_frames) = self.frames();
        TlsStatus {
            frames,
            other_frames,
            connections: self.connections(),
            open: self.open(),
            ledger: self.ledger().clone(),
            quic: *self.quic(),
            streams: self.streams().clone(),
            fragments: *self.fragments(),
            logs: self.logs(),
            balances: self.balances(),
            is_finished,
        }
    }
}
