//! What streams may use, and which of two versions of a byte counts.

use std::time::Duration;

/// Which bytes count where a segment says something else than an earlier one did. Only bytes that
/// wait for others before them can be said twice: what was handed on is said. Hosts differ (Novak
/// and Sturges, "Target-Based TCP Stream Reassembly", 2007).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// What came first, as Windows has it.
    #[default]
    First,
    /// What begins earlier in the stream; of the same beginning what came first, as BSD and its
    /// descendants have it, and mostly Linux.
    Leftmost,
    /// What came last, as Cisco's IOS has it.
    Last,
}

/// What streams may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are followed. One more takes the place of the one of eight that was silent
    /// for longest.
    pub connections: usize,
    /// Bytes that are kept of one direction because others before them have not come.
    pub side_bytes: usize,
    /// The same of all of them. One more byte makes the one that waits for longest give up.
    pub held_bytes: usize,
    /// How long is waited for bytes that have not come. Without waiting, whatever lies ahead comes
    /// after a gap at once: for captures that leave most segments out.
    pub wait: Duration,
    /// A connection is over when no packet came for so long.
    pub idle: Duration,
    /// Which of two versions of a byte counts.
    pub overlap: Overlap,
}

impl Limits {
    /// A busy server has that many; some 55 MB.
    pub const CONNECTIONS: usize = 1 << 18;
    /// The window of most hosts, unless tuned for long fat networks.
    pub const SIDE_BYTES: usize = 4 << 20;
    /// What a burst of loss on a link of 10 Gbit/s leaves waiting for 50 ms.
    pub const HELD_BYTES: usize = 64 << 20;
    /// Longer than most time-outs of retransmission, which begin at a second.
    pub const WAIT: Duration = Duration::from_secs(3);
    /// A server closes what is idle after one to two minutes; long polls wait that long.
    pub const IDLE: Duration = Duration::from_secs(300);
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: Limits::CONNECTIONS,
            side_bytes: Limits::SIDE_BYTES,
            held_bytes: Limits::HELD_BYTES,
            wait: Limits::WAIT,
            idle: Limits::IDLE,
            overlap: Overlap::First,
        }
    }
}

/// Pieces that are kept of one direction. A window of 4 MiB in segments of an Ethernet is less.
pub(crate) const PIECES_MAX: usize = 4_096;

/// Memory of a piece in addition to its bytes, as it is counted against the limits: its place among
/// the others, and what an allocator adds.
pub(crate) const PIECE_BYTES: usize = 64;

/// Connections of which no payload has come yet. They have places of their own, so that a flood of
/// SYNs drives out nothing but such; some 9 MB.
pub(crate) const OPENING_MAX: usize = 65_536;

/// How long is waited for bytes that the receiver says it has: they were lost on the way to us, and
/// come late only if two lanes of a capture are merged out of order.
pub(crate) const ACKED_WAIT_NS: u64 = 250_000_000;

/// How far a segment may lie beyond the receiver's window, as far as we know that: its
/// acknowledgments may be missing. What lies further ahead no host takes.
pub(crate) const WINDOW_SLACK_BYTES: u32 = 4 << 20;

/// How long a connection that is over is remembered, for what is sent again: longer than a round
/// trip round the world.
pub(crate) const LINGER_NS: u64 = 2_000_000_000;
