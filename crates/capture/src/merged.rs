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

mod lanes;

use crate::control::{ConsumerCounts, Control};
use crate::lane::LaneStatus;
use crate::output::{FileList, Position, Sink};
pub(crate) use lanes::{LaneReader, MergedFrame, MergedInput, MergedLanes};
use ringside_core::Cause;
use ringside_ring::BoardWriter;
use ringside_store::StoreError;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// How often lanes without new frames are looked at: well below the merge's hold time.
pub(crate) const POLL: Duration = Duration::from_millis(2);

/// Merges the lanes into the output. Runs on a thread of its own until all lanes are finished, and
/// returns the files.
pub(crate) struct MergedWriter {
    pub(crate) lanes: MergedLanes,
    pub(crate) sink: Sink,
    pub(crate) status: Vec<Arc<LaneStatus>>,
    pub(crate) control: Arc<Control>,
    pub(crate) counts: Arc<ConsumerCounts>,
    /// For who finishes if this process dies; none next to another consumer, whose it is.
    pub(crate) board: Option<BoardWriter>,
    /// What stands there of the output's position.
    pub(crate) published: Option<Position>,
}

impl MergedWriter {
    pub(crate) fn run(mut self) -> FileList {
        self.hand_over(Sink::begin);
        loop {
            let (mut progress, overtaken) = self.lanes.refill();
            self.counts.miss(Cause::Overtaken, overtaken);
            while let Some(MergedFrame { frame, late_ns, .. }) = self.lanes.pop() {
                progress = true;
                let result = self.sink.write(&frame, late_ns, self.control.rotation());
                self.account(result);
            }
            self.hand_over(Sink::flush);
            if self.lanes.is_drained() {
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
