//! How far a merging writer got, in words for the process that goes on when it has died.

use super::Named;
use ringside_core::ledger::{LEDGER_SPARE_AT, Words};

/// Where the writer was when it last said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Which file.
    pub(crate) named: Named,
    /// Bytes of it that are whole records, or of a compressed one whole parts.
    pub(crate) bytes: u64,
    /// The writer has ended it: nothing belongs behind those bytes.
    pub(crate) is_ended: bool,
}

impl Position {
    /// Puts it into words that are free.
    pub(crate) fn add_to(self, words: &mut Words) {
        let Named { number, seconds, is_numbered } = self.named;
        words[LEDGER_SPARE_AT] = number;
        words[LEDGER_SPARE_AT + 1] = self.bytes;
        words[LEDGER_SPARE_AT + 2] =
            seconds << 2 | u64::from(self.is_ended) << 1 | u64::from(is_numbered);
    }

    pub(crate) fn from_words(words: &Words) -> Position {
        let begun = words[LEDGER_SPARE_AT + 2];
        let (seconds, is_ended, is_numbered) = (begun >> 2, begun & 2 != 0, begun & 1 != 0);
        let named = Named { number: words[LEDGER_SPARE_AT], seconds, is_numbered };
        Position { named, bytes: words[LEDGER_SPARE_AT + 1], is_ended }
    }
}
