//! Where every byte, message and transaction went.

use crate::Ending;
use serde::Serialize;

/// The account of messages and transactions. At any time:
///
/// ```text
/// bytes delivered by streams = head + body + framing + tunnel + unread + not_http + kept
/// begun = Σ ended + open
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HttpLedger {
    /// Requests whose heads came whole.
    pub requests: u64,
    /// Responses whose heads came whole, interim ones too.
    pub responses: u64,
    /// Of these: interim ones.
    pub interim: u64,
    /// Responses to requests that there was no room for.
    pub responses_without_room: u64,
    /// Transactions that began: with a request, or with a response to one that was not seen.
    pub begun: u64,
    /// Transactions that ended, by how, at [`Ending::index`].
    pub ended: [u64; Ending::ALL.len()],
    /// Heads of which bytes are missing.
    pub heads_lost: u64,
    /// Heads that went on for too long.
    pub heads_too_long: u64,
    /// Bytes of heads.
    pub head_bytes: u64,
    /// Bytes of the contents of bodies.
    pub body_bytes: u64,
    /// Bytes around chunks.
    pub framing_bytes: u64,
    /// Bytes of what followed CONNECT or an upgrade.
    pub tunnel_bytes: u64,
    /// Bytes of HTTP connections where no message was found: behind a gap for one.
    pub unread_bytes: u64,
    /// Bytes of connections that carry something else.
    pub not_http_bytes: u64,
}

impl HttpLedger {
    /// Transactions that ended.
    pub fn ended(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// True if no byte and no transaction is missing: of `delivered` bytes, while `kept` bytes are
    /// in heads that are not whole, and `open` transactions are not over.
    pub fn balances(&self, delivered: u64, kept: u64, open: u64) -> bool {
        let bytes = self.head_bytes
            + self.body_bytes
            + self.framing_bytes
            + self.tunnel_bytes
            + self.unread_bytes
            + self.not_http_bytes;
        bytes + kept == delivered && self.begun == self.ended() + open
    }
}
