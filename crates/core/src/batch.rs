//! A batch: a loan of frames.

use crate::{Frame, FrameMeta, InterfaceId, SourceInterface, Timestamp, UnknownInterface};
use std::ops::Range;

/// Where one frame of a batch lies in the lent memory.
#[derive(Clone, Copy, Debug)]
pub struct FrameSlot {
    offset: usize,
    captured_bytes: u32,
    meta: FrameMeta,
}

impl FrameSlot {
    /// A frame of `captured_bytes` bytes at `offset` of the batch's memory. `meta.wire_bytes` is
    /// raised to `captured_bytes` where the backend reported less.
    #[inline]
    pub fn new(offset: usize, captured_bytes: u32, mut meta: FrameMeta) -> FrameSlot {
        meta.wire_bytes = meta.wire_bytes.max(captured_bytes);
        FrameSlot { offset, captured_bytes, meta }
    }

    /// When the frame was received.
    #[inline]
    pub fn timestamp(&self) -> Timestamp {
        self.meta.timestamp
    }

    /// Bytes of the frame.
    #[inline]
    pub fn captured_bytes(&self) -> u32 {
        self.captured_bytes
    }

    /// Where the frame begins in the batch's memory.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The same frame with at most its first `bytes`; its length on the wire stays.
    #[inline]
    pub fn cut_to(mut self, bytes: u32) -> FrameSlot {
        self.captured_bytes = self.captured_bytes.min(bytes);
        self
    }

    /// The same frame, of another interface.
    #[inline]
    pub fn of_interface(mut self, interface: InterfaceId) -> FrameSlot {
        self.meta.interface = interface;
        self
    }

    /// What else is known of the frame.
    #[inline]
    pub fn meta(&self) -> &FrameMeta {
        &self.meta
    }

    /// The frame in `memory`; `None` if it reaches beyond.
    #[inline]
    pub fn frame<'m>(&self, memory: &'m [u8]) -> Option<Frame<'m>> {
        let end = self.offset.checked_add(self.captured_bytes as usize)?;
        Some(Frame { bytes: memory.get(self.offset..end)?, meta: self.meta })
    }

    /// The frame in `memory`, of which the backend has made sure that it holds it.
    ///
    /// # Panics
    /// If it reaches beyond.
    #[inline]
    pub fn lend<'m>(&self, memory: &'m [u8]) -> Frame<'m> {
        let bytes = &memory[self.offset..][..self.captured_bytes as usize];
        Frame { bytes, meta: self.meta }
    }
}

/// Has the memory of a batch and takes it back.
///
/// The batch asks for the memory instead of holding a reference to it, so that no such reference
/// is left while the memory goes back, when the backend may write to it at once.
pub trait BatchOwner {
    /// The memory that the slots refer to; asked for until [`give_back`](Self::give_back).
    fn memory(&self) -> &[u8];

    /// The frames of the batch will not be looked at again. Called once, when it is dropped.
    fn give_back(&self);
}

/// Where the memory of a batch is.
#[derive(Clone, Copy)]
enum Lender<'s> {
    /// It stays as it is for as long as the source is borrowed.
    Bytes(&'s [u8]),
    /// It goes back with the batch.
    Owner(&'s dyn BatchOwner),
}

/// Up to `limits::BATCH_FRAMES_MAX` frames of one lane, in order of receipt, lent by a source.
///
/// - The batch borrows its source, so a source has at most one batch out, and no frame outlives
///   its batch. Dropping the batch gives the memory back.
/// - An empty batch does not exist: a source without frames returns `None`.
/// - Frames are read in place. A caller that needs one longer copies it.
///
/// ```
/// use ringside_core::{Batch, FrameMeta, FrameSlot};
/// let memory = [1u8, 2, 3, 4];
/// let meta = FrameMeta::default();
/// let slots = [FrameSlot::new(0, 3, meta), FrameSlot::new(3, 1, meta)];
/// let batch = Batch::new(&memory, &slots);
/// let lengths: Vec<usize> = batch.iter().map(|frame| frame.bytes.len()).collect();
/// assert_eq!(lengths, [3, 1]);
/// ```
pub struct Batch<'s> {
    lender: Lender<'s>,
    slots: &'s [FrameSlot],
    interfaces: &'s [SourceInterface],
}

impl<'s> Batch<'s> {
    /// Lends the frames at `slots` of `memory`, which nothing writes to while the source is
    /// borrowed.
    ///
    /// A slot that reaches beyond `memory` is a bug of the backend, which must check lengths that
    /// come from outside before it makes a slot; looking at its frame panics.
    ///
    /// # Panics
    /// If there is no slot.
    pub fn new(memory: &'s [u8], slots: &'s [FrameSlot]) -> Batch<'s> {
        Batch::from(Lender::Bytes(memory), slots)
    }

    /// Lends the frames at `slots` of the memory of `owner`, which has it back when the batch is
    /// dropped.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn lent_by(owner: &'s dyn BatchOwner, slots: &'s [FrameSlot]) -> Batch<'s> {
        Batch::from(Lender::Owner(owner), slots)
    }

    fn from(lender: Lender<'s>, slots: &'s [FrameSlot]) -> Batch<'s> {
        assert!(!slots.is_empty(), "an empty batch does not exist");
        Batch { lender, slots, interfaces: &[] }
    }

    /// Adds what the source knows of its interfaces now: a file may have named some since the last
    /// batch, and frames of this one refer to them.
    pub fn with_interfaces(mut self, interfaces: &'s [SourceInterface]) -> Batch<'s> {
        self.interfaces = interfaces;
        self
    }

    /// The interfaces that the frames refer to, by id; empty where the source never adds any.
    pub fn interfaces(&self) -> &[SourceInterface] {
        self.interfaces
    }

    /// The interface of a frame of a batch that names them.
    ///
    /// # Errors
    /// As [`SourceInterface::of`].
    pub fn interface_of(&self, meta: &FrameMeta) -> Result<&SourceInterface, UnknownInterface> {
        SourceInterface::of(meta, self.interfaces)
    }

    /// Where the frames lie in [`memory`](Self::memory), for a loop over many.
    #[inline]
    pub fn slots(&self) -> &[FrameSlot] {
        self.slots
    }

    /// The memory that is lent. A loop asks once, before it begins.
    #[inline]
    pub fn memory(&self) -> &[u8] {
        match self.lender {
            Lender::Bytes(memory) => memory,
            Lender::Owner(owner) => owner.memory(),
        }
    }

    /// Number of frames, at least 1.
    pub fn frame_count(&self) -> usize {
        self.slots.len()
    }

    /// The frame at `index`, or `None` beyond the last.
    pub fn get(&self, index: usize) -> Option<Frame<'_>> {
        self.slots.get(index).map(|slot| slot.lend(self.memory()))
    }

    /// The frames in order of receipt.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        self.range(0..self.slots.len())
    }

    /// The frames whose indices are in `range`.
    ///
    /// # Panics
    /// If `range` reaches beyond the last.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = Frame<'_>> {
        let memory = self.memory();
        self.slots[range].iter().map(move |slot| slot.lend(memory))
    }
}

impl Drop for Batch<'_> {
    /// No reference to the memory is in here, nor may one be: the backend may write to it as soon
    /// as it has it back, when the batch is still an argument of the function that drops it.
    fn drop(&mut self) {
        if let Lender::Owner(owner) = self.lender {
            owner.give_back();
        }
    }
}
