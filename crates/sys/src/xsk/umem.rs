//! The memory that frames are received into (UMEM), cut into chunks.
//!
//! A chunk is in the kernel's hands (in a fill ring, being filled, or in a receive ring), in a
//! [`Claim`](super::Claim), or in the reserve of its lane's fill end. It moves between them as a
//! [`Chunk`], which is neither `Copy` nor `Clone`: what was given away cannot be given away again.
//!
//! Behind the chunks of all lanes lie their *arenas*, which the kernel does not know: there the
//! parts of a frame that is longer than a chunk are joined.

use crate::SysError;
use crate::mmap::Mapping;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Smallest chunk that the kernel takes (XDP_UMEM_MIN_CHUNK_SIZE): a frame of a usual MTU fits.
pub const CHUNK_BYTES_MIN: u32 = 2048;

/// Largest chunk: a page.
pub const CHUNK_BYTES_MAX: u32 = 4096;

/// Chunks of one lane. A million chunks of 2 KiB hold a tenth of a second of the smallest frames at
/// 10 Gb/s, longer than any stall that was seen.
pub const CHUNKS_PER_LANE_MAX: u32 = 1 << 20;

/// Bytes of one arena: far more than the parts of a whole batch, and sums of all lanes' cannot
/// overflow.
const ARENA_BYTES_MAX: usize = 1 << 30;

/// Most bytes that the kernel leaves free before the data (XDP_PACKET_HEADROOM).
pub const HEADROOM_BYTES: u32 = 256;

/// How the memory is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmemLayout {
    /// Lanes that share it.
    pub lanes: usize,
    /// Chunks of each lane, a power of two.
    pub chunks_per_lane: u32,
    /// Bytes of a chunk, [`CHUNK_BYTES_MIN`] or [`CHUNK_BYTES_MAX`].
    pub chunk_bytes: u32,
    /// Bytes of each lane's arena, at most a gibibyte.
    pub arena_bytes: usize,
}

impl UmemLayout {
    fn check(&self) -> Result<(), SysError> {
        let limit = |what, value: u64, limit: &str| SysError::Limit {
            what,
            value,
            limit: limit.to_owned(),
        };
        if !matches!(self.chunk_bytes, CHUNK_BYTES_MIN | CHUNK_BYTES_MAX) {
            return Err(limit("the chunk size", self.chunk_bytes.into(), "2048 or 4096"));
        }
        let chunks = self.chunks_per_lane;
        if !chunks.is_power_of_two() || !(64..=CHUNKS_PER_LANE_MAX).contains(&chunks) {
            let allowed = "a power of two from 64 to 1048576";
            return Err(limit("the number of chunks of a lane", chunks.into(), allowed));
        }
        if self.lanes == 0 || self.lanes > ringside_core::limits::LANES_MAX {
            return Err(limit("the number of lanes", self.lanes as u64, "1 to 256"));
        }
        if self.arena_bytes > ARENA_BYTES_MAX {
            let allowed = "1073741824";
            return Err(limit("the bytes of an arena", self.arena_bytes as u64, allowed));
        }
        Ok(())
    }

    /// Bytes of all chunks: what the kernel knows.
    #[inline]
    pub(super) fn chunks_bytes(&self) -> usize {
        self.lanes * self.chunks_per_lane as usize * self.chunk_bytes as usize
    }

    /// Where the arena of a lane begins.
    fn arena_at(&self, lane: usize) -> usize {
        self.chunks_bytes() + lane * self.arena_bytes
    }

    fn total_bytes(&self) -> usize {
        self.arena_at(self.lanes)
    }
}

/// A chunk, owned: where it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk(pub(super) u64);

/// The memory, mapped.
pub struct Umem {
    memory: Mapping,
    layout: UmemLayout,
    /// Lanes whose chunks and arena have their owner.
    taken: Box<[AtomicBool]>,
}

// SAFETY: shared access is to bytes of chunks and arenas alone, by those who own them: each chunk
// and each arena is given out once (`take_lane`), and then passed on by value.
unsafe impl Sync for Umem {}

impl Umem {
    /// New memory, touched, in huge pages as far as the system finds some.
    ///
    /// # Errors
    /// A size beyond its limit, or there is not enough memory.
    pub fn new(layout: UmemLayout) -> Result<Umem, SysError> {
        layout.check()?;
        let memory = Mapping::huge(layout.total_bytes())?;
        let taken = (0..layout.lanes).map(|_| AtomicBool::new(false)).collect();
        Ok(Umem { memory, layout, taken })
    }

    /// How it is cut.
    pub fn layout(&self) -> UmemLayout {
        self.layout
    }

    /// All of it, chunks and arenas.
    ///
    /// Which bytes of it mean something is known to who has claimed chunks: only those may be
    /// looked at, because the kernel writes to the others meanwhile.
    #[inline]
    pub fn memory(&self) -> &[u8] {
        // SAFETY: the mapping is as long, initialised (zeroed by the kernel), and lives as long as
        // `self`. The kernel writes to chunks in its hands while this slice exists, other threads
        // to chunks of their claims and to their arenas; no byte of those is read through it (see
        // above), so that no read meets a write. More is not relied on: the compiler takes only
        // those bytes of a slice to stand still that are read.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// The chunks and the arena of `lane`, once: each has one owner.
    ///
    /// # Panics
    /// If there is no such lane, or it was taken before.
    pub(super) fn take_lane(&self, lane: usize) -> (Vec<Chunk>, Range<usize>) {
        assert!(lane < self.layout.lanes, "lane {lane} of {}", self.layout.lanes);
        assert!(!self.taken[lane].swap(true, Ordering::Relaxed), "lane {lane} has its rings");
        let count = self.layout.chunks_per_lane as usize;
        let at = |chunk: usize| Chunk((chunk * self.layout.chunk_bytes as usize) as u64);
        let arena = self.layout.arena_at(lane);
        let chunks = (lane * count..(lane + 1) * count).map(at).collect();
        (chunks, arena..arena + self.layout.arena_bytes)
    }
}
