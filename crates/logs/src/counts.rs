//! Where the records went that a log was given.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// What became of the records that a log was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogCounts {
    /// Written, and handed to the system.
    pub delivered: u64,
    /// Written, and in a buffer.
    pub waiting: u64,
    /// Left out, because the format has no way to say them: transactions without a response in the
    /// log of a web server.
    pub inexpressible: u64,
    /// Lost because writing failed.
    pub write_failed: u64,
    /// Of an outlet: on disk, for a server that does not have them yet.
    pub spooled: u64,
    /// Of an outlet: lost because what waited in memory was at its limit.
    pub queue_full: u64,
    /// Of an outlet: lost because the spool was at its limit.
    pub spool_full: u64,
    /// Of an outlet: lost because the server refused them.
    pub refused: u64,
    /// Of an outlet: lost because they were not delivered when the time for that was over.
    pub undelivered: u64,
    /// Of all these: found in the spool of an earlier run.
    pub inherited: u64,
}

impl LogCounts {
    /// The records that were given.
    pub fn given(&self) -> u64 {
        let total: u64 = self.named().into_iter().map(|(_, count)| count).sum();
        total.saturating_sub(self.inherited)
    }

    /// All of them that are apart from each other, by their names in output formats.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("delivered", self.delivered),
            ("waiting", self.waiting),
            ("spooled", self.spooled),
            ("inexpressible", self.inexpressible),
            ("write_failed", self.write_failed),
            ("queue_full", self.queue_full),
            ("spool_full", self.spool_full),
            ("refused", self.refused),
            ("undelivered", self.undelivered),
        ]
    }
}

/// A log: its name, its account, and why nothing is written there any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// What people know it by: the path of its file.
    pub name: String,
    /// What became of its records.
    pub counts: LogCounts,
    /// Why nothing is written any more.
    pub error: Option<String>,
}

/// The account of each log as JSON, by name.
pub fn logs_json(logs: &[LogStatus]) -> Value {
    object(logs.iter().map(|log| (&*log.name, json!(log.counts))))
}

/// An account as JSON, in which what ended stands by how it ended.
pub fn ended_json<'a>(
    ledger: &impl Serialize,
    endings: impl IntoIterator<Item = (&'a str, u64)>,
) -> Value {
    let mut ledger = json!(ledger);
    ledger["ended"] = object(endings.into_iter().map(|(name, count)| (name, count.into())));
    ledger
}

/// An account as a JSON object.
pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    fields.collect::<Map<_, _>>().into()
}
