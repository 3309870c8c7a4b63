//! What takes batches.

use crate::batch::Batch;
use std::time::Duration;

/// Takes batches, one after the other.
pub trait Engine: Send {
    /// One try to deliver a batch, within this time.
    fn deliver(&mut self, batch: &Batch, time: Duration) -> Outcome;
}

/// What became of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has it, without the records of it that it refused.
    Acknowledged {
        /// Records that the server did not take.
        refused: u64,
        /// Why.
        reason: Option<String>,
    },
    /// The server will not take this batch, and said why.
    Refused(String),
    /// Another try may succeed; whether the server has the batch may be unknown.
    Failed(String),
}

impl Outcome {
    /// The server has all of it.
    pub fn acknowledged() -> Outcome {
        Outcome::Acknowledged { refused: 0, reason: None }
    }
}
