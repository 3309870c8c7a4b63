//! Where every segment and every byte went.

use crate::Cause;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The account of the streams. Of payload, in bytes on the wire:
///
/// ```text
/// received = delivered + repeated + cut + out_of_window + after_end + held
/// ```
///
/// And of what the directions said: `delivered + Σ gaps` is the length of all streams, as far as
/// their sequence numbers were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamLedger {
    /// Segments of TCP, of whatever kind.
    pub segments: u64,
    /// Of these: with payload.
    pub data_segments: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// Handed on.
    pub delivered_bytes: u64,
    /// Of these: waited for others before them.
    pub reordered_bytes: u64,
    /// Had come before, or came after a gap had taken their place.
    pub repeated_bytes: u64,
    /// Were not captured, because frames were cut.
    pub cut_bytes: u64,
    /// Lay further ahead than the receiver takes.
    pub out_of_window_bytes: u64,
    /// Came when the direction was over.
    pub after_end_bytes: u64,
    /// Wait.
    pub held_bytes: u64,
    /// Of those repeated: came with other contents than they had first, while they waited.
    pub conflicting_bytes: u64,
    /// Gaps, by cause, at their [`Cause::index`].
    pub gaps: [u64; Cause::ALL.len()],
    /// Bytes of those.
    pub gap_bytes: [u64; Cause::ALL.len()],
    /// Connections that were followed, from their first payload on.
    pub connections: u64,
    /// Of these: had to make room for others.
    pub displaced: u64,
    /// Connections without payload that had to make room for others.
    pub opening_displaced: u64,
    /// Resets with a number outside of the window, which no host takes.
    pub resets_ignored: u64,
}

impl StreamLedger {
    /// True if no byte is missing and none counted twice.
    pub fn balances(&self) -> bool {
        let accounted = self.delivered_bytes
            + self.repeated_bytes
            + self.cut_bytes
            + self.out_of_window_bytes
            + self.after_end_bytes
            + self.held_bytes;
        accounted == self.received_bytes
    }

    /// The account as JSON, with the gaps by their causes.
    pub fn json(&self) -> Value {
        let gaps = Cause::ALL.map(|cause| {
            let (count, bytes) = (self.gaps[cause.index()], self.gap_bytes[cause.index()]);
            (cause.name().to_owned(), json!({ "count": count, "bytes": bytes }))
        });
        let mut account = json!(self);
        account["gaps"] = gaps.into_iter().collect::<Map<_, _>>().into();
        if let Value::Object(account) = &mut account {
            account.remove("gap_bytes");
        }
        account
    }

    pub(crate) fn add_gap(&mut self, bytes: u32, cause: Cause) {
        self.gaps[cause.index()] += 1;
        self.gap_bytes[cause.index()] += u64::from(bytes);
    }
}
