//! How several threads drain one receive ring: our policy and that of HPCAP, each on a ring in
//! memory that costs nothing, into memory that no reader reads meanwhile.
//!
//! - [`Policy::Ordered`] is what a run does: [`crate::run::Run`]'s own workers, one thread or
//!   several, into a capture ring.
//! - [`Policy::Segments`] is HPCAP's (`segments`): each thread has a fixed part of the ring, and
//!   each frame its place in the buffer by one atomic addition.
//!
//! Both write the same packet blocks. What lies in the buffer is then looked through for frames
//! that are behind a later one.

mod disorder;
mod segments;

pub use disorder::{Disorder, FLOWS};

use crate::control::Control;
use crate::lane::threads::{self, LaneHandle, SharedSetup, SharedSink};
use crate::lane::{Desk, LaneBoard, LaneContext, LaneSink, Worker};
use crate::memory_ring::{MemoryRing, MemoryRingConfig, START_NS, Sizes};
use crate::packer::Packer;
use crate::start::{RunError, spawn};
use ringside_core::limits::{BATCH_FRAMES_MAX, FRAME_BYTES_MAX, RING_BLOCK_BYTES};
use ringside_core::{Direction, InterfaceId, LaneCounters, Source};
use ringside_ring::{Board, CaptureRing, HugePages, ReadOutcome, RingLayout, RingStart};
use ringside_store::block::{
    BLOCK_HEADER_BYTES, CLOSING_BYTES_MAX, blocks, packet, packet_block_bytes,
};
use ringside_sys::flat::FlatBuffer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Blocks that a measurement leaves free: a reader that was not there cannot have the oldest.
const SPARE_BLOCKS: usize = 2;

/// Who decides which thread takes which frame, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Claims in turn, room in the order of the claims.
    Ordered,
    /// A fixed segment of the ring for each thread.
    Segments,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who decides.
    pub policy: Policy,
    /// Threads, at least 1.
    pub threads: usize,
    /// CPUs for them, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// Bytes of each frame.
    pub frame_bytes: u32,
    /// Frames a second; as fast as they are taken if there is none.
    pub rate_per_sec: Option<f64>,
    /// Descriptors of the receive ring, each with its memory.
    pub descriptors: u32,
    /// Memory that is filled once.
    pub buffer_bytes: usize,
    /// Ends earlier, if a rate is given.
    pub time_max: Duration,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Frames in the buffer.
    pub frames: u64,
    /// From the first thread's start to the last one's end.
    pub elapsed: Duration,
    /// Frames of each thread.
    pub by_thread: Vec<u64>,
    /// What the buffer shows.
    pub disorder: Disorder,
}

impl Setup {
    /// Frames that fit the buffer and the time.
    fn frames(&self) -> u64 {
        let bytes = packet_block_bytes(self.frame_bytes as usize, Direction::Unknown);
        let room = RING_BLOCK_BYTES - BLOCK_HEADER_BYTES - CLOSING_BYTES_MAX;
        let blocks = (self.buffer_bytes / RING_BLOCK_BYTES).saturating_sub(SPARE_BLOCKS);
        let fitting = (blocks * (room / bytes)) as u64;
        let in_time =
            self.rate_per_sec.map_or(u64::MAX, |rate| (rate * self.time_max.as_secs_f64()) as u64);
        fitting.min(in_time)
    }

    fn cpu(&self, thread: usize) -> Option<usize> {
        self.cpus.get(thread % self.cpus.len().max(1)).copied()
    }
}

/// Measures once.
///
/// # Errors
/// Memory or threads cannot be had.
pub fn measure(setup: &Setup) -> Result<Outcome, RunError> {
    match setup.policy {
        Policy::Ordered => ordered(setup),
        Policy::Segments => {
            let mut buffer = FlatBuffer::new(setup.buffer_bytes)?;
            let (by_thread, elapsed) = segments::run(setup, setup.frames(), &buffer);
            let frames = by_thread.iter().sum();
            let mut disorder = Disorder::default();
            see(buffer.filled(), frames, &mut disorder);
            Ok(Outcome { frames, elapsed, by_thread, disorder })
        }
    }
}

fn ordered(setup: &Setup) -> Result<Outcome, RunError> {
    let layout = RingLayout {
        lanes: 1,
        blocks_per_lane: (setup.buffer_bytes / RING_BLOCK_BYTES).max(SPARE_BLOCKS),
        block_bytes: RING_BLOCK_BYTES,
        lossless_readers: 0,
    };
    let ring = CaptureRing::create(layout, HugePages::Try)?;
    let mut source = MemoryRing::new(MemoryRingConfig {
        chunks: setup.descriptors,
        sizes: Sizes::Fixed(setup.frame_bytes),
        frames: setup.frames(),
        batch_frames: BATCH_FRAMES_MAX,
        rate_per_sec: setup.rate_per_sec,
    });
    let start = Instant::now();
    source.start()?;
    let counters = drain(setup, &ring, source)?;
    let elapsed = start.elapsed();
    let mut reader = ring.view()?.copy_reader(0, RingStart::Oldest);
    let (mut bytes, mut disorder) = (Vec::new(), Disorder::default());
    while let ReadOutcome::Frames(_) = reader.read(&mut bytes) {
        see(&bytes, u64::MAX, &mut disorder);
        bytes.clear();
    }
    let by_thread = match counters.taken_by_thread.is_empty() {
        true => vec![counters.taken],
        false => counters.taken_by_thread,
    };
    Ok(Outcome { frames: counters.taken, elapsed, by_thread, disorder })
}

/// The workers of a run on this lane, to their end.
fn drain(setup: &Setup, ring: &CaptureRing, source: MemoryRing) -> Result<LaneCounters, RunError> {
    let writer = ring.writer(0).expect("taken once, here");
    let packer = Packer::new(writer, InterfaceId(0), FRAME_BYTES_MAX, RING_BLOCK_BYTES);
    let board =
        LaneBoard::new(ring.board_writer(0, Board::Worker).expect("taken once, here"), false);
    let context = LaneContext {
        interface: source.interfaces()[0].name.clone(),
        queue: 0,
        status: Arc::default(),
        control: Arc::new(Control::new(None)),
        ring: None,
    };
    let (snaplen, threads) = (FRAME_BYTES_MAX, setup.threads);
    let handle = |thread| {
        let source = Box::new(source.another());
        LaneHandle { source, selector: None, thread, cpu: setup.cpu(thread) }
    };
    let lane = if threads == 1 {
        let LaneHandle { source, selector, cpu, .. } = handle(0);
        let sink = LaneSink::Ring(packer);
        let desk = Desk::new(context, board);
        let worker = Worker { source, desk, sink, selector, snaplen, cpu };
        spawn("lane 0", move || worker.run())?
    } else {
        let sink = SharedSink::ring(packer, threads);
        let lane = SharedSetup { sink, context, snaplen, threads };
        threads::start("lane 0", lane, board, (0..threads).map(handle).collect())?
    };
    Ok(lane.join().unwrap_or_default())
}

/// Looks through the first `frames` frames of `bytes`.
fn see(bytes: &[u8], frames: u64, disorder: &mut Disorder) {
    let numbers = blocks(bytes).filter_map(|(_, block)| packet(block)).take(frames as usize);
    numbers.for_each(|frame| disorder.see(frame.meta.timestamp.0.wrapping_sub(START_NS)));
}

#[cfg(test)]
mod tests;
