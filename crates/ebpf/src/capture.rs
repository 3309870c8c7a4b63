//! Frames of an interface to AF_XDP sockets, or into rings in memory, from inside the driver.
//!
//! [`CaptureProgram::open`] attaches the root to the interface, or joins the root of another
//! process, and loads a capture leaf: `bpf/xdp_capture.bpf.c`, or for rings `bpf/xdp_ring.bpf.c`.
//! Nothing is taken before [`start`](CaptureProgram::start), which puts the leaf to its place.
//! After [`stop`](CaptureProgram::stop) no CPU is within it and its counters do not change any
//! more.
//!
//! Every frame that the leaf sees is counted once, as steered, passed or dropped, by queue.

mod filter;
mod handles;
mod leaf;

pub use handles::{CaptureHandles, CaptureLeftBehind};

use crate::abi::{
    CAPTURE_COUNTERS, CaptureLeafConfig, METADATA_FULL_BYTES, METADATA_STAMP_BYTES, ROOT_POSITIONS,
};
use crate::load::test_run;
use crate::root::{Root, RootConfig, fd_array};
use crate::{Error, TestRun};
use filter::Filter;
use leaf::Leaf;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_sys::bpf::{self, FdArray, PerCpuArray};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use leaf::RingLeaf;
pub use ringside_sys::bpf::XdpMode as Mode;

/// Places among the leaves that captures take: the programs that drop or forward come before.
const CAPTURE_POSITIONS: Range<u32> = 2..ROOT_POSITIONS;

/// What stands in front of the first byte of a frame in a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Nothing is put in front of the frame.
    None,
    /// The time, u64: nanoseconds since 1970, TAI.
    Stamp,
    /// [`XdpMetadata`](crate::abi::XdpMetadata): the NIC's time, hash and VLAN tag where the driver
    /// has them, else TAI.
    Full,
}

impl Metadata {
    /// Bytes in front of every frame.
    pub fn bytes(self) -> u32 {
        match self {
            Metadata::None => 0,
            Metadata::Stamp => METADATA_STAMP_BYTES,
            Metadata::Full => METADATA_FULL_BYTES,
        }
    }
}

/// What is to be captured.
#[derive(Clone, Copy, Debug)]
pub struct CaptureConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Receive queues that may get a socket, at least 1.
    pub queues: u32,
    /// What is put in front of frames, if it can be had: see [`CaptureProgram::metadata`].
    pub metadata: Metadata,
    /// Which frames are steered; the others pass. None: all.
    pub filter: Option<&'a ClassicProgram>,
    /// How the frames begin.
    pub link_type: LinkType,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
}

/// Frames of one queue that the leaf saw since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// All: passed, steered, and those that a ring did not take.
    pub seen: u64,
    /// Left to the programs behind this one and to the host.
    pub passed: u64,
    /// Put into the queue's ring; or handed to its socket, which may still have dropped some and
    /// counted them.
    pub steered: u64,
    /// Of those passed: the driver had no room for the metadata in front of the frame.
    pub unmarked: u64,
    /// Dropped: the ring was full.
    pub no_room: u64,
    /// Dropped: longer than a record of a ring can be.
    pub too_long: u64,
}

/// A capture on an interface; taken off on drop.
#[derive(Debug)]
pub struct CaptureProgram {
    root: Root,
    leaf: OwnedFd,
    filter: Option<Filter>,
    sockets: Option<FdArray>,
    rings: Option<OwnedFd>,
    counters: Counters,
    metadata: Metadata,
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
        CaptureProgram::with_leaf(config, None)
    }

    /// The same with a leaf that copies frames into rings, and without metadata in front of them.
    ///
    /// # Errors
    /// As [`open`](Self::open); or there is no memory for the rings.
    pub fn open_rings(
        config: &CaptureConfig<'_>,
        rings: &RingLeaf,
    ) -> Result<CaptureProgram, Error> {
        CaptureProgram::with_leaf(config, Some(rings))
    }

    fn with_leaf(
        config: &CaptureConfig<'_>,
        rings: Option<&RingLeaf>,
    ) -> Result<CaptureProgram, Error> {
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: CAPTURE_POSITIONS,
            wants_metadata: config.metadata == Metadata::Full,
            generic_allowed: config.generic_allowed,
            takes_pinned: None,
        })?;
        let metadata = match config.metadata {
            _ if root.has_metadata() => Metadata::Full,
            Metadata::Full => Metadata::Stamp,
            wanted => wanted,
        };
        let mut constants = CaptureLeafConfig {
            queues: config.queues,
            position: root.position(),
            metadata: metadata.bytes(),
            passes: 0,
        };
        let load = |constants: &CaptureLeafConfig, counters: Option<BorrowedFd<'_>>| {
            let (leaves, ifindex) = (root.leaves().as_fd(), config.ifindex);
            Leaf { constants, leaves, counters, ifindex, rings }.load()
        };
        let mut loaded = load(&constants, None)?;
        let (leaf, counters) = (loaded.program_fd()?, loaded.map("counters")?);
        let filter = match config.filter {
            None => None,
            Some(program) => {
                constants.passes = 1;
                let mut pass = load(&constants, Some(counters.as_fd()))?;
                let (steer, pass) = (leaf.as_fd(), pass.program_fd()?);
                let tags = metadata == Metadata::Full;
                Some(Filter::load(program, config.link_type, tags, steer, pass.as_fd())?)
            }
        };
        let (sockets, rings) = match rings {
            None => (Some(fd_array(&loaded.map("sockets")?)?), None),
            Some(_) => (None, Some(leaf::copy(loaded.map("rings")?.as_fd())?)),
        };
        Ok(CaptureProgram {
            sockets,
            rings,
            counters: Counters::new(counters.as_fd())?,
            metadata,
            queues: config.queues,
            is_started: false,
            leaf,
            filter,
            root,
        })
    }

    /// Where the kernel runs the program.
    pub fn mode(&self) -> Mode {
        self.root.mode()
    }

    /// What stands in front of every frame. Full metadata becomes a stamp where the driver has none
    /// or the root of another process does not ask for it; and what was asked for becomes full
    /// metadata where that root does. The notes say why.
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }

    /// Sends the frames of `queue` to an AF_XDP socket that is bound to that queue.
    ///
    /// # Errors
    /// No such queue, it is no such socket, or the kernel refused.
    pub fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        self.check(queue)?;
        let sockets = self.sockets.as_ref().ok_or(Error::NoSockets)?;
        Ok(sockets.set(queue, socket)?)
    }

    /// Lets the frames of `queue` pass, as those of a queue that has no socket yet.
    ///
    /// # Errors
    /// No such queue, or the kernel refused.
    pub fn clear_socket(&self, queue: u32) -> Result<(), Error> {
        self.check(queue)?;
        let sockets = self.sockets.as_ref().ok_or(Error::NoSockets)?;
        Ok(sockets.clear(queue)?)
    }

    /// The map of rings, if frames go there.
    pub fn rings(&self) -> Option<BorrowedFd<'_>> {
        self.rings.as_ref().map(|rings| rings.as_fd())
    }

    /// Starts the capture: frames are counted and steered.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&mut self) -> Result<(), Error> {
        if !self.is_started {
            self.root.leaves().set(self.root.position(), self.entry())?;
            self.is_started = true;
        }
        Ok(())
    }

    /// Puts a started leaf to its place again if the place is empty; true if so. Under a standing
    /// root the kernel empties the array of leaves a moment after the last process that had it open
    /// is gone (`prog_array_map_clear` of kernel/bpf/arraymap.c). The next process may have started
    /// by then.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put_back_if_gone(&self) -> Result<bool, Error> {
        let position = self.root.position();
        if !self.is_started || self.root.leaves().program_at(position)?.is_some() {
            return Ok(false);
        }
        self.root.leaves().set(position, self.entry())?;
        Ok(true)
    }

    /// Stops the capture. When this returns no frame enters a socket any more, all frames pass
    /// uncounted, and the counters do not change any more. May take some ten milliseconds.
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

    /// Runs filter and leaf once on a copy of `frame`, as if it had come on queue 0; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is. So is a run of a leaf that fills
    /// rings, which have one writer.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        if self.rings.is_some() {
            return Err(Error::NoSockets);
        }
        test_run(self.entry(), frame)
    }

    /// The program at the capture's place, to which frames come.
    pub fn entry(&self) -> BorrowedFd<'_> {
        self.filter.as_ref().map_or(self.leaf.as_fd(), Filter::entry)
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
        Ok(Counters(PerCpuArray::from_fd(leaf::copy(map)?, CAPTURE_COUNTERS)?))
    }

    fn read(&self, queue: u32) -> Result<QueueCounters, Error> {
        match *self.0.sums_at(queue)? {
            [seen, passed, steered, unmarked, no_room, too_long] => {
                Ok(QueueCounters { seen, passed, steered, unmarked, no_room, too_long })
            }
            _ => Err(Error::Object { object: "a capture leaf", part: "counters".into() }),
        }
    }
}
