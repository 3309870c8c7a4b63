//! What the two parsers have in common: one step over the bytes at hand, without I/O.

use crate::block::{BlockEnd, BlockHeader};
use ringside_core::FrameMeta;
use std::fmt;

/// How far a step of the reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To a ring block, whose frames come next.
    RingBlock(BlockHeader),
    /// Past a ring block, or a part of another file, of which no frame is asked for.
    Passed(Option<BlockHeader>, BlockEnd),
    /// To frames.
    Frames,
    /// To the end, or to the time limit.
    Nothing,
}

/// What stands at the beginning of the bytes.
#[derive(Debug)]
pub(super) enum Step {
    /// A frame.
    Frame {
        /// Length of the whole record.
        record_bytes: usize,
        /// Where in the record the frame's bytes begin.
        data_at: usize,
        /// Captured bytes.
        captured: u32,
        /// The rest. The interface id is that of the whole input, over all sections.
        meta: FrameMeta,
    },
    /// The header of a ring block, if it stands where ring blocks begin: 40 bytes without a frame.
    RingBlock(BlockHeader),
    /// Room for a ring block, if it stands where ring blocks begin: bytes as in `Skip`.
    Room(usize),
    /// Bytes without a frame, as many as may lie beyond those at hand.
    Skip(usize),
    /// At least this number of bytes is needed from here on.
    Need(usize),
}

/// Why the bytes cannot be read on. A parser that said so says it again.
pub(super) type Damage = String;

/// The time of a frame that no stamp can hold: it is damaged, and the frame is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BeyondTime {
    /// Seconds since 1970.
    pub(super) seconds: i128,
}

impl fmt::Display for BeyondTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.seconds < 0 { "before 1970" } else { "after 2554" };
        write!(f, "{} s, {side}", self.seconds)
    }
}

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }
}
