//! The merging writer: all lanes into one file or stream, in the order of time.
//!
//! It is a reader of every lane: lossless, or one that may be overtaken, where it must not hold the
//! ring for another consumer. It copies a lane's published bytes out of the ring (that copy is
//! allowed here), so that a lane that must wait for a slower one does not hold the ring.
//! A frame that is older than one before it is *late*: it is written all the same, flagged and
//! counted. That happens when a lane stood still for longer than the merge holds others back, and
//! when a lane's own clock went back; everything else is in the order of time.
//!
//! What the output has accepted is counted as delivered after each flush; when an output fails, or
//! a pipe is not read until the end of the run, the rest is missed under its cause.

use crate::control::{ConsumerCounts, Control};
use crate::finish::Position;
use crate::lane::LaneStatus;
use crate::output::{FileList, Sink};
use ringside_core::limits::MERGE_HOLD_NS;
use ringside_core::{Cause, Frame, Timestamp};
use ringside_store::StoreError;
use ringside_store::block::{blocks, packet};
use ringside_store::merge::Merger;
use ringside_sys::clock;
use ringside_sys::ring::{BoardWriter, CaptureRing, CopyReader, LosslessReader, ReadOutcome};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// How often lanes without new frames are looked at: well below the merge's hold time.
const POLL: Duration = Duration::from_millis(2);

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

/// Merges the lanes into the output. Runs on a thread of its own until all lanes are finished, and
/// returns the files.
pub(crate) struct MergedWriter {
    pub(crate) inputs: Vec<MergedInput>,
    pub(crate) sink: Sink,
    pub(crate) status: Vec<Arc<LaneStatus>>,
    pub(crate) control: Arc<Control>,
    pub(crate) counts: Arc<ConsumerCounts>,
    /// For who finishes if this process dies; none next to another consumer, whose it is.
    pub(crate) board: Option<BoardWriter>,
    /// What stands there of the output's position.
    pub(crate) published: Option<Position>,
    pub(crate) block_timeout_ns: u64,
}

impl MergedWriter {
    pub(crate) fn run(mut self) -> FileList {
        let hold_ns = MERGE_HOLD_NS.saturating_add(self.block_timeout_ns);
        self.hand_over(Sink::begin);
        let mut merger = Merger::new(self.inputs.len(), Some(hold_ns));
        let mut order = Order::default();
        loop {
            let mut progress = false;
            for input in &mut self.inputs {
                progress |= input.refill(&mut merger);
                self.counts.miss(Cause::Overtaken, input.take_overtaken());
            }
            while let Some(popped) = merger.pop(clock::monotonic_ns()) {
                progress = true;
                self.emit(popped.lane, popped.item, &mut order);
            }
            self.hand_over(Sink::flush);
            let drained = self.inputs.iter().all(|input| input.finished && input.waiting == 0);
            if drained {
                break;
            }
            if !progress {
                sleep(POLL);
            }
        }
        let statistics = crate::output::final_statistics(&self.status, self.sink.interfaces());
        self.hand_over(|sink| sink.finish(&statistics));
        self.sink.into_files()
    }

    fn emit(&mut self, lane: usize, item: Item, order: &mut Order) {
        self.inputs[lane].waiting -= 1;
        let Some(frame) = self.inputs[lane].frame(item) else { return };
        let late_ns = order.late_ns(frame.meta.timestamp);
        let period = self.control.rotation();
        let result = self.sink.write(&frame, late_ns, period);
        self.account(result);
    }

    fn hand_over(&mut self, step: impl FnOnce(&mut Sink) -> Result<(), StoreError>) {
        let result = step(&mut self.sink);
        self.account(result);
    }

    /// Counts what the output has accepted since the last time, and what an error cost.
    fn account(&mut self, result: Result<(), StoreError>) {
        let accepted = self.sink.take_accepted();
        let lost = self.sink.take_lost();
        self.counts.deliver(accepted.frames);
        self.counts.deliver_late(accepted.late);
        if let Some((cause, frames)) = lost {
            self.counts.miss(cause, frames);
        }
        if accepted.frames > 0 || lost.is_some() || self.published != Some(self.sink.position()) {
            self.publish();
        }
        match result {
            Ok(()) => {}
            // What the run is for goes on; what is not printed any more is counted by its cause.
            Err(error) if self.board.is_none() => {
                if !error.is_pipe_closed() {
                    self.control.complain(format!("printing stopped: {error}; the run went on"));
                }
            }
            // A reader that had enough is no failure: the run ends as it would on Ctrl-C.
            Err(error) if error.is_pipe_closed() => self.control.stop(),
            Err(error) => {
                let note = if self.sink.has_files() {
                    "what is written stays valid"
                } else {
                    "the last frame in the pipe may be torn"
                };
                self.control.fail(format!("writing stopped: {error}; {note}"));
            }
        }
    }
}

impl MergedWriter {
    /// What the output has, and up to where: more may be in it by the time that this is read.
    fn publish(&mut self) {
        let position = self.sink.position();
        self.published = Some(position);
        let Some(board) = &mut self.board else { return };
        let mut words = self.counts.consumer("").to_words();
        position.add_to(&mut words);
        board.publish(&words);
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
