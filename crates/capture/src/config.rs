//! What a run is asked to do.

use crate::keep::Selection;
use crate::share::ShareSocket;
pub use crate::stream::StreamWriter;
use crate::trigger::TriggerConfig;
use ringside_core::limits::{FRAME_BYTES_MAX, RING_BLOCK_BYTES};
use ringside_core::{LaneCounters, SourceInterface};
use ringside_inspect::Observer;
use ringside_ring::RingLayout;
use ringside_store::FrameWriter;
use ringside_store::retention::Policy;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Memory of a capture ring whose reader keeps up: at 10 Gb/s it holds 100 ms. A disk wants more.
pub const RING_BYTES: usize = 128 << 20;

/// The same before a disk: half a second at 8 Gb/s, which is longer than the weak phases of a disk
/// under load that were seen (bench/README.md).
pub const DISK_RING_BYTES: usize = 512 << 20;

/// Least number of blocks a lane gets, whatever the ring's size: one is filled, one is written,
/// the others are the reserve.
pub const BLOCKS_PER_LANE_MIN: usize = 4;

/// Blocks of each lane between the trigger and the recorder: two of the largest writes.
const TRIGGERED_BLOCKS_PER_LANE: usize = 16;

/// Decides about frames in front of the lanes: those that it hands on are theirs, and are counted
/// by them alone.
pub trait Ahead: Send + Sync {
    /// Begins to decide. The lanes do not receive yet.
    ///
    /// # Errors
    /// Why it cannot be.
    fn start(&self) -> Result<(), String>;

    /// Ends it; the lanes receive no more. The counters stand still then.
    ///
    /// # Errors
    /// Why it cannot be.
    fn stop(&self) -> Result<(), String>;

    /// The frames that ended here, by interface.
    fn counters(&self) -> Vec<LaneCounters>;
}

/// Settings of a run.
pub struct RunConfig {
    /// Bytes kept of each frame; what is longer is cut.
    pub snaplen: u32,
    /// Stop after this many frames.
    pub frames_max: Option<u64>,
    /// Bytes of the whole capture ring, shared evenly by the lanes.
    pub ring_bytes: usize,
    /// Bytes of one block of it.
    pub block_bytes: usize,
    /// Threads that drain each lane, 1 to `LANE_THREADS_MAX`; more than one if its backend can
    /// ([`another_handle`](ringside_core::Source::another_handle)).
    pub threads: usize,
    /// Says in user space which frames are taken, and what is kept of each.
    pub selection: Option<Selection>,
    /// What decides about frames before the lanes see them.
    pub ahead: Option<Arc<dyn Ahead>>,
    /// CPUs for the lanes' workers, thread by thread, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// How long the backend may hold frames back, in nanoseconds; the live merge waits as long.
    pub block_timeout_ns: u64,
    /// What happens to the frames.
    pub output: Output,
    /// Packets as text, next to the output or instead of it.
    pub print: Option<Print>,
    /// Who sees every frame that is taken, merged by time, next to the output or instead of it.
    /// They have a thread of their own, and what they found when the run has finished.
    pub observers: Vec<Box<dyn Observer>>,
    /// Only what surrounds a hit is kept; with `Output::Directory`. The ring is then the memory
    /// that a hit reaches back to.
    pub trigger: Option<TriggerConfig>,
    /// Where other processes may attach to the ring. A run that only counts gets a ring for them.
    pub share: Option<ShareSocket>,
}

impl RunConfig {
    /// A run that only counts.
    pub fn counting() -> RunConfig {
        RunConfig {
            snaplen: FRAME_BYTES_MAX,
            frames_max: None,
            ring_bytes: RING_BYTES,
            block_bytes: RING_BLOCK_BYTES,
            threads: 1,
            selection: None,
            ahead: None,
            cpus: Vec::new(),
            block_timeout_ns: 0,
            output: Output::Count,
            print: None,
            observers: Vec::new(),
            trigger: None,
            share: None,
        }
    }
}

impl RunConfig {
    /// The ring between trigger and recorder: room for the writes that are under way.
    pub(crate) fn recorded_layout(&self, lanes: usize) -> RingLayout {
        RingLayout {
            lanes,
            blocks_per_lane: TRIGGERED_BLOCKS_PER_LANE,
            block_bytes: self.block_bytes,
            lossless_readers: 1,
        }
    }

    /// The capture ring of `lanes` lanes; none for a run that only counts, unless other processes
    /// may attach to it.
    pub fn ring_layout(&self, lanes: usize) -> Option<RingLayout> {
        let counts = matches!(self.output, Output::Count);
        let is_read = self.print.is_some() || !self.observers.is_empty();
        let blocks = self.ring_bytes / self.block_bytes / lanes.max(1);
        let layout = RingLayout {
            lanes,
            blocks_per_lane: blocks.max(BLOCKS_PER_LANE_MIN),
            block_bytes: self.block_bytes,
            // Without a recorder nothing holds the ring: it keeps the latest frames for readers.
            lossless_readers: usize::from(!counts || self.prints_alone() || self.observes_alone()),
        };
        (!counts || self.share.is_some() || is_read).then_some(layout)
    }

    /// True if printing is all that happens to the frames. Then the workers wait for the printer as
    /// for a recorder. Else nothing may be lost to a slow terminal: it copies, and is overtaken.
    pub fn prints_alone(&self) -> bool {
        self.print.is_some() && matches!(self.output, Output::Count) && self.share.is_none()
    }

    /// True if observing is all that happens to the frames. Then the workers wait for the
    /// observers; else these copy, and may be overtaken, as a printer does.
    pub fn observes_alone(&self) -> bool {
        let is_alone = self.print.is_none() && self.share.is_none();
        !self.observers.is_empty() && matches!(self.output, Output::Count) && is_alone
    }
}

/// Where frames go.
pub enum Output {
    /// Nowhere: they are counted in place, without a copy.
    Count,
    /// Directories: one series of files per lane, the ring's blocks as they lie, each in whichever
    /// directory is free.
    Directory {
        /// The directories, at least one; made if they are missing.
        paths: Vec<PathBuf>,
        /// When a file ends.
        rotation: Rotation,
        /// How it is written.
        options: DiskOptions,
        /// What may be kept, in all directories together.
        retention: Policy,
    },
    /// One file, all lanes merged by time.
    File {
        /// The file; with rotation, the first of several.
        path: PathBuf,
        /// Its format.
        format: FileFormat,
        /// When a file ends.
        rotation: Rotation,
    },
    /// A stream, all lanes merged by time.
    Stream {
        /// Where to: a pipe, a socket, a file.
        fd: OwnedFd,
        /// Its format.
        format: FileFormat,
    },
}

/// Packets as text: all lanes merged by time.
pub struct Print {
    /// Where to: a terminal, a pipe, a file.
    pub fd: OwnedFd,
    /// Makes the writer of the text over the stream, with the interfaces of the run.
    pub writer: MakeWriter,
}

/// See [`Print::writer`].
pub type MakeWriter =
    Box<dyn FnOnce(StreamWriter, &[SourceInterface]) -> Box<dyn FrameWriter> + Send>;

/// How a recording is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Most ring blocks of one write; unless asked otherwise, tried on the disk at the start.
    pub write_blocks: Option<usize>,
    /// io_uring, where it is to be had.
    pub io_uring: bool,
    /// Past the page cache, where the file system says that it can.
    pub direct: bool,
    /// Make the index of each file while it is written.
    pub index: bool,
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions { write_blocks: None, io_uring: true, direct: true, index: true }
    }
}

/// Format of a merged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// pcapng: every interface and link type, nanoseconds, the ledger.
    Pcapng,
    /// pcap with nanosecond stamps: one link type, no ledger.
    Pcap,
}

impl Output {
    /// The directories in which files are made, whether they exist or not.
    pub fn directories(&self) -> Vec<PathBuf> {
        match self {
            Output::Directory { paths, .. } => paths.clone(),
            Output::File { path, .. } => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => vec![parent.to_owned()],
                _ => vec![PathBuf::from(".")],
            },
            Output::Count | Output::Stream { .. } => Vec::new(),
        }
    }
}

/// When a file ends and the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// At this size in bytes, at a block's border, at least one block.
    pub bytes: Option<u64>,
    /// After this time.
    pub interval: Option<Duration>,
}
