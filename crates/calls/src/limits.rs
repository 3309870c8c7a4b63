//! What calls may use in addition to TCP streams.

/// What calls may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that are followed. One more takes the place of the one that was due to end first.
    pub calls: usize,
    /// Streams of media, of calls and of none. One more takes the place of one of no call that is
    /// due first; if all are of calls it is counted and left out.
    pub streams: usize,
    /// Of the TCP streams that carry SIP.
    pub tcp: ringside_streams::Limits,
}

impl Limits {
    /// A switch of an operator has some ten thousand at once.
    pub const CALLS: usize = 100_000;
    /// Two for each call, of as many as may have media here: 100 kbit/s each are 20 Gbit/s.
    pub const STREAMS: usize = 200_000;

    /// Memory that calls and streams take at most, without that of TCP streams.
    pub fn bytes(&self) -> usize {
        let calls = self.calls * (CALL_BYTES + ENDPOINTS_PER_CALL_MAX * ENDPOINT_BYTES);
        calls.min(self.calls * CALL_BYTES + ENDPOINTS_MAX * ENDPOINT_BYTES)
            + self.streams * STREAM_BYTES
            + KEPT_BYTES_MAX
    }
}

impl Default for Limits {
    fn default() -> Limits {
        let tcp = ringside_streams::Limits::default();
        Limits { calls: Limits::CALLS, streams: Limits::STREAMS, tcp }
    }
}

/// Bytes of a Call-ID; that of a message with a longer one cannot be followed.
pub(crate) const CALL_ID_BYTES_MAX: usize = 256;

/// Bytes that are kept of any other field.
pub(crate) const FIELD_BYTES_MAX: usize = 128;

/// Streams of a call: two parties, sound and pictures, a few new ones with each re-INVITE.
pub(crate) const STREAMS_PER_CALL_MAX: usize = 32;

/// Endpoints of media that one call announces: as many, with one for RTCP each.
pub(crate) const ENDPOINTS_PER_CALL_MAX: usize = 64;

/// Endpoints of media of all calls.
pub(crate) const ENDPOINTS_MAX: usize = 400_000;

/// Parties that a forked call reaches and that are kept apart.
pub(crate) const FORKS_MAX: usize = 16;

/// Codecs of a medium.
pub(crate) const CODECS_MAX: usize = 32;

/// Keys that are kept of one stream.
pub(crate) const DIGITS_MAX: usize = 64;

/// Bytes of a SIP message over TCP. Descriptions of browsers have some 10 KB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Memory of all SIP messages that are not whole yet.
pub(crate) const KEPT_BYTES_MAX: usize = 64 << 20;

/// What a call takes at most, with its texts and what tables and the allocator add.
const CALL_BYTES: usize = 3_072;

/// What an endpoint takes at most: the same, with a share of its codecs.
const ENDPOINT_BYTES: usize = 512;

/// What a stream takes at most.
const STREAM_BYTES: usize = 1_536;

/// How long a call is kept that is over: for what is sent again, and media under way.
pub(crate) const LINGER_NS: u64 = 5_000_000_000;

/// How long another attempt is waited for after a challenge (RFC 3261: 64 times T1).
pub(crate) const RETRY_NS: u64 = 32_000_000_000;

/// How long a call may be without an answer and without a message: timer C of a proxy, and a bit.
pub(crate) const UNANSWERED_NS: u64 = 200_000_000_000;

/// How long an answered call may be without any packet: sessions are refreshed at least every half
/// hour where timers are used (RFC 4028).
pub(crate) const SILENT_NS: u64 = 3_600_000_000_000;

/// How long a stream of no call may be silent.
pub(crate) const STREAM_IDLE_NS: u64 = 30_000_000_000;

/// How long what may be a stream may be silent before it is known.
pub(crate) const CANDIDATE_IDLE_NS: u64 = 3_000_000_000;

/// Packets with consecutive numbers that make a stream of what no call announced: 2^-32 by chance.
pub(crate) const CONSECUTIVE_MIN: u8 = 3;
