//! The protocol of the ring: who may touch which bytes, decided by atomics alone.
//!
//! Every block of a lane has a running sequence number; block `s` lies in slot `s % slots`. A
//! slot's `sequence` word is `s + 1` while block `s` lies there (0: never used). The rules that the
//! proof needs are written at the stores and loads that keep them.

use super::sync::{AtomicU64, Ordering, fence};

/// Lossless readers of one lane. Each is one more condition in the writer's `open`; one recorder
/// and one stream are what a run needs.
pub const LOSSLESS_READERS_MAX: usize = 4;

/// The block that should be reused is still needed by a lossless reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture ring is full: the recorder is behind")]
pub struct RingFull;

/// Shared state of one lane.
#[repr(C, align(64))]
pub struct LaneHeader {
    /// Number of blocks opened since the start.
    pub(super) opened: AtomicU64,
    /// Frames published since the start.
    pub(super) frames: AtomicU64,
    /// 1 once the writer has finished.
    pub(super) finished: AtomicU64,
    /// No later frame is stamped before this, nanoseconds of UTC.
    pub(super) low_water_ns: AtomicU64,
    /// Blocks below this number are not needed any more, per lossless reader; `u64::MAX` for a
    /// reader that does not exist or has left.
    pub(super) released: [AtomicU64; LOSSLESS_READERS_MAX],
}

/// Shared state of one slot.
#[repr(C, align(64))]
pub struct SlotHeader {
    /// Sequence number of the block that lies here, plus 1.
    pub(super) sequence: AtomicU64,
    /// `Committed`, packed: bytes, frames and the closed flag change together.
    pub(super) committed: AtomicU64,
    /// Cumulative number of the block's first frame.
    pub(super) first_frame: AtomicU64,
}

/// The shared state of a lane, borrowed.
#[derive(Clone, Copy)]
pub struct Lane<'r> {
    pub(super) header: &'r LaneHeader,
    pub(super) slots: &'r [SlotHeader],
}

impl<'r> Lane<'r> {
    fn slot(&self, sequence: u64) -> (usize, &'r SlotHeader) {
        let index = (sequence % self.slots.len() as u64) as usize;
        (index, &self.slots[index])
    }
}

/// Readies a lane for `lossless_readers` readers.
pub(super) fn initialise(header: &LaneHeader, lossless_readers: usize) {
    for (index, released) in header.released.iter().enumerate() {
        let first_needed = if index < lossless_readers { 0 } else { u64::MAX };
        released.store(first_needed, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Committed {
    bytes: u32,
    frames: u32,
    closed: bool,
}

impl Committed {
    fn pack(self) -> u64 {
        u64::from(self.bytes) << 32 | u64::from(self.frames) << 1 | u64::from(self.closed)
    }

    fn unpack(word: u64) -> Committed {
        Committed { bytes: (word >> 32) as u32, frames: (word as u32) >> 1, closed: word & 1 == 1 }
    }
}

/// Published bytes `from..to` of the block in `slot`, holding `frames` frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub(super) slot: usize,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) frames: u32,
    pub(super) closed: bool,
}

/// The writer's place.
#[derive(Default)]
pub struct WriterCursor {
    next_sequence: u64,
    open_slot: Option<usize>,
    filled: Committed,
    frames_before: u64,
}

impl WriterCursor {
    pub(super) fn slot(&self) -> Option<usize> {
        self.open_slot
    }

    pub(super) fn filled_bytes(&self) -> u32 {
        self.filled.bytes
    }

    pub(super) fn open(&mut self, lane: Lane<'_>, first_frame: u64) -> Result<usize, RingFull> {
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
        // were opened. The fence: whoever sees any store that follows sees the new sequence too (it
        // pairs with the acquire fence in `CopyCursor::confirm`), so a copying reader that read a
        // byte of the new block finds out.
        slot.sequence.store(sequence + 1, Ordering::Release);
        fence(Ordering::Release);
        slot.first_frame.store(first_frame, Ordering::Relaxed);
        slot.committed.store(0, Ordering::Release);
        lane.header.opened.store(sequence + 1, Ordering::Release);
        self.open_slot = Some(index);
        self.filled = Committed::default();
        self.frames_before = first_frame;
        self.next_sequence = sequence + 1;
        Ok(index)
    }

    pub(super) fn fill(&mut self, bytes: usize, frames: u32, block_bytes: usize) {
        let filled = self.filled.bytes as usize + bytes;
        assert!(self.open_slot.is_some() && filled <= block_bytes, "filled beyond the block");
        self.filled.bytes = filled as u32;
        self.filled.frames += frames;
    }

    pub(super) fn publish(&mut self, lane: Lane<'_>) {
        let Some(index) = self.open_slot else { return };
        // Release: the bytes come before the count of them.
        lane.slots[index].committed.store(self.filled.pack(), Ordering::Release);
        let frames = self.frames_before + u64::from(self.filled.frames);
        lane.header.frames.store(frames, Ordering::Release);
    }

    pub(super) fn close(&mut self, lane: Lane<'_>) {
        self.filled.closed = true;
        self.publish(lane);
        self.open_slot = None;
    }

    pub(super) fn finish(&mut self, lane: Lane<'_>) {
        lane.header.finished.store(1, Ordering::Release);
    }
}

/// A lossless reader's place.
pub struct LosslessCursor {
    index: usize,
    sequence: u64,
    consumed: Committed,
    peeked: Option<Committed>,
}

impl LosslessCursor {
    pub(super) fn new(index: usize) -> LosslessCursor {
        LosslessCursor { index, sequence: 0, consumed: Committed::default(), peeked: None }
    }

    pub(super) fn ready(&mut self, lane: Lane<'_>) -> Option<Range> {
        // Acquire: the block was opened, and its `committed` reset, before it is read.
        if lane.header.opened.load(Ordering::Acquire) <= self.sequence {
            return None;
        }
        let (slot, header) = lane.slot(self.sequence);
        let committed = Committed::unpack(header.committed.load(Ordering::Acquire));
        if committed.bytes == self.consumed.bytes && !committed.closed {
            return None;
        }
        self.peeked = Some(committed);
        Some(Range {
            slot,
            from: self.consumed.bytes,
            to: committed.bytes,
            frames: committed.frames - self.consumed.frames,
            closed: committed.closed,
        })
    }

    pub(super) fn consume(&mut self, lane: Lane<'_>) {
        let Some(peeked) = self.peeked.take() else { return };
        self.consumed = peeked;
        if peeked.closed {
            self.sequence += 1;
            self.consumed = Committed::default();
            // Release: this reader's loads come before the writer's next stores into the block.
            lane.header.released[self.index].store(self.sequence, Ordering::Release);
        }
    }

    pub(super) fn is_finished(&self, lane: Lane<'_>) -> bool {
        if lane.header.finished.load(Ordering::Acquire) == 0 {
            return false;
        }
        if lane.header.opened.load(Ordering::Acquire) <= self.sequence {
            return true;
        }
        let (_, header) = lane.slot(self.sequence);
        let committed = Committed::unpack(header.committed.load(Ordering::Acquire));
        committed.bytes == self.consumed.bytes && !committed.closed
    }

    pub(super) fn leave(&self, lane: Lane<'_>) {
        lane.header.released[self.index].store(u64::MAX, Ordering::Release);
    }
}

/// What a copying reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Bytes to copy, then to confirm.
    Range(Range),
    /// Nothing new.
    Nothing,
    /// Nothing ever again.
    Finished,
}

/// Whether a copy may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The bytes are those that were published.
    Valid,
    /// The block was reused meanwhile: the bytes are worthless.
    Overtaken,
}

/// A copying reader's place.
#[derive(Default)]
pub struct CopyCursor {
    sequence: u64,
    consumed: Committed,
    next_frame: u64,
    delivered: u64,
    missed: u64,
}

impl CopyCursor {
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    pub(super) fn ready(&mut self, lane: Lane<'_>) -> Ready {
        // Read before the blocks: if it says finished, what the blocks show next is final.
        let finished = lane.header.finished.load(Ordering::Acquire) == 1;
        loop {
            if lane.header.opened.load(Ordering::Acquire) <= self.sequence {
                return self.nothing(lane, finished);
            }
            let (slot, header) = lane.slot(self.sequence);
            let committed = Committed::unpack(header.committed.load(Ordering::Acquire));
            if header.sequence.load(Ordering::Acquire) != self.sequence + 1 {
                self.move_to_oldest(lane);
                continue;
            }
            if committed.bytes > self.consumed.bytes {
                return Ready::Range(Range {
                    slot,
                    from: self.consumed.bytes,
                    to: committed.bytes,
                    frames: committed.frames - self.consumed.frames,
                    closed: committed.closed,
                });
            }
            if !committed.closed {
                return self.nothing(lane, finished);
            }
            self.sequence += 1;
            self.consumed = Committed::default();
        }
    }

    fn nothing(&mut self, lane: Lane<'_>, finished: bool) -> Ready {
        if !finished {
            return Ready::Nothing;
        }
        let frames = lane.header.frames.load(Ordering::Acquire);
        self.missed += frames - self.next_frame;
        self.next_frame = frames;
        Ready::Finished
    }

    /// Looks, after the copy, whether the block still was the one that was meant.
    pub(super) fn confirm(&mut self, lane: Lane<'_>, range: &Range) -> Copied {
        // Pairs with the release fence in `WriterCursor::open`: if any copied byte was of a later
        // block, this load sees that block's sequence number.
        fence(Ordering::Acquire);
        let (_, header) = lane.slot(self.sequence);
        if header.sequence.load(Ordering::Relaxed) != self.sequence + 1 {
            return Copied::Overtaken;
        }
        self.consumed.bytes = range.to;
        self.consumed.frames += range.frames;
        self.next_frame += u64::from(range.frames);
        self.delivered += u64::from(range.frames);
        Copied::Valid
    }

    /// Moves to the oldest block that can still be read and counts what was lost on the way.
    fn move_to_oldest(&mut self, lane: Lane<'_>) {
        loop {
            let opened = lane.header.opened.load(Ordering::Acquire);
            // The writer may already be opening the next one, so the very oldest is not worth a
            // try. With at least two slots (see `RingLayout`) this is below `opened`.
            let kept = (lane.slots.len() as u64 - 1).min(opened);
            let sequence = (opened - kept).max(self.sequence + 1);
            let (_, header) = lane.slot(sequence);
            let first_frame = header.first_frame.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if header.sequence.load(Ordering::Relaxed) == sequence + 1 {
                self.missed += first_frame - self.next_frame;
                self.next_frame = first_frame;
                self.sequence = sequence;
                self.consumed = Committed::default();
                return;
            }
        }
    }
}
