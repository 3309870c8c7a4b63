//! All lanes of a ring as one stream, in the order of time.

use ringside_core::limits::MERGE_HOLD_NS;
use ringside_core::{Frame, Timestamp};
use ringside_ring::{CaptureRing, CopyReader, LosslessReader, ReadOutcome};
use ringside_store::block::{blocks, packet};
use ringside_store::merge::Merger;
use ringside_sys::clock;
use std::sync::Arc;

/// The lanes of a ring, merged.
pub(crate) struct MergedLanes {
    inputs: Vec<MergedInput>,
    merger: Merger<Item>,
    order: Order,
}

/// A frame of the merge.
pub(crate) struct MergedFrame<'l> {
    pub(crate) frame: Frame<'l>,
    pub(crate) lane: usize,
    /// It is older than one before it by this number of nanoseconds.
    pub(crate) late_ns: Option<u64>,
}

impl MergedLanes {
    /// Of lanes whose backend holds frames back for so long.
    pub(crate) fn new(inputs: Vec<MergedInput>, block_timeout_ns: u64) -> MergedLanes {
        let hold_ns = MERGE_HOLD_NS.saturating_add(block_timeout_ns);
        let merger = Merger::new(inputs.len(), Some(hold_ns));
        MergedLanes { inputs, merger, order: Order::default() }
    }

    /// Moves what was published since into the merge; true if there was any, and how many frames
    /// were overtaken meanwhile.
    pub(crate) fn refill(&mut self) -> (bool, u64) {
        let (mut progress, mut overtaken) = (false, 0);
        for input in &mut self.inputs {
            progress |= input.refill(&mut self.merger);
            overtaken += input.take_overtaken();
        }
        (progress, overtaken)
    }

    /// The next frame that need not be held back any longer.
    pub(crate) fn pop(&mut self) -> Option<MergedFrame<'_>> {
        let popped = self.merger.pop(clock::monotonic_ns())?;
        let lane = popped.lane;
        self.inputs[lane].waiting -= 1;
        let frame = self.inputs[lane].frame(popped.item).expect("a packet, or it were not there");
        let late_ns = self.order.late_ns(frame.meta.timestamp);
        Some(MergedFrame { frame, lane, late_ns })
    }

    /// No frame is given out later that is stamped before this, but for inversions and late ones.
    pub(crate) fn low_water(&self) -> Timestamp {
        Timestamp(self.merger.low_water())
    }

    /// True if no frame will come any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.inputs.iter().all(|input| input.finished && input.waiting == 0)
    }
}

/// How a lane is read.
pub(crate) enum LaneReader {
    /// The lane's worker waits for it.
    Lossless(LosslessReader),
    /// It is overtaken where it is too slow, and the worker goes on.
    Copying(CopyReader),
}

impl LaneReader {
    /// The next published bytes, in place of those in `bytes`.
    fn read(&mut self, bytes: &mut Vec<u8>) -> ReadOutcome {
        bytes.clear();
        match self {
            LaneReader::Copying(reader) => reader.read(bytes),
            LaneReader::Lossless(reader) => {
                let finished = reader.is_finished();
                let Some(chunk) = reader.peek() else {
                    return if finished { ReadOutcome::Finished } else { ReadOutcome::Nothing };
                };
                bytes.extend_from_slice(chunk.bytes);
                let frames = chunk.frames;
                reader.consume();
                ReadOutcome::Frames(frames)
            }
        }
    }

    /// Frames that were written over before they were read.
    fn overtaken(&self) -> u64 {
        match self {
            LaneReader::Lossless(_) => 0,
            LaneReader::Copying(reader) => reader.missed(),
        }
    }
}

/// One lane as input of the merge.
pub(crate) struct MergedInput {
    reader: LaneReader,
    /// Of the frames that it missed, those that are in the ledger.
    overtaken: u64,
    ring: Arc<CaptureRing>,
    lane: usize,
    /// Bytes copied from the ring; the merge holds ranges of it.
    bytes: Vec<u8>,
    /// Frames of `bytes` that are still in the merge.
    waiting: usize,
    finished: bool,
}

impl MergedInput {
    pub(crate) fn new(reader: LaneReader, ring: Arc<CaptureRing>, lane: usize) -> MergedInput {
        let bytes = Vec::new();
        MergedInput { reader, overtaken: 0, ring, lane, bytes, waiting: 0, finished: false }
    }

    /// Moves the next published bytes into the merge, once all of the last are through. True if
    /// there were any.
    fn refill(&mut self, merger: &mut Merger<Item>) -> bool {
        if self.waiting > 0 || self.finished {
            return false;
        }
        // In this order: what the low-water time speaks of was published before it.
        let low_water = self.ring.low_water_ns(self.lane);
        match self.reader.read(&mut self.bytes) {
            ReadOutcome::Frames(_) => {}
            ReadOutcome::Nothing => {
                merger.advance(self.lane, low_water);
                return false;
            }
            // The ring is this process's own: nothing else writes there.
            ReadOutcome::Finished | ReadOutcome::Damaged => {
                self.finished = true;
                merger.advance(self.lane, u64::MAX);
                return false;
            }
        }
        let now_ns = clock::monotonic_ns();
        let mut end = 0;
        for (_, block) in blocks(&self.bytes) {
            let start = end;
            end += block.len();
            if let Some(frame) = packet(block) {
                merger.push(self.lane, frame.meta.timestamp.0, now_ns, Item { start, end });
                self.waiting += 1;
            }
        }
        true
    }

    /// Frames that were overtaken since the last call.
    fn take_overtaken(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.overtaken, self.reader.overtaken());
        self.overtaken - before
    }

    fn frame(&self, item: Item) -> Option<Frame<'_>> {
        packet(&self.bytes[item.start..item.end])
    }
}

/// A frame in the merge: a range of its lane's bytes.
#[derive(Clone, Copy, Debug)]
struct Item {
    start: usize,
    end: usize,
}

/// The order of time of what was written.
#[derive(Debug, Default)]
struct Order {
    newest: Timestamp,
}

impl Order {
    /// By how many nanoseconds the next frame is late; `None` if it is not. This goes by the
    /// frames' own stamps and not by the merge's keys, so that no reader finds a frame out of order
    /// that is not flagged.
    fn late_ns(&mut self, stamp: Timestamp) -> Option<u64> {
        let late_ns = self.newest.0.saturating_sub(stamp.0);
        self.newest = self.newest.max(stamp);
        (late_ns > 0).then_some(late_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_late_is_in_the_order_of_time() {
        let mut order = Order::default();
        let stamps = [5, 5, 9, 8, 9, 3, 12];
        let late = stamps.map(|stamp| order.late_ns(Timestamp(stamp)));
        assert_eq!(late, [None, None, None, Some(1), None, Some(6), None]);
    }
}
