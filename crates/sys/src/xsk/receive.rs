//! The receiving end: descriptors out of the receive ring.

use super::cursor::{ConsumerCursor, Ordering};
use super::layout::RawDescriptor;
use super::ring::RingMemory;
use super::umem::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Chunk, HEADROOM_BYTES, Umem, UmemLayout};
use ringside_core::limits::BATCH_FRAMES_MAX;
use std::ops::Range;
use std::sync::Arc;

/// The most parts that a frame has. The kernel keeps a frame in a page and up to 17 more, or 45 if
/// it was built so (CONFIG_MAX_SKB_FRAGS), and copies it to parts that are shorter than pages.
pub const PARTS_PER_FRAME_MAX: usize = 128;
const _: () = {
    let part_bytes = (CHUNK_BYTES_MIN - HEADROOM_BYTES) as usize;
    assert!(PARTS_PER_FRAME_MAX * part_bytes >= 46 * CHUNK_BYTES_MAX as usize);
};

/// Descriptors in one claim: a batch of frames; and one frame of many parts always fits.
const CLAIM_PARTS_MAX: usize = BATCH_FRAMES_MAX;
const _: () = assert!(CLAIM_PARTS_MAX > PARTS_PER_FRAME_MAX);

/// One frame, or a part of it, that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of its first byte in the memory.
    pub offset: usize,
    /// Its length.
    pub bytes: u32,
    /// Bytes before it in its chunk.
    pub headroom: u16,
    /// The frame goes on in the next part.
    pub continues: bool,
}

/// Parts of whole frames that were taken out of the receive ring, in order, with the chunks that
/// they lie in: as long as it exists no other thread touches those. It ends by being given back
/// ([`FillRing::give_back`](super::FillRing::give_back)); one that is dropped with parts in it
/// takes their chunks out of use.
pub struct Claim {
    umem: Arc<Umem>,
    parts: Vec<Part>,
    /// Frames that were left out.
    damaged: u64,
}

impl Claim {
    /// An empty one, to be filled again and again.
    pub fn new(umem: Arc<Umem>) -> Claim {
        Claim { umem, parts: Vec::with_capacity(CLAIM_PARTS_MAX), damaged: 0 }
    }

    /// The parts; the last one ends a frame, and the first begins one.
    #[inline]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The memory that the parts lie in. Of its bytes only those within the chunks of
    /// [`parts`](Self::parts), and in the lane's arena, mean anything.
    #[inline]
    pub fn memory(&self) -> &[u8] {
        self.umem.memory()
    }

    /// Frames, since this was last asked, that were left out: with a descriptor that named no
    /// chunk, or of more parts than [`PARTS_PER_FRAME_MAX`]. Only a broken kernel makes such. What
    /// else their descriptors named is not believed either: their chunks are out of use.
    #[inline]
    pub fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// Changes the bytes before and within a part: from the start of its chunk to its end. `change`
    /// gets them, and where the part begins.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn edit<R>(&mut self, part: usize, change: impl FnOnce(&mut [u8], usize) -> R) -> R {
        let part = self.parts[part];
        let start = part.offset - usize::from(part.headroom);
        let bytes = usize::from(part.headroom) + part.bytes as usize;
        // SAFETY: the chunk was checked to lie in the memory and to hold the part; it is this
        // claim's alone, because the kernel names each chunk that it was given once, and
        // `&mut self` excludes what else this claim lends of it.
        let slice = unsafe { std::slice::from_raw_parts_mut(self.umem.as_ptr().add(start), bytes) };
        change(slice, usize::from(part.headroom))
    }

    /// Changes the arena of a lane; `change` gets its bytes, and where in the memory they begin.
    ///
    /// # Panics
    /// If the arena is of other memory.
    pub fn edit_arena<R>(
        &mut self,
        arena: &mut LaneArena,
        change: impl FnOnce(&mut [u8], usize) -> R,
    ) -> R {
        assert!(Arc::ptr_eq(&arena.umem, &self.umem), "the arena lies in the same memory");
        let Range { start, end } = arena.range;
        // SAFETY: the arena lies in the memory, the kernel does not know it, and it has one owner,
        // who has lent it to no other thread during this call; no batch of frames joined there is
        // out while its claim can be borrowed exclusively.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.umem.as_ptr().add(start), end - start) };
        change(bytes, start)
    }

    /// Copies part `part` to `at` in the arena of `lane`; false if it does not fit.
    ///
    /// # Panics
    /// If there is no such part, or the arena is of other memory.
    pub fn copy_to_arena(&mut self, part: usize, arena: &mut LaneArena, at: usize) -> bool {
        assert!(Arc::ptr_eq(&arena.umem, &self.umem), "the arena lies in the same memory");
        let part = self.parts[part];
        let bytes = part.bytes as usize;
        let Range { start, end } = arena.range;
        if at < start || at.checked_add(bytes).is_none_or(|copy_end| copy_end > end) {
            return false;
        }
        // SAFETY: the part lies in a chunk of this claim, the target in the arena, which has no
        // chunk in it: both are in the memory and do not overlap. No other thread has the arena.
        unsafe {
            let base = self.umem.as_ptr();
            base.add(part.offset).copy_to_nonoverlapping(base.add(at), bytes);
        }
        true
    }

    /// Takes the chunks out, for who gives them back.
    #[inline]
    pub(super) fn take_chunks(&mut self, mut each: impl FnMut(Chunk)) {
        for part in &self.parts {
            each(Chunk(part.offset as u64 - u64::from(part.headroom)));
        }
        self.parts.clear();
    }

    pub(super) fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }
}

/// The arena of one lane, or of one of its threads, owned by who joins frames there.
pub struct LaneArena {
    umem: Arc<Umem>,
    range: Range<usize>,
}

impl LaneArena {
    pub(super) fn new(umem: Arc<Umem>, range: Range<usize>) -> LaneArena {
        LaneArena { umem, range }
    }

    /// Cuts it into `count` of one size, for as many threads.
    pub fn split(self, count: usize) -> Vec<LaneArena> {
        let Range { start, end } = self.range;
        let bytes = (end - start) / count.max(1);
        let at = |index: usize| start + index * bytes;
        let umem = &self.umem;
        let piece = |index| LaneArena { umem: umem.clone(), range: at(index)..at(index + 1) };
        (0..count).map(piece).collect()
    }

    /// Where it lies in the memory.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// The receiving end of a lane. Used by one thread at a time.
pub struct RxRing {
    ring: RingMemory,
    cursor: ConsumerCursor,
    umem: Arc<Umem>,
    /// Frames may come in several parts.
    has_parts: bool,
    /// The next descriptor continues a frame that is left out.
    is_skipping: bool,
    high_water: u32,
}

impl RxRing {
    pub(super) fn new(ring: RingMemory, size: u32, umem: Arc<Umem>) -> RxRing {
        let cursor = ConsumerCursor::new(size);
        RxRing { ring, cursor, umem, has_parts: false, is_skipping: false, high_water: 0 }
    }

    /// From now on frames may come in several parts (XDP_USE_SG).
    pub fn expect_parts(&mut self) {
        self.has_parts = true;
    }

    /// Takes the next parts, of whole frames and at most a batch of them, into `claim`. Returns
    /// their number; 0 if no whole frame waits.
    ///
    /// # Panics
    /// If the claim is not empty, or of other memory.
    #[inline]
    pub fn claim(&mut self, claim: &mut Claim) -> usize {
        assert!(claim.parts.is_empty(), "a claim is given back before it is filled again");
        assert!(Arc::ptr_eq(&claim.umem, &self.umem), "the claim is of the ring's memory");
        // Where all that was taken was damaged, on to the next: at most a ring full of it.
        let mut left = self.cursor.size();
        while left > 0 && claim.parts.is_empty() {
            let count = self.take(claim, CLAIM_PARTS_MAX as u32);
            if count == 0 {
                break;
            }
            left = left.saturating_sub(count);
        }
        claim.parts.len()
    }

    /// Takes at most `wanted` descriptors; returns how many.
    #[inline]
    fn take(&mut self, claim: &mut Claim, wanted: u32) -> u32 {
        let mut count = self.look(wanted);
        if self.has_parts {
            count = self.whole_frames(count);
        }
        if count == 0 {
            return 0;
        }
        let layout = self.umem.layout();
        // Parts at the end of the claim whose frame goes on.
        let mut open = 0;
        for ahead in 0..count {
            let raw: RawDescriptor = self.ring.read(self.cursor.slot(ahead));
            match checked(&raw, &layout) {
                Some(part) if !self.is_skipping && open < PARTS_PER_FRAME_MAX => {
                    open = if part.continues { open + 1 } else { 0 };
                    claim.parts.push(part);
                }
                _ => open = self.leave_out(claim, open, raw.continues()),
            }
        }
        if open > 0 {
            self.leave_out(claim, open, true);
        }
        self.cursor.release(self.ring.words(), count);
        count
    }

    /// Of `count` descriptors those that make whole frames.
    fn whole_frames(&self, count: u32) -> u32 {
        let beyond = count.saturating_sub(PARTS_PER_FRAME_MAX as u32);
        for whole in (beyond + 1..=count).rev() {
            let last: RawDescriptor = self.ring.read(self.cursor.slot(whole - 1));
            if !last.continues() {
                return whole;
            }
        }
        // The end of a frame is published together with its beginning. One that has as many parts
        // as a frame may have, or as the ring holds, and no end, never gets one: it is left out.
        let is_endless =
            count - beyond == PARTS_PER_FRAME_MAX as u32 || count == self.cursor.size();
        if is_endless { count } else { 0 }
    }

    /// Leaves out a descriptor with its frame: the last `open` parts of the claim, and what comes
    /// of it. Returns the number of parts at the end of the claim whose frame goes on: none.
    #[cold]
    fn leave_out(&mut self, claim: &mut Claim, open: usize, continues: bool) -> usize {
        claim.damaged += u64::from(!self.is_skipping);
        claim.parts.truncate(claim.parts.len() - open);
        self.is_skipping = continues;
        0
    }

    /// How many descriptors wait, at most `wanted`. Looks at the kernel's index if those that were
    /// seen do not suffice.
    #[inline]
    fn look(&mut self, wanted: u32) -> u32 {
        let ready = self.cursor.ready(self.ring.words(), wanted);
        self.high_water = self.high_water.max(self.cursor.waiting());
        ready
    }

    /// True if nothing waits now.
    pub fn is_empty(&mut self) -> bool {
        self.look(1) == 0
    }

    /// Descriptors that wait. Looks at the kernel's index.
    pub fn waiting(&mut self) -> u32 {
        self.look(u32::MAX)
    }

    /// Frames that wait: descriptors that end one. Looks at the kernel's index.
    pub fn frames_waiting(&mut self) -> u64 {
        let count = self.waiting();
        let ends = (0..count).filter(|&ahead| {
            let raw: RawDescriptor = self.ring.read(self.cursor.slot(ahead));
            !raw.continues()
        });
        ends.count() as u64
    }

    /// Descriptors that waited at the last look at the kernel's index, and still do.
    #[inline]
    pub fn waiting_as_seen(&self) -> u32 {
        self.cursor.waiting()
    }

    /// Most descriptors that any look found waiting.
    pub fn high_water(&self) -> u32 {
        self.high_water
    }

    /// The new ring as if `passed` entries had passed through it.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn set_passed(&mut self, passed: u32) {
        self.cursor = ConsumerCursor::after(passed, self.cursor.size());
        self.ring.set_passed(passed);
    }

    /// True if the kernel wants a system call to go on (XDP_RING_NEED_WAKEUP).
    pub fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The part that a descriptor names, if it lies in one chunk.
#[inline]
fn checked(raw: &RawDescriptor, layout: &UmemLayout) -> Option<Part> {
    let chunk_bytes = u64::from(layout.chunk_bytes);
    let headroom = raw.address & (chunk_bytes - 1);
    // No sum overflows, and what begins in a chunk and is no longer than it ends there.
    let is_inside = raw.address < layout.chunks_bytes() as u64
        && headroom + u64::from(raw.bytes) <= chunk_bytes;
    is_inside.then_some(Part {
        offset: raw.address as usize,
        bytes: raw.bytes,
        headroom: headroom as u16,
        continues: raw.continues(),
    })
}
