//! The filling end: free chunks into the fill ring.

use super::cursor::{Ordering, ProducerCursor};
use super::receive::Claim;
use super::ring::RingMemory;
use super::umem::{Chunk, Umem};
use std::sync::Arc;

/// Chunks that are handed to the kernel at once. Of more it sees the first while the others are
/// still written: a new lane of a million chunks receives at once.
const REFILL_MAX: u32 = 4096;

/// The filling end of a lane. Used by one thread at a time.
///
/// The kernel gets `level` chunks; the others wait in a reserve, from which the last one used goes
/// out first, because it is still in the caches.
pub struct FillRing {
    ring: RingMemory,
    cursor: ProducerCursor,
    umem: Arc<Umem>,
    reserve: Vec<Chunk>,
    level: u32,
    /// Looks that found the fill ring empty.
    starved: u64,
}

impl FillRing {
    /// The end of a new ring with room for all of `chunks`, which are in the reserve at first.
    pub(super) fn new(ring: RingMemory, umem: Arc<Umem>, chunks: Vec<Chunk>) -> FillRing {
        let mut reserve = chunks;
        reserve.reverse();
        let size = umem.layout().chunks_per_lane;
        let cursor = ProducerCursor::new(size);
        FillRing { ring, cursor, umem, reserve, level: size, starved: 0 }
    }

    /// Has the kernel hold about `level` chunks from now on, at most the size of the ring.
    pub fn set_level(&mut self, level: u32) {
        self.level = level;
    }

    /// Takes the chunks of `claim` back, which is empty then, and hands the kernel what it lacks.
    /// Returns how many chunks it got.
    ///
    /// # Panics
    /// If the claim is of other memory.
    #[inline]
    pub fn give_back(&mut self, claim: &mut Claim) -> u32 {
        assert!(Arc::ptr_eq(claim.umem(), &self.umem), "chunks go back where they came from");
        let reserve = &mut self.reserve;
        claim.take_chunks(|chunk| reserve.push(chunk));
        self.refill()
    }

    /// Hands the kernel what it lacks.
    #[inline]
    pub fn refill(&mut self) -> u32 {
        self.cursor.look(self.ring.words());
        let filled = self.cursor.filled();
        self.starved += u64::from(filled == 0);
        let wanted = self.level.saturating_sub(filled).min(REFILL_MAX);
        let wanted = wanted.min(self.reserve.len() as u32);
        let count = self.cursor.free(self.ring.words(), wanted);
        if count == 0 {
            return 0;
        }
        let from = self.reserve.len() - count as usize;
        for (ahead, chunk) in (0..count).zip(self.reserve.drain(from..).rev()) {
            self.ring.write(self.cursor.slot(ahead), chunk.0);
        }
        self.cursor.publish(self.ring.words(), count);
        count
    }

    /// Looks that found the kernel without a chunk, the first one left out.
    pub fn starved(&self) -> u64 {
        self.starved.saturating_sub(1)
    }

    /// Chunks that are not with the kernel and not claimed.
    pub fn in_reserve(&self) -> usize {
        self.reserve.len()
    }

    /// The chunks in the reserve.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn reserve(&self) -> impl Iterator<Item = u64> {
        self.reserve.iter().map(|chunk| chunk.0)
    }

    /// The new ring as if `passed` entries had passed through it.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn set_passed(&mut self, passed: u32) {
        self.cursor = ProducerCursor::after(passed, self.umem.layout().chunks_per_lane);
        self.ring.set_passed(passed);
    }

    /// True if the kernel wants a system call to go on (XDP_RING_NEED_WAKEUP).
    pub fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
