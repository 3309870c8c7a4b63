//! The threads of the lanes: one each, or several.

use super::{LaneSource, RunError, Shared, spawn};
use crate::keep::Selector;
use crate::lane::threads::{self, LaneHandle, SharedSetup, SharedSink};
use crate::lane::{Desk, LaneBoard, LaneContext, LaneSink, Worker};
use crate::packer::Packer;
use ringside_core::{LaneCounters, Source};
use ringside_ring::{Board, CaptureRing};
use ringside_sys::bell::Bells;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What the threads of a lane have in addition to its first source: the other handles, and what
/// chooses the frames of each.
type Handles = (Vec<Box<dyn Source>>, Vec<Selector>);

/// Settings of the workers.
pub(super) struct Settings {
    pub(super) snaplen: u32,
    pub(super) block_bytes: usize,
    pub(super) threads: usize,
    /// Frames are turned away after their source has counted them.
    pub(super) turns_away: bool,
    pub(super) cpus: Vec<usize>,
    /// Of the recorder's writers.
    pub(super) bells: Option<Arc<Bells>>,
}

impl Settings {
    /// Where a thread of a lane runs.
    fn cpu(&self, lane: usize, thread: usize) -> Option<usize> {
        let index = lane * self.threads + thread;
        self.cpus.get(index % self.cpus.len().max(1)).copied()
    }
}

impl Shared {
    /// Starts the threads of each lane, whose further handles come with it.
    pub(super) fn workers(
        &self,
        lanes: impl Iterator<Item = (LaneSource, Handles)>,
        settings: &Settings,
    ) -> Result<Vec<JoinHandle<LaneCounters>>, RunError> {
        let start = |(index, (lane, mut handles)): (usize, (LaneSource, Handles))| {
            if settings.threads > 1 {
                return self.several_threads(index, lane, handles, settings);
            }
            let context = self.context(index, &lane);
            let worker = Worker {
                sink: self.sink(index, &lane, settings),
                desk: Desk::new(context.clone(), self.board(index, settings)),
                source: lane.source,
                selector: handles.1.pop(),
                snaplen: settings.snaplen,
                cpu: settings.cpu(index, 0),
            };
            spawn(&format!("lane {index}"), move || context.run(|| worker.run()))
        };
        lanes.enumerate().map(start).collect()
    }

    /// Starts several threads for one lane; the first waits for the others.
    fn several_threads(
        &self,
        index: usize,
        lane: LaneSource,
        (handles, selectors): Handles,
        settings: &Settings,
    ) -> Result<JoinHandle<LaneCounters>, RunError> {
        let sink = match self.sink(index, &lane, settings) {
            LaneSink::Ring(packer) => SharedSink::ring(packer, settings.threads),
            LaneSink::Meter(counts) => SharedSink::meter(
                self.boards.writer(index).expect("nobody fills this ring"),
                counts,
            ),
        };
        let setup = SharedSetup {
            sink,
            context: self.context(index, &lane),
            snaplen: settings.snaplen,
            threads: settings.threads,
        };
        let sources = std::iter::once(lane.source).chain(handles);
        let mut selectors = selectors.into_iter();
        let handle = |(thread, source)| {
            let cpu = settings.cpu(index, thread);
            LaneHandle { source, selector: selectors.next(), thread, cpu }
        };
        let handles = sources.enumerate().map(handle).collect();
        threads::start(&format!("lane {index}"), setup, self.board(index, settings), handles)
    }

    fn context(&self, index: usize, lane: &LaneSource) -> LaneContext {
        LaneContext {
            interface: lane.interface.clone(),
            queue: lane.queue,
            status: self.status[index].clone(),
            control: self.control.clone(),
            ring: self.ring.clone().map(|ring| (ring, index)),
        }
    }

    fn board(&self, index: usize, settings: &Settings) -> LaneBoard {
        let writer = self.boards.board_writer(index, Board::Worker);
        let writer = writer.expect("each lane's board is taken once, here");
        LaneBoard::new(writer, settings.turns_away)
    }

    fn sink(&self, index: usize, lane: &LaneSource, settings: &Settings) -> LaneSink {
        match &self.ring {
            Some(ring) => LaneSink::Ring(packer(ring, index, lane, settings)),
            None => LaneSink::Meter(self.counts.clone()),
        }
    }
}

/// What fills a lane of `ring`.
pub(super) fn packer(
    ring: &CaptureRing,
    index: usize,
    lane: &LaneSource,
    settings: &Settings,
) -> Packer {
    let mut writer = ring.writer(index).expect("each lane's writer is taken once");
    if let Some(bells) = &settings.bells {
        writer.wake(bells.clone());
    }
    Packer::new(writer, lane.interface_id, settings.snaplen, settings.block_bytes)
}
