//! Sizes of a ring, where its parts lie in the shared memory, and why a ring could not be had.
//!
//! A page with the ring's own description comes first ([`super::header`]), then the lanes' headers,
//! their boards, the slots' headers, and from a page's border on the blocks.

use super::board::{BOARD_BYTES, BOARDS_PER_LANE};
use super::cursor::{LANE_BYTES, LOSSLESS_READERS_MAX, SLOT_BYTES};
use ringside_core::limits::{LANES_MAX, RING_BLOCK_BYTES_MAX, RING_BLOCK_BYTES_MIN};
use ringside_sys::mmap::HUGE_PAGE_BYTES;
use ringside_sys::shared_memory::{BLOCK_BYTES_MAX, PAGE_BYTES, PIECE_BYTES, Shape};
use thiserror::Error;

/// Blocks of one lane. 65,536 blocks of 1 MiB are 64 GiB, more than a machine of today gives to
/// one queue.
const BLOCKS_PER_LANE_MAX: usize = 65_536;

// No block lies in two of the pieces that io_uring registers.
const _: () = assert!(
    RING_BLOCK_BYTES_MAX <= BLOCK_BYTES_MAX && PIECE_BYTES.is_multiple_of(RING_BLOCK_BYTES_MAX)
);

/// Sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Lanes, 1 to `LANES_MAX`.
    pub lanes: usize,
    /// Blocks of each lane, at least 2: a copying reader needs one that the writer is not in.
    pub blocks_per_lane: usize,
    /// Bytes of a block, a power of two from 512 KiB to 8 MiB.
    pub block_bytes: usize,
    /// Lossless readers of each lane, 0 to `LOSSLESS_READERS_MAX`.
    pub lossless_readers: usize,
}

impl RingLayout {
    pub(crate) fn check(&self) -> Result<(), RingError> {
        let range = |name, value, min, max| {
            let inside = (min..=max).contains(&value);
            if inside { Ok(()) } else { Err(RingError::Layout { name, value, min, max }) }
        };
        range("lanes", self.lanes, 1, LANES_MAX)?;
        range("blocks per lane", self.blocks_per_lane, 2, BLOCKS_PER_LANE_MAX)?;
        range("block bytes", self.block_bytes, RING_BLOCK_BYTES_MIN, RING_BLOCK_BYTES_MAX)?;
        range("lossless readers", self.lossless_readers, 0, LOSSLESS_READERS_MAX)?;
        if self.block_bytes.is_power_of_two() {
            Ok(())
        } else {
            Err(RingError::NotPowerOfTwo(self.block_bytes))
        }
    }

    pub(crate) fn lanes_offset(&self) -> usize {
        PAGE_BYTES
    }

    pub(crate) fn boards_offset(&self) -> usize {
        self.lanes_offset() + self.lanes * LANE_BYTES
    }

    pub(crate) fn slots_offset(&self) -> usize {
        self.boards_offset() + self.lanes * BOARDS_PER_LANE * BOARD_BYTES
    }

    pub(crate) fn data_offset(&self) -> usize {
        let slots = self.lanes * self.blocks_per_lane * SLOT_BYTES;
        (self.slots_offset() + slots).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of all blocks.
    pub(crate) fn data_bytes(&self) -> usize {
        self.lanes * self.blocks_per_lane * self.block_bytes
    }

    /// Bytes of the whole memory, a multiple of [`HUGE_PAGE_BYTES`].
    pub fn total_bytes(&self) -> usize {
        (self.data_offset() + self.data_bytes()).next_multiple_of(HUGE_PAGE_BYTES)
    }

    /// The parts of the memory.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            words_bytes: self.data_offset(),
            blocks: self.lanes * self.blocks_per_lane,
            block_bytes: self.block_bytes,
            total_bytes: self.total_bytes(),
        }
    }

    /// Blocks from this one on that lie in the same of the pieces that io_uring registers.
    pub(crate) fn blocks_to_piece_end(&self, lane: usize, slot: usize) -> usize {
        let per_piece = PIECE_BYTES / self.block_bytes;
        per_piece - self.block_index(lane, slot) % per_piece
    }

    /// A block's place among all blocks of the memory.
    pub(crate) fn block_index(&self, lane: usize, slot: usize) -> usize {
        lane * self.blocks_per_lane + slot
    }
}

/// Why a ring could not be made, shared or attached to.
#[derive(Debug, Error)]
pub enum RingError {
    /// A size outside its limits.
    #[error("capture ring: {name} is {value}, must be {min} to {max}")]
    Layout {
        /// Name of the size.
        name: &'static str,
        /// What was asked.
        value: usize,
        /// The least that is allowed.
        min: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// A block size that is no power of two.
    #[error("capture ring: block of {0} bytes is not a power of two")]
    NotPowerOfTwo(usize),
    /// The system refused the memory.
    #[error("capture ring: cannot get {bytes} bytes of shared memory ({source}); ask for less")]
    Memory {
        /// How much.
        bytes: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The ring's memory could not be sealed.
    #[error("capture ring: cannot seal its memory ({0})")]
    Seal(std::io::Error),
    /// What was handed over is not a capture ring.
    #[error("capture ring: what was handed over is not one")]
    NotARing,
    /// A ring of another version of Ringside.
    #[error("capture ring: version {found}, this program knows {known}; use the same version")]
    Version {
        /// Of the ring.
        found: u64,
        /// Of this program.
        known: u64,
    },
    /// The ring's description contradicts itself.
    #[error("capture ring: {field} is {found}, must be {expected}; the ring is damaged")]
    Damaged {
        /// Name of the word.
        field: &'static str,
        /// What stands there.
        found: u64,
        /// What the sizes say.
        expected: u64,
    },
    /// The memory behind the descriptor is smaller than the ring.
    #[error("capture ring: {found} bytes of memory, its description says {expected}")]
    TooSmall {
        /// Bytes behind the descriptor.
        found: u64,
        /// Bytes that the ring needs.
        expected: u64,
    },
    /// The owner could take the memory away.
    #[error("capture ring: its memory is not sealed, so its owner could take it away")]
    NotSealed,
    /// The memory could not be read or mapped.
    #[error("capture ring: cannot attach to its memory ({0})")]
    Attach(std::io::Error),
}
