//! What keeper and worker say to each other: one JSON object a message.

use serde::{Deserialize, Serialize};

/// Orders and answers, from the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// End the run in order.
    Stop,
    /// End now: who gave the order does not want to wait for the rest.
    Abort,
}

/// What the keeper must know, from the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// The run has ended and its ledger is printed: whatever happens to the worker now, nothing is
    /// left to finish.
    Closed,
}
