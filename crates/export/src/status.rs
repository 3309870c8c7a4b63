//! What an outlet shows while it runs.

use ringside_flow::SinkCounts;
use serde::Serialize;

/// An outlet at a moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The collector, as users write it.
    pub collector: String,
    /// Name of the format.
    pub format: String,
    /// Whether messages get through.
    pub state: State,
    /// Where the records are; what does not fill a message yet is waiting since the last tick.
    pub counts: SinkCounts,
    /// Messages that were handed on, those of templates alone too.
    pub messages: u64,
    /// Messages that were sent a second time, because a connection broke before they were
    /// acknowledged: a collector may have them twice.
    pub sent_again: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes that the spool's files hold.
    pub spool_bytes: u64,
    /// Bytes of an earlier run's spool that could not be read: the torn end of a file.
    pub spool_damaged_bytes: u64,
    /// The latest error of a connection, a datagram or a file.
    pub error: Option<String>,
    /// The latest error of the spool.
    pub spool_error: Option<String>,
}

/// Whether messages get through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The first connection is not made yet.
    #[default]
    Connecting,
    /// Messages are handed on as they come.
    Open,
    /// The collector is away: messages are spooled, wait or get lost.
    Away,
    /// The outlet is closed.
    Ended,
}
