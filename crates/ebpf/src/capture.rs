//! Frames of an interface to AF_XDP sockets, from inside the driver.
//!
//! [`CaptureProgram::open`] puts the root on the interface, where it may stand already for another
//! process, and loads a capture leaf (`bpf/xdp_capture.bpf.c`). Nothing is taken before
//! [`start`](CaptureProgram::start), which puts the leaf to its place; after
//! [`stop`](CaptureProgram::stop) no CPU is within it and its counters stand still.
//!
//! Every frame that the leaf sees is counted once, as steered or as passed, by queue.

mod handles;

pub use handles::{CaptureHandles, CaptureLeftBehind};

use crate::abi::{
    CAPTURE_COUNTERS, CaptureLeafConfig, METADATA_FULL_BYTES, METADATA_STAMP_BYTES, ROOT_POSITIONS,
};
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::root::{LEAVES, Root, RootConfig, fd_array};
use crate::{Error, TestRun};
use ringside_sys::bpf::{self, FdArray, PerCpuArray};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use ringside_sys::bpf::XdpMode as Mode;

static XDP_CAPTURE: Embedded = embedded!("xdp_capture");

/// Places among the leaves that captures take: the programs that drop or forward come before.
const CAPTURE_POSITIONS: Range<u32> = 2..ROOT_POSITIONS;

/// What stands in front of the first byte of a frame in a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Nothing.
    None,
    /// The time, u64: nanoseconds since 1970, TAI.
    Stamp,
}

impl Metadata {
    /// Bytes in front of every frame.
    pub fn bytes(self) -> u32 {
        match self {
            Metadata::None => 0,
            Metadata::Stamp => METADATA_STAMP_BYTES,
        }
    }
}

const _: () = assert!(METADATA_FULL_BYTES > METADATA_STAMP_BYTES);

/// What is to be captured.
#[derive(Clone, Copy, Debug)]
pub struct CaptureConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Receive queues that may get a socket, at least 1.
    pub queues: u32,
    /// What is put in front of frames.
    pub metadata: Metadata,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
}

/// Frames of one queue that the leaf saw since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// All: passed and steered.
    pub seen: u64,
    /// Left to the programs behind this one and to the host.
    pub passed: u64,
    /// Handed to the queue's socket, which may still have dropped some and counted them.
    pub steered: u64,
    /// Of those passed: the driver had no room for the metadata in front of the frame.
    pub unmarked: u64,
}

/// A capture on an interface; taken off on drop.
#[derive(Debug)]
pub struct CaptureProgram {
    root: Root,
    leaf: OwnedFd,
    sockets: FdArray,
    counters: Counters,
    queues: u32,
    is_started: bool,
}

impl CaptureProgram {
    /// Loads the leaf and attaches the root, in the calling thread's network namespace. Every frame
    /// still passes, uncounted.
    ///
    /// # Errors
    /// A foreign program is on the interface, it takes none, all places are taken, or the kernel
    /// refused to load.
    pub fn open(config: &CaptureConfig<'_>) -> Result<CaptureProgram, Error> {
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: CAPTURE_POSITIONS,
            generic_allowed: config.generic_allowed,
        })?;
        let constants = CaptureLeafConfig {
            queues: config.queues,
            position: root.position(),
            metadata: config.metadata.bytes(),
            reserved: 0,
        };
        let constants = constants.to_bytes();
        let mut loaded = Loaded::prepared(&XDP_CAPTURE, Some(&constants), |object| {
            for mut map in object.maps_mut() {
                match map.name().to_str() {
                    Some(LEAVES) => map.reuse_fd(root.leaves().as_fd())?,
                    Some("sockets") => map.set_max_entries(config.queues)?,
                    Some("counters") => map.set_max_entries(config.queues.saturating_add(1))?,
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(CaptureProgram {
            leaf: loaded.program_fd()?,
            sockets: fd_array(&loaded.map("sockets")?)?,
            counters: Counters::new(loaded.map("counters")?.as_fd())?,
            queues: config.queues,
            is_started: false,
            root,
        })
    }

    /// Where the kernel runs it.
    pub fn mode(&self) -> Mode {
        self.root.mode()
    }

    /// What was refused on the way, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }

    /// Has the frames of `queue` go to an AF_XDP socket that is bound to that queue.
    ///
    /// # Errors
    /// No such queue, it is no such socket, or the kernel refused.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.check(queue)?;
        Ok(self.sockets.set(queue, socket)?)
    }

    /// Has the frames of `queue` pass. A queue without a socket stays so.
    ///
    /// # Errors
    /// No such queue, or the kernel refused.
    pub fn clear_socket(&self, queue: u32) -> Result<(), Error> {
        self.check(queue)?;
        Ok(self.sockets.clear(queue)?)
    }

    /// From now on frames are counted and steered.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&mut self) -> Result<(), Error> {
        if !self.is_started {
            self.root.leaves().set(self.root.position(), self.leaf.as_fd())?;
            self.is_started = true;
        }
        Ok(())
    }

    /// When this returns no frame enters a socket any more, every frame passes uncounted, and the
    /// counters stand still. May take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        if self.is_started {
            self.root.leaves().clear(self.root.position())?;
            bpf::wait_until_left();
            self.is_started = false;
        }
        Ok(())
    }

    /// What was counted on `queue`: exact after [`stop`](CaptureProgram::stop), before it some
    /// values that the counters had.
    ///
    /// # Errors
    /// No such queue, or the kernel refused.
    pub fn counters(&self, queue: u32) -> Result<QueueCounters, Error> {
        self.check(queue)?;
        self.counters.read(queue)
    }

    /// What was counted in an entry of the counters: that of a queue, or behind the last one's the
    /// entry of queues beyond those that the program was loaded for, as when queues are added while
    /// it runs. Their frames all pass.
    ///
    /// # Errors
    /// There is no such entry, or the kernel refused.
    pub fn counters_at(&self, entry: u32) -> Result<QueueCounters, Error> {
        self.counters.read(entry)
    }

    /// Runs the leaf once on a copy of `frame`, as if it had come on queue 0; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.leaf.as_fd(), frame)
    }

    /// Descriptors with which another process can finish if this one dies.
    ///
    /// # Errors
    /// Too many open files.
    pub fn handles(&self) -> Result<CaptureHandles, Error> {
        CaptureHandles::of(self)
    }

    fn check(&self, queue: u32) -> Result<(), Error> {
        let queues = self.queues;
        if queue < queues { Ok(()) } else { Err(Error::Queue { queue, queues }) }
    }
}

impl Drop for CaptureProgram {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

/// The map of counters.
#[derive(Debug)]
struct Counters(PerCpuArray);

impl Counters {
    fn new(map: BorrowedFd<'_>) -> Result<Counters, Error> {
        let map = map.try_clone_to_owned();
        let map = map.map_err(|e| Error::kernel("cannot keep the counters", e.into()))?;
        Ok(Counters(PerCpuArray::from_fd(map, CAPTURE_COUNTERS)?))
    }

    fn read(&self, queue: u32) -> Result<QueueCounters, Error> {
        match *self.0.sums_at(queue)? {
            [passed, steered, unmarked, _] => {
                Ok(QueueCounters { seen: passed + steered, passed, steered, unmarked })
            }
            _ => Err(Error::Object { object: XDP_CAPTURE.name, part: "counters".into() }),
        }
    }
}
