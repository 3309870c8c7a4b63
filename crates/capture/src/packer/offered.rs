//! Frames that are offered to a packer: those of a batch, or those that were chosen of it, cut.

use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{Batch, FrameSlot};
use ringside_store::block::{Packed, pack_pieces, pack_room};
use std::ops::Range;

/// The bytes that are kept of some frames: ranges of offsets in order, without overlaps.
pub type Pieces = Box<[Range<u32>]>;

/// A frame of which not the first bytes are kept but pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieced {
    /// Which of the frames that are offered.
    pub index: u32,
    /// Which of the lists of pieces.
    pub list: u16,
}

/// Frames in order of receipt that are to be taken. What is cut off a frame is not in its slot:
/// that holds as many bytes as are kept.
#[derive(Clone, Copy)]
pub struct Offered<'b> {
    pub(super) memory: &'b [u8],
    pub(super) slots: &'b [FrameSlot],
    /// By index.
    pub(super) pieced: &'b [Pieced],
    pub(super) lists: &'b [Pieces],
    /// The slots may be cut.
    pub(super) is_chosen: bool,
}

/// What was not kept of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Frames of which less is kept than was on the wire.
    pub frames: u64,
    /// The bytes that are missing.
    pub bytes: u64,
}

impl Cuts {
    pub(crate) fn add(&mut self, other: Cuts) {
        self.frames += other.frames;
        self.bytes += other.bytes;
    }

    /// Notes a frame of `wire_bytes` on the wire, of which `kept_bytes` are kept.
    #[inline]
    fn note(&mut self, wire_bytes: u32, kept_bytes: u32) {
        let bytes = wire_bytes.saturating_sub(kept_bytes);
        self.frames += u64::from(bytes > 0);
        self.bytes += u64::from(bytes);
    }
}

impl<'b> Offered<'b> {
    /// All frames of a batch, as they are.
    pub fn of(batch: &'b Batch<'_>) -> Offered<'b> {
        let (memory, slots) = (batch.memory(), batch.slots());
        Offered { memory, slots, pieced: &[], lists: &[], is_chosen: false }
    }

    /// Frames of a batch's memory that were chosen and cut. `pieced` names by index those of which
    /// pieces are kept, in order; their slots hold as many bytes as these have together, less what
    /// a cap cuts off their end.
    pub fn chosen(
        memory: &'b [u8],
        slots: &'b [FrameSlot],
        pieced: &'b [Pieced],
        lists: &'b [Pieces],
    ) -> Offered<'b> {
        Offered { memory, slots, pieced, lists, is_chosen: true }
    }

    /// The first `count` of them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first(mut self, count: usize) -> Offered<'b> {
        self.slots = &self.slots[..count];
        self
    }

    /// The frames.
    #[inline]
    pub fn slots(&self) -> &'b [FrameSlot] {
        self.slots
    }

    /// How many there are, the bytes that are kept of them under a snapshot length, and what is cut
    /// off.
    pub(crate) fn measure(&self, captured_max: u32) -> (u64, u64, Cuts) {
        let kept = self.slots.iter().map(|slot| slot.captured_bytes().min(captured_max));
        let sum = |(frames, bytes), kept| (frames + 1, bytes + u64::from(kept));
        let (frames, bytes) = kept.fold((0, 0), sum);
        (frames, bytes, self.cuts(0..self.slots.len(), captured_max))
    }

    /// Packs the frames at `range` into `room`, up to the first that does not fit.
    ///
    /// # Panics
    /// If `range` or a frame reaches beyond what is offered.
    pub(super) fn pack(
        &self,
        room: &mut [u8],
        range: Range<usize>,
        captured_max: u32,
    ) -> (Packed, Cuts) {
        let start = range.start;
        let packed = match self.pieced.is_empty() {
            true => pack_room(room, self.memory, &self.slots[range], captured_max),
            false => self.pack_some_in_pieces(room, range, captured_max),
        };
        (packed, self.cuts(start..start + packed.frames, captured_max))
    }

    fn pack_some_in_pieces(
        &self,
        room: &mut [u8],
        range: Range<usize>,
        captured_max: u32,
    ) -> Packed {
        let mut sum = Packed::default();
        let mut next = range.start;
        let from = self.pieced.partition_point(|pieced| (pieced.index as usize) < next);
        for &Pieced { index, list } in &self.pieced[from..] {
            let index = index as usize;
            if index >= range.end {
                break;
            }
            let whole = &self.slots[next..index];
            let packed = pack_room(&mut room[sum.bytes..], self.memory, whole, captured_max);
            add(&mut sum, packed);
            if packed.frames < whole.len() {
                return sum;
            }
            let (slot, pieces) = (&self.slots[index], &self.lists[usize::from(list)]);
            match pack_pieces(&mut room[sum.bytes..], self.memory, slot, pieces) {
                Some(packed) => add(&mut sum, packed),
                None => return sum,
            }
            next = index + 1;
        }
        let rest = &self.slots[next..range.end];
        let packed = pack_room(&mut room[sum.bytes..], self.memory, rest, captured_max);
        add(&mut sum, packed);
        sum
    }

    /// Counted only where frames may be cut: whole ones pass without a look.
    fn cuts(&self, range: Range<usize>, captured_max: u32) -> Cuts {
        let mut cuts = Cuts::default();
        if self.is_chosen || captured_max < FRAME_BYTES_MAX {
            for slot in &self.slots[range] {
                cuts.note(slot.meta().wire_bytes, slot.captured_bytes().min(captured_max));
            }
        }
        cuts
    }
}

fn add(sum: &mut Packed, packed: Packed) {
    sum.frames += packed.frames;
    sum.captured_bytes += packed.captured_bytes;
    sum.bytes += packed.bytes;
    sum.stamps = sum.stamps.with(packed.stamps);
}
