//! The receiving end: descriptors out of the receive ring.

use super::cursor::{ConsumerCursor, Ordering};
use super::layout::RawDescriptor;
use super::ring::RingMemory;
use super::umem::{Chunk, Umem, UmemLayout};
use ringside_core::limits::BATCH_FRAMES_MAX;
use std::ops::Range;
use std::sync::Arc;

/// A frame has at most so many parts: what the kernel keeps in one buffer with fragments
/// (MAX_SKB_FRAGS of 17, and the head), and some.
pub const PARTS_PER_FRAME_MAX: usize = 32;

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

/// Parts that were taken out of the receive ring, in order, with the chunks that they lie in: as
/// long as it exists nobody else touches those. It ends by being given back
/// ([`FillRing::give_back`](super::FillRing::give_back)); one that is dropped with parts in it
/// takes their chunks out of use.
pub struct Claim {
    umem: Arc<Umem>,
    parts: Vec<Part>,
    /// Descriptors that named no place in the memory.
    damaged: u64,
}

impl Claim {
    /// An empty one, to be filled again and again.
    pub fn new(umem: Arc<Umem>) -> Claim {
        Claim { umem, parts: Vec::with_capacity(CLAIM_PARTS_MAX), damaged: 0 }
    }

    /// The parts; the last one ends a frame.
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

    /// Descriptors, since this was last asked, that named no place in the memory. They were left
    /// out, and their chunks are out of use: only a broken kernel makes such.
    #[inline]
    pub fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// Changes the bytes before and within a part: from the start of its chunk to its end. `change`
    /// gets them, and where the part begins.
    pub fn edit<R>(&mut self, part: usize, change: impl FnOnce(&mut [u8], usize) -> R) -> R {
        let part = self.parts[part];
        let start = part.offset - usize::from(part.headroom);
        let bytes = usize::from(part.headroom) + part.bytes as usize;
        // SAFETY: the chunk was checked to lie in the memory and to hold the part; it is this
        // claim's alone, and `&mut self` excludes every other slice of it.
        let slice = unsafe { std::slice::from_raw_parts_mut(self.umem.as_ptr().add(start), bytes) };
        change(slice, usize::from(part.headroom))
    }

    /// Changes the arena of a lane; `change` gets its bytes, and where in the memory they begin.
    pub fn edit_arena<R>(
        &mut self,
        lane: &LaneArena,
        change: impl FnOnce(&mut [u8], usize) -> R,
    ) -> R {
        let Range { start, end } = lane.range;
        // SAFETY: the arena lies in the memory, the kernel does not know it, and it has one owner,
        // who has lent it for this call; no batch of frames joined there is out while its claim can
        // be borrowed exclusively.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.umem.as_ptr().add(start), end - start) };
        change(bytes, start)
    }

    /// Copies part `part` to `at` in the arena of `lane`; false if it does not fit.
    pub fn copy_to_arena(&mut self, part: usize, lane: &LaneArena, at: usize) -> bool {
        let part = self.parts[part];
        let bytes = part.bytes as usize;
        if at < lane.range.start || at.checked_add(bytes).is_none_or(|end| end > lane.range.end) {
            return false;
        }
        // SAFETY: the part lies in a chunk of this claim, the target in the arena, which has one
        // owner (`LaneArena`) and no chunk in it: both are in the memory and do not overlap.
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

/// The arena of one lane, owned by who joins the lane's frames.
pub struct LaneArena {
    range: Range<usize>,
}

impl LaneArena {
    pub(super) fn new(umem: &Umem, lane: usize) -> LaneArena {
        LaneArena { range: umem.arena(lane) }
    }

    /// Cuts it into `count` of one size, for as many threads.
    pub fn split(self, count: usize) -> Vec<LaneArena> {
        let Range { start, end } = self.range;
        let bytes = (end - start) / count.max(1);
        let at = |index: usize| start + index * bytes;
        (0..count).map(|index| LaneArena { range: at(index)..at(index + 1) }).collect()
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
    layout: UmemLayout,
    /// Frames may come in several parts.
    has_parts: bool,
    high_water: u32,
}

impl RxRing {
    pub(super) fn new(ring: RingMemory, size: u32, layout: UmemLayout) -> RxRing {
        let cursor = ConsumerCursor::new(size);
        RxRing { ring, cursor, layout, has_parts: false, high_water: 0 }
    }

    /// From now on frames may come in several parts (XDP_USE_SG).
    pub fn expect_parts(&mut self) {
        self.has_parts = true;
    }

    /// Takes the next parts, of whole frames and at most a batch of them, into `claim`. Returns
    /// their number.
    ///
    /// # Panics
    /// If the claim is not empty, or of other memory.
    #[inline]
    pub fn claim(&mut self, claim: &mut Claim) -> usize {
        assert!(claim.parts.is_empty(), "a claim is given back before it is filled again");
        debug_assert_eq!(claim.umem.layout(), self.layout);
        let words = self.ring.words();
        let mut count = self.cursor.ready(words, CLAIM_PARTS_MAX as u32);
        if count == 0 {
            return 0;
        }
        if self.has_parts {
            count = self.whole_frames(count);
        }
        for ahead in 0..count {
            let raw: RawDescriptor = self.ring.read(self.cursor.slot(ahead));
            match checked(&raw, &self.layout) {
                Some(part) => claim.parts.push(part),
                None => self.leave_out(claim),
            }
        }
        self.cursor.release(self.ring.words(), count);
        claim.parts.len()
    }

    /// Of `count` descriptors those that make whole frames.
    fn whole_frames(&self, mut count: u32) -> u32 {
        let all = count;
        let mut in_frame = 0;
        while count > 0 {
            let last: RawDescriptor = self.ring.read(self.cursor.slot(count - 1));
            if last.options & libc::XDP_PKT_CONTD == 0 {
                return count;
            }
            in_frame += 1;
            if in_frame > PARTS_PER_FRAME_MAX {
                // No frame has so many: what begins here never ends.
                return all;
            }
            count -= 1;
        }
        // The end of a frame is published together with its beginning; only a broken kernel leaves
        // it out for longer than this look.
        0
    }

    /// A descriptor that names no place in the memory: with it goes what it continues.
    #[cold]
    fn leave_out(&self, claim: &mut Claim) {
        claim.damaged += 1;
        if let Some(last) = claim.parts.last_mut() {
            last.continues = false;
        }
    }

    /// True if nothing waits now.
    pub fn is_empty(&mut self) -> bool {
        self.cursor.ready(self.ring.words(), 1) == 0
    }

    /// Descriptors that wait. Looks at the kernel's index.
    pub fn waiting(&mut self) -> u32 {
        self.cursor.ready(self.ring.words(), u32::MAX);
        let waiting = self.cursor.waiting();
        self.high_water = self.high_water.max(waiting);
        waiting
    }

    /// Descriptors that waited at the last look at the kernel's index, and still do.
    #[inline]
    pub fn waiting_as_seen(&mut self) -> u32 {
        let waiting = self.cursor.waiting();
        self.high_water = self.high_water.max(waiting);
        waiting
    }

    /// Most descriptors that any look found waiting.
    pub fn high_water(&self) -> u32 {
        self.high_water.max(self.cursor.waiting())
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
    let inside = raw.address < layout.chunks_bytes() as u64
        && headroom + u64::from(raw.bytes) <= chunk_bytes;
    inside.then_some(Part {
        offset: raw.address as usize,
        bytes: raw.bytes,
        headroom: headroom as u16,
        continues: raw.options & libc::XDP_PKT_CONTD != 0,
    })
}
