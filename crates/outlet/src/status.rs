//! What an outlet shows while it runs.

use ringside_flow::SinkCounts;

/// An outlet at a moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The outlet, as users write it, without the password.
    pub outlet: String,
    /// Whether batches get through.
    pub state: State,
    /// Where the records are.
    pub counts: SinkCounts,
    /// Batches that the server has acknowledged.
    pub batches: u64,
    /// Tries to deliver that came to nothing and were followed by another one.
    pub vain_tries: u64,
    /// Bytes that the spool's files take.
    pub spool_bytes: u64,
    /// Batches of an earlier run that it was killed over; no part of them is delivered.
    pub half_written: u64,
    /// Files of the spool that were no whole batch.
    pub damaged: u64,
    /// The latest error of a delivery.
    pub error: Option<String>,
    /// What else was said of a batch that was taken: no record is lost by it.
    pub notice: Option<String>,
    /// The latest error of the spool.
    pub spool_error: Option<String>,
}

/// Whether batches get through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No delivery was tried yet.
    #[default]
    Idle,
    /// The latest try was acknowledged.
    Open,
    /// The latest try came to nothing: batches wait, are spooled, or are lost.
    Away,
    /// The latest batch was refused for good.
    Refused,
}
