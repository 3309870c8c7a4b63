//! The protocol of the ring: who may touch which bytes, decided by atomics alone.
//!
//! Every block of a lane has a running sequence number; block `s` lies in slot `s % slots`. A
//! slot's `sequence` word is `s + 1` while block `s` lies there (0: never used). The rules that the
//! proof needs are written at the stores and loads that keep them.
//!
//! A lossless reader ([`lossless`], [`claim`]) lives in the writer's process. A copying reader
//! ([`copy`]) may live in another one and look at memory whose owner is not to be trusted: it loops
//! a bounded number of times, and no word that it reads can make it compute out of bounds.

pub(crate) mod claim;
pub(crate) mod copy;
pub(crate) mod lossless;
pub(crate) mod shared_lane;

use ringside_sys::sync::{AtomicU64, Ordering, fence, load_acquire};

/// Lossless readers of one lane. Each is one more condition in the writer's `open`; one recorder
/// and one stream are what a run needs.
pub const LOSSLESS_READERS_MAX: usize = 4;

/// Words of a lane's shared state, and of a slot's: a cache line each.
pub(crate) const LANE_WORDS: usize = 4 + LOSSLESS_READERS_MAX;
pub(crate) const SLOT_WORDS: usize = 8;
pub(crate) const LANE_BYTES: usize = LANE_WORDS * 8;
pub(crate) const SLOT_BYTES: usize = SLOT_WORDS * 8;

// Other processes know the memory by its layout.
const _: () = assert!(LANE_BYTES == 64 && SLOT_BYTES == 64);

/// The block that should be reused is still needed by a lossless reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture ring is full: the recorder is behind")]
pub struct RingFull;

/// Shared state of one lane, in words of a cache line of their own.
#[derive(Clone, Copy)]
pub(crate) struct LaneHeader<'r> {
    /// Number of blocks opened since the start.
    pub(crate) opened: &'r AtomicU64,
    /// Frames published since the start.
    pub(crate) frames: &'r AtomicU64,
    /// 1 once the writer has finished.
    pub(crate) finished: &'r AtomicU64,
    /// No later frame is stamped before this, nanoseconds of UTC.
    pub(crate) low_water_ns: &'r AtomicU64,
    /// Blocks below this number are not needed any more, per lossless reader; `u64::MAX` for a
    /// reader that does not exist or has left.
    pub(crate) released: &'r [AtomicU64; LOSSLESS_READERS_MAX],
}

impl<'r> LaneHeader<'r> {
    /// The state that these words are.
    #[inline]
    pub(crate) fn of(words: &'r [AtomicU64; LANE_WORDS]) -> LaneHeader<'r> {
        let [opened, frames, finished, low_water_ns, released @ ..] = words;
        LaneHeader { opened, frames, finished, low_water_ns, released }
    }
}

/// Shared state of one slot, in words of a cache line of their own.
#[derive(Clone, Copy)]
pub(crate) struct SlotHeader<'r> {
    /// Sequence number of the block that lies here, plus 1.
    pub(crate) sequence: &'r AtomicU64,
    /// `Committed`, packed: bytes, frames and the closed flag change together.
    pub(crate) committed: &'r AtomicU64,
    /// Cumulative number of the block's first frame.
    pub(crate) first_frame: &'r AtomicU64,
    /// Stamp of the first frame and the latest, nanoseconds of UTC, of at least what is published;
    /// 0 at first.
    pub(crate) first_time_ns: &'r AtomicU64,
    pub(crate) last_time_ns: &'r AtomicU64,
}

impl<'r> SlotHeader<'r> {
    /// The state that these words are; the last are not used.
    #[inline]
    fn of(words: &'r [AtomicU64; SLOT_WORDS]) -> SlotHeader<'r> {
        let [sequence, committed, first_frame, first_time_ns, last_time_ns, ..] = words;
        SlotHeader { sequence, committed, first_frame, first_time_ns, last_time_ns }
    }
}

/// The shared state of a lane, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'r> {
    pub(crate) header: LaneHeader<'r>,
    pub(crate) slots: &'r [[AtomicU64; SLOT_WORDS]],
    pub(crate) block_bytes: usize,
}

impl<'r> Lane<'r> {
    pub(crate) fn slot(&self, sequence: u64) -> (usize, SlotHeader<'r>) {
        let index = (sequence % self.slots.len() as u64) as usize;
        (index, self.slot_at(index))
    }

    pub(crate) fn slot_at(&self, index: usize) -> SlotHeader<'r> {
        SlotHeader::of(&self.slots[index])
    }

    /// Number of blocks opened. What was stored before the opening is seen after this.
    pub(crate) fn opened(&self) -> u64 {
        load_acquire(self.header.opened)
    }

    pub(crate) fn is_finished(&self) -> bool {
        load_acquire(self.header.finished) == 1
    }

    /// What `load` takes from the words of block `sequence`, of which `opened` has said that it was
    /// opened.
    pub(crate) fn look<T>(
        &self,
        sequence: u64,
        load: impl FnOnce(SlotHeader<'_>, Committed) -> T,
    ) -> Look<T> {
        let (_, header) = self.slot(sequence);
        let committed = Committed::unpack(load_acquire(header.committed));
        match self.confirmed(sequence, load(header, committed)) {
            Look::Here(_) if committed.bytes as usize > self.block_bytes => Look::Damaged,
            look => look,
        }
    }

    /// Whether what was loaded from the slot of block `sequence` was of that block.
    ///
    /// It was not older: `opened` was stored after all words were set for this block. It was not
    /// newer: see the fence in `WriterCursor::open`; if a word, or a byte, was of a later block,
    /// this load sees that block's number. Who goes on from a replaced block passes an acquire
    /// fence before the next judgement, and then sees all blocks before the one found here as
    /// opened.
    pub(crate) fn confirmed<T>(&self, sequence: u64, loaded: T) -> Look<T> {
        fence(Ordering::Acquire);
        let there = self.slot(sequence).1.sequence.load(Ordering::Relaxed);
        match there.cmp(&sequence.wrapping_add(1)) {
            std::cmp::Ordering::Equal => Look::Here(loaded),
            std::cmp::Ordering::Greater => Look::Replaced,
            std::cmp::Ordering::Less => Look::Damaged,
        }
    }
}

/// The words of a block, all of the same block if a look took them.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) committed: Committed,
    pub(crate) first_frame: u64,
    pub(crate) first_time_ns: u64,
    pub(crate) last_time_ns: u64,
}

impl Seen {
    pub(crate) fn load(header: SlotHeader<'_>, committed: Committed) -> Seen {
        Seen {
            committed,
            first_frame: header.first_frame.load(Ordering::Relaxed),
            first_time_ns: header.first_time_ns.load(Ordering::Relaxed),
            last_time_ns: header.last_time_ns.load(Ordering::Relaxed),
        }
    }
}

/// What a look at a block's slot finds.
pub(crate) enum Look<T> {
    /// The block.
    Here(T),
    /// A later block.
    Replaced,
    /// What no writer of this protocol leaves there.
    Damaged,
}

/// Readies a lane for `lossless_readers` readers.
pub(crate) fn initialise(header: LaneHeader<'_>, lossless_readers: usize) {
    for (index, released) in header.released.iter().enumerate() {
        let first_needed = if index < lossless_readers { 0 } else { u64::MAX };
        released.store(first_needed, Ordering::Relaxed);
    }
}

/// Lossless reader `index` needs nothing any more.
pub(crate) fn leave(lane: Lane<'_>, index: usize) {
    // Release: its loads come before the writer's next stores.
    lane.header.released[index].store(u64::MAX, Ordering::Release);
}

/// How much of a block is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) bytes: u32,
    pub(crate) frames: u32,
    pub(crate) closed: bool,
}

impl Committed {
    fn pack(self) -> u64 {
        u64::from(self.bytes) << 32 | u64::from(self.frames) << 1 | u64::from(self.closed)
    }

    pub(crate) fn unpack(word: u64) -> Committed {
        Committed { bytes: (word >> 32) as u32, frames: (word as u32) >> 1, closed: word & 1 == 1 }
    }
}

/// Published bytes `from..to` of the block in `slot`, holding `frames` frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) slot: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) frames: u32,
    pub(crate) closed: bool,
}

/// How far a block is filled: what is to be shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) slot: usize,
    pub(crate) committed: Committed,
    /// Frames of the lane up to there.
    pub(crate) frames: u64,
}

impl Mark {
    /// Shows it to readers. Marks of a lane are shown one after the other, in their order.
    pub(crate) fn show(&self, lane: Lane<'_>) {
        // Release: the bytes come before the count of them.
        lane.slot_at(self.slot).committed.store(self.committed.pack(), Ordering::Release);
        lane.header.frames.store(self.frames, Ordering::Release);
    }
}

/// Shows that block `sequence` is open. What its slot says of it comes before.
pub(crate) fn show_opened(lane: Lane<'_>, sequence: u64) {
    lane.header.opened.store(sequence + 1, Ordering::Release);
}

/// The writer's place.
#[derive(Default)]
pub(crate) struct WriterCursor {
    next_sequence: u64,
    open_slot: Option<usize>,
    filled: Committed,
    frames_before: u64,
}

impl WriterCursor {
    pub(crate) fn slot(&self) -> Option<usize> {
        self.open_slot
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    pub(crate) fn filled_bytes(&self) -> u32 {
        self.filled.bytes
    }

    pub(crate) fn open(&mut self, lane: Lane<'_>, first_frame: u64) -> Result<usize, RingFull> {
        let slot = self.take(lane, first_frame)?;
        show_opened(lane, self.next_sequence - 1);
        Ok(slot)
    }

    /// Takes the next block, which is then open for its writer alone: all of `open`
    /// but [`show_opened`], before which no thread takes another one.
    pub(crate) fn take(&mut self, lane: Lane<'_>, first_frame: u64) -> Result<usize, RingFull> {
        assert!(self.open_slot.is_none(), "one open block at a time");
        let sequence = self.next_sequence;
        if let Some(previous) = sequence.checked_sub(lane.slots.len() as u64) {
            // Acquire: the reader's loads from block `previous` come before its release.
            let needed = |released: &AtomicU64| released.load(Ordering::Acquire) <= previous;
            if lane.header.released.iter().any(needed) {
                return Err(RingFull);
            }
        }
        let (index, slot) = lane.slot(sequence);
        // Release: a reader that finds its block replaced also sees that the blocks before this one
        // were opened. The fence: a reader that sees any store that follows sees the new sequence
        // too (it pairs with the acquire fence in `Lane::confirmed`), so a copying reader that read
        // a byte or a word of the new block finds out.
        slot.sequence.store(sequence + 1, Ordering::Release);
        fence(Ordering::Release);
        slot.first_frame.store(first_frame, Ordering::Relaxed);
        slot.first_time_ns.store(0, Ordering::Relaxed);
        slot.last_time_ns.store(0, Ordering::Relaxed);
        slot.committed.store(0, Ordering::Release);
        self.open_slot = Some(index);
        self.filled = Committed::default();
        self.frames_before = first_frame;
        self.next_sequence = sequence + 1;
        Ok(index)
    }

    pub(crate) fn fill(&mut self, bytes: usize, frames: u32, block_bytes: usize) {
        let filled = self.filled.bytes as usize + bytes;
        assert!(self.open_slot.is_some() && filled <= block_bytes, "filled beyond the block");
        self.filled.bytes = filled as u32;
        self.filled.frames += frames;
    }

    /// Relaxed: the publication that follows carries them along.
    pub(crate) fn set_times(&self, lane: Lane<'_>, first_ns: u64, last_ns: u64) {
        let Some(index) = self.open_slot else { return };
        let slot = lane.slot_at(index);
        slot.first_time_ns.store(first_ns, Ordering::Relaxed);
        slot.last_time_ns.store(last_ns, Ordering::Relaxed);
    }

    /// What is filled of the open block; `None` if none is open.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let frames = self.frames_before + u64::from(self.filled.frames);
        Some(Mark { slot: self.open_slot?, committed: self.filled, frames })
    }

    pub(crate) fn publish(&mut self, lane: Lane<'_>) {
        if let Some(mark) = self.mark() {
            mark.show(lane);
        }
    }

    /// The open block is full: returns what is then to be shown of it.
    pub(crate) fn end(&mut self) -> Option<Mark> {
        self.filled.closed = true;
        let mark = self.mark();
        self.open_slot = None;
        mark
    }

    pub(crate) fn close(&mut self, lane: Lane<'_>) {
        if let Some(mark) = self.end() {
            mark.show(lane);
        }
    }

    pub(crate) fn finish(&mut self, lane: Lane<'_>) {
        lane.header.finished.store(1, Ordering::Release);
    }
}
