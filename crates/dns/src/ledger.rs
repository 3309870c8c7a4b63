//! Where every message and every transaction went.

use crate::Ending;
use serde::Serialize;

/// The account of messages and transactions. At any time:
///
/// ```text
/// messages = in transactions + continued + malformed + cut + in open transactions
/// begun    = Σ ended + open
/// bytes delivered by streams = messages_bytes + framing + unread + not_dns + kept
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DnsLedger {
    /// Datagrams that were taken for messages, and messages of streams that came whole.
    pub messages: u64,
    /// Of these: queries.
    pub queries: u64,
    /// Of these: answers.
    pub responses: u64,
    /// Messages of transactions that ended.
    pub in_transactions: u64,
    /// Messages behind the first of a zone transfer.
    pub continued: u64,
    /// Came to a port of DNS, and are no messages.
    pub malformed: u64,
    /// Too little was captured of them.
    pub cut: u64,
    /// Queries that came again: part of their transactions.
    pub retransmitted: u64,
    /// Transactions that began.
    pub begun: u64,
    /// Transactions that ended, by how, at [`Ending::index`].
    pub ended: [u64; Ending::ALL.len()],
    /// Bytes of messages in streams.
    pub message_bytes: u64,
    /// Bytes of the lengths before them.
    pub framing_bytes: u64,
    /// Bytes of streams of DNS where no message was found: behind a gap for one.
    pub unread_bytes: u64,
    /// Bytes of connections that carry something else.
    pub not_dns_bytes: u64,
}

impl DnsLedger {
    /// Transactions that ended.
    pub fn ended(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// True if no message, no transaction and no byte is missing: of `delivered` bytes of streams,
    /// while `kept` bytes are in messages that are not whole, and `open` transactions, which have
    /// `open_messages`, are not over.
    pub fn balances(&self, delivered: u64, kept: u64, open: u64, open_messages: u64) -> bool {
        let messages = self.in_transactions + self.continued + self.malformed + self.cut;
        let bytes =
            self.message_bytes + self.framing_bytes + self.unread_bytes + self.not_dns_bytes;
        messages + open_messages == self.messages
            && self.ended() + open == self.begun
            && bytes + kept == delivered
    }
}
