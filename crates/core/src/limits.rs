//! Every capacity that crosses a crate's border, with its reason. A limit that only one file
//! needs stands in that file.

use std::time::Duration;

/// Frames in a batch. Enough that a virtual call and a release store per batch do not show
/// (under 0.1 ns a frame), small enough that the slots stay in the first-level cache.
pub const BATCH_FRAMES_MAX: usize = 256;

/// Longest frame that is captured whole, in bytes: what tcpdump and Wireshark accept as a snapshot
/// length (MAXIMUM_SNAPLEN). Longer frames (BIG TCP) are cut, and their wire length is kept.
pub const FRAME_BYTES_MAX: u32 = 262_144;

/// Lanes of one run. A fanout group holds at most 256 members (PACKET_FANOUT_MAX before 5.12).
pub const LANES_MAX: usize = 256;

/// Threads of one lane. What they do one after the other is a tenth of what they do side by side
/// (large frames), so that more would wait.
pub const LANE_THREADS_MAX: usize = 16;

/// Interfaces of one run or one file. Files that name more are refused: each costs memory, and the
/// number comes from outside.
pub const INTERFACES_MAX: usize = 65_536;

/// Bytes of a block of the capture ring, unless asked otherwise: large enough that a write of one
/// block runs at the disk's speed, small enough that eight lanes fit in the caches' reach.
pub const RING_BLOCK_BYTES: usize = 1 << 20;

/// Largest block of the capture ring. tcpdump refuses pcapng blocks above 16 MiB, and padding may
/// be as long as a block.
pub const RING_BLOCK_BYTES_MAX: usize = 8 << 20;

/// Smallest block: holds one frame of `FRAME_BYTES_MAX` and its closing statistics.
pub const RING_BLOCK_BYTES_MIN: usize = 512 << 10;

/// How long a live merge holds a frame back for a lane that may still deliver an earlier one, in
/// nanoseconds; the block time-out of the backend is added.
pub const MERGE_HOLD_NS: u64 = 20_000_000;

/// How long a source that was detached, or one that waits for room, may bring no frame before it is
/// given up. A full kernel ring is copied in well under a second; what is still there after this is
/// an imbalance.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
