//! What HTTP may use in addition to its streams.

/// What transactions may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of the streams below.
    pub streams: ringside_streams::Limits,
}

/// Bytes of a head. Servers take 8 to 64 KiB; what goes on is not read further.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// Requests of a connection without an answer yet. Clients pipeline some ten at most.
pub(crate) const PIPELINED_MAX: usize = 100;

/// Responses of a connection that wait for requests which may come behind them.
pub(crate) const EARLY_MAX: usize = 8;

/// Memory of all heads that are not whole yet, and of all transactions that are not over: some
/// 60,000 of a usual size. What comes beyond that is counted, and not kept.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 20;

/// Bytes that are kept of a request's target; more are cut off. Servers take 8 KiB.
pub(crate) const TARGET_BYTES_MAX: usize = 8 << 10;

/// Bytes that are kept of any other field.
pub(crate) const FIELD_BYTES_MAX: usize = 1 << 10;

/// Pieces of a direction in which a message is looked for where the connection was seen from its
/// start: the greetings of a proxy or of TLS come before.
pub(crate) const PROBES_MAX: u8 = 16;
