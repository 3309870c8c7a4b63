//! The recorder alone, behind a ring that is always full: how fast it writes to a disk.
//!
//! Every block is filled once with frames. After that a block that the recorder has given back is
//! opened and closed again at once with a new number, so that what remains is the recorder's work.

use crate::config::{DiskOptions, RING_BYTES, Rotation};
use crate::control::{ConsumerCounts, Control};
use crate::recorder::{Recorder, RecorderConfig};
use crate::start::{RunError, spawn};
use ringside_core::limits::RING_BLOCK_BYTES;
use ringside_core::{
    Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, SourceInterface, Stamps, Timestamp,
    TimestampKind,
};
use ringside_ring::{CaptureRing, HugePages, LaneWriter, RingLayout};
use ringside_store::block::{
    BlockEnd, BlockHeader, Statistics, close_block, fits, write_block_end, write_block_header,
    write_packet_block,
};
use ringside_store::retention::Policy;
use ringside_sys::clock;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of each frame.
const FRAME_BYTES: usize = 1514;
/// How long the source waits when the ring is full: a small part of the time of one write.
const PAUSE: Duration = Duration::from_micros(200);

/// What is to be measured.
pub struct SyntheticConfig {
    /// Where to; made if missing. What is written there stays.
    pub directories: Vec<PathBuf>,
    /// How the recorder writes.
    pub options: DiskOptions,
    /// Lanes, each with its part of a ring of `RING_BYTES`.
    pub lanes: usize,
    /// How long the ring is kept full.
    pub duration: Duration,
}

/// What was measured.
#[derive(Debug)]
pub struct SyntheticReport {
    /// Bytes of ring blocks in the files.
    pub bytes: u64,
    /// Until all of them were on the medium.
    pub elapsed: Duration,
    /// Frames in them.
    pub frames: u64,
    /// What the recorder chose.
    pub notes: Vec<String>,
    /// What failed, a line for each.
    pub errors: Vec<String>,
}

/// Records for the given time.
///
/// # Errors
/// As [`Run::prepare`](crate::run::Run::prepare).
pub fn record(config: SyntheticConfig) -> Result<SyntheticReport, RunError> {
    let ring = CaptureRing::create(
        RingLayout {
            lanes: config.lanes,
            blocks_per_lane: RING_BYTES / RING_BLOCK_BYTES / config.lanes,
            block_bytes: RING_BLOCK_BYTES,
            lossless_readers: 1,
        },
        HugePages::Try,
    )?;
    let counts = Arc::new(ConsumerCounts::default());
    let control = Arc::new(Control::new(None));
    let interface = SourceInterface::ethernet("synthetic0");
    let recorder = Recorder::prepare(RecorderConfig {
        directories: config.directories,
        rotation: Rotation::default(),
        // Its frames are not worth one.
        options: DiskOptions { index: false, ..config.options },
        retention: Policy::default(),
        lanes: vec![interface.name.clone(); config.lanes],
        interfaces: vec![interface],
        worker_cpus: &[],
        ring: &ring,
        counts: counts.clone(),
        control: control.clone(),
    })?;
    let (notes, bells) = (recorder.notes().to_vec(), recorder.bells());
    let mut sources = Vec::new();
    for lane in 0..config.lanes {
        let mut writer = ring.writer(lane).expect("taken once, here");
        writer.wake(bells.clone());
        let mut source =
            FullLane { writer, frames: 0, frames_of_block: 0, stamps: Stamps::NONE, blocks: 0 };
        (0..ring.layout().blocks_per_lane).for_each(|_| source.fill());
        sources.push(source);
    }
    let start = Instant::now();
    let threads = recorder.start()?;
    let deadline = start + config.duration;
    let mut lanes = Vec::new();
    for (lane, source) in sources.into_iter().enumerate() {
        let control = control.clone();
        lanes.push(spawn(&format!("lane {lane}"), move || source.run(deadline, &control))?);
    }
    let blocks: u64 = lanes.into_iter().map(|lane| lane.join().unwrap_or(0)).sum();
    threads.finish(&control);
    let bytes = blocks * RING_BLOCK_BYTES as u64;
    let (elapsed, frames) = (start.elapsed(), counts.delivered());
    Ok(SyntheticReport { bytes, elapsed, frames, notes, errors: control.errors() })
}

/// A lane whose blocks are all closed, all the time.
struct FullLane {
    writer: LaneWriter,
    frames: u64,
    frames_of_block: u32,
    /// Of the frames, which are the same in each block.
    stamps: Stamps,
    blocks: u64,
}

impl FullLane {
    /// Returns the blocks that it closed.
    fn run(mut self, deadline: Instant, control: &Control) -> u64 {
        while Instant::now() < deadline && !control.is_stopping() {
            if !self.again() {
                sleep(PAUSE);
            }
        }
        self.blocks
    }

    /// Opens the next block; false if the ring is full.
    fn open(&mut self) -> bool {
        let header = BlockHeader {
            number: self.writer.next_sequence(),
            first_frame: FrameNumber(self.frames),
            opened: clock::realtime_now(),
        };
        if self.writer.open(self.frames).is_err() {
            return false;
        }
        let bytes = write_block_header(self.writer.tail(), &header);
        self.writer.fill(bytes, 0);
        true
    }

    /// The end of the block that is open.
    fn end(&self) -> BlockEnd {
        let number = self.writer.next_sequence() - 1;
        BlockEnd { number, frames: self.frames_of_block.into(), stamps: self.stamps }
    }

    /// Fills a block that was never used.
    fn fill(&mut self) {
        if !self.open() {
            return;
        }
        let data: Vec<u8> = (0..FRAME_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
        let (timestamp, timestamp_kind) = (clock::realtime_now(), TimestampKind::Poll);
        let meta = FrameMeta { timestamp, timestamp_kind, ..FrameMeta::default() };
        let frame = Frame { bytes: &data, meta };
        let mut frames = 0;
        while fits(self.writer.tail().len(), data.len(), meta.direction) {
            let bytes = write_packet_block(self.writer.tail(), &frame, 0);
            self.writer.fill(bytes, 1);
            frames += 1;
        }
        let statistics = Statistics {
            interface: InterfaceId(0),
            first_time: Timestamp::default(),
            when: meta.timestamp,
            counters: &LaneCounters::default(),
        };
        (self.frames_of_block, self.stamps) = (frames, Stamps::of(meta.timestamp));
        let end = self.end();
        let tail = self.writer.tail();
        let bytes = tail.len();
        close_block(tail, &statistics, &end);
        self.writer.fill(bytes, 0);
        self.closed();
    }

    /// Closes the next block as it was; false if the ring is full.
    fn again(&mut self) -> bool {
        if !self.open() {
            return false;
        }
        let end = self.end();
        let tail = self.writer.tail();
        let bytes = tail.len();
        write_block_end(tail, &end);
        self.writer.fill(bytes, self.frames_of_block);
        self.closed();
        true
    }

    fn closed(&mut self) {
        self.frames += u64::from(self.frames_of_block);
        self.blocks += 1;
        self.writer.close();
    }
}
