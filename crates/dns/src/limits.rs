//! What DNS may use in addition to its streams.

/// What transactions may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queries that wait for an answer, and transactions that are remembered for what comes twice.
    /// One more takes the place of the oldest of eight.
    pub transactions: usize,
    /// Of the streams below.
    pub streams: ringside_streams::Limits,
}

impl Limits {
    /// Ten seconds of 6,500 unanswered queries each; some 40 MB with the longest names.
    pub const TRANSACTIONS: usize = 1 << 16;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { transactions: Limits::TRANSACTIONS, streams: ringside_streams::Limits::default() }
    }
}

/// How long a query waits for its answer after it was sent last, as Zeek has it: a stub resolver
/// asks again after 5 s. For as long an answered one is remembered.
pub(crate) const ANSWER_WAIT_NS: u64 = 10_000_000_000;

/// Records of an answer section that are kept: as many as lines of `read` have. Real answers have
/// tens; the count of all is kept.
pub(crate) const ANSWERS_MAX: u16 = 256;

/// Characters of one record's data that are kept: a key of DNSSEC has some 700.
pub(crate) const DATA_CHARS_MAX: usize = 1_024;

/// Memory of messages over TCP that are not whole yet. One has 64 KiB at most; what comes beyond
/// that is counted, and not kept.
pub(crate) const KEPT_BYTES_MAX: usize = 16 << 20;
