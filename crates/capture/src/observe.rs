//! Observers of what a run takes: a reader of the ring with a thread of its own.
//!
//! Where observing is all that happens, the reader is lossless: the workers wait for it as for a
//! recorder. Next to another consumer it copies and may be overtaken; what it missed is in its line
//! of the ledger. Without observers there is no reader and no thread.

use crate::control::ConsumerCounts;
use crate::merged::{MergedFrame, MergedLanes, POLL};
use ringside_core::{Cause, LaneId, SourceInterface};
use ringside_inspect::Pump;
use std::sync::Arc;
use std::thread::sleep;

/// Shows the frames of all lanes to observers, merged by time.
pub(crate) struct RingObserver {
    pub(crate) lanes: MergedLanes,
    pub(crate) pump: Pump<'static>,
    /// Of the run.
    pub(crate) interfaces: Vec<SourceInterface>,
    pub(crate) counts: Arc<ConsumerCounts>,
}

impl RingObserver {
    /// Runs until all lanes are finished.
    pub(crate) fn run(mut self) {
        loop {
            let (mut progress, overtaken) = self.lanes.refill();
            self.counts.miss(Cause::Overtaken, overtaken);
            progress |= self.show();
            if self.lanes.is_drained() {
                break;
            }
            if !progress {
                self.pump.advance(self.lanes.low_water());
                sleep(POLL);
            }
        }
        self.pump.finish();
    }

    /// Shows what need not be held back; true if there was any.
    fn show(&mut self) -> bool {
        let (mut frames, mut late) = (0, 0);
        while let Some(MergedFrame { frame, lane, late_ns }) = self.lanes.pop() {
            self.pump.show(&frame, &self.interfaces, LaneId(lane as u16));
            frames += 1;
            late += u64::from(late_ns.is_some());
        }
        self.counts.deliver(frames);
        self.counts.deliver_late(late);
        frames > 0
    }
}
