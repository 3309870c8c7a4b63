//! What keeper and worker say to each other: one JSON object a message.

use super::knob::Request;
use super::remains::Part;
use serde::{Deserialize, Serialize};

/// Orders and answers, from the keeper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// End the run in order.
    Stop,
    /// End now: who gave the order does not want to wait for the rest.
    Abort,
    /// Answers [`ToKeeper::Turn`]: why the knob is as it was, if it is.
    Turned(Result<(), String>),
}

/// What the keeper must know, from the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// Turn a knob; the network namespace that is meant comes as a descriptor. It is answered.
    Turn(Request),
    /// Keep this, to finish with if the worker dies.
    Leave(Part),
    /// The run begins and privileges are dropped: from now on nothing is done for the worker but
    /// to finish after it.
    Started {
        /// The files belong to another user than the keeper's.
        others_files: bool,
    },
    /// The run has ended and its ledger is printed: whatever happens to the worker now, nothing is
    /// left to finish.
    Closed,
}
