//! The socket: opened, bound to one receive queue, waited for, counted.

use super::fill::FillRing;
use super::layout::{self, Address, RawDescriptor, Ring};
use super::receive::{LaneArena, RxRing};
use super::ring::RingMemory;
use super::umem::Umem;
use crate::{SysError, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Entries of the completion ring, which is not used.
const COMPLETION_ENTRIES: u32 = 64;

// include/uapi/asm-generic/socket.h; libc does not have them.
const SO_BUSY_POLL: i32 = 46;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;

/// How a socket is bound, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindStep {
    /// The driver puts frames into our memory itself, long ones in several parts.
    ZeroCopyParts,
    /// The same, whole frames only.
    ZeroCopy,
    /// The kernel copies each frame, long ones in several parts.
    CopyParts,
    /// The kernel copies each frame; whole frames only.
    Copy,
}

impl BindStep {
    /// The ladder from its top.
    pub const LADDER: [BindStep; 4] =
        [BindStep::ZeroCopyParts, BindStep::ZeroCopy, BindStep::CopyParts, BindStep::Copy];

    /// Frames may come in several parts.
    pub fn has_parts(self) -> bool {
        matches!(self, BindStep::ZeroCopyParts | BindStep::CopyParts)
    }

    /// The driver uses our memory itself.
    pub fn is_zero_copy(self) -> bool {
        matches!(self, BindStep::ZeroCopyParts | BindStep::ZeroCopy)
    }

    pub(super) fn flags(self) -> u16 {
        let mode = if self.is_zero_copy() { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let parts = if self.has_parts() { libc::XDP_USE_SG } else { 0 };
        mode | parts | libc::XDP_USE_NEED_WAKEUP
    }
}

impl fmt::Display for BindStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BindStep::ZeroCopyParts => "zero-copy with multi-buffer",
            BindStep::ZeroCopy => "zero-copy",
            BindStep::CopyParts => "copy with multi-buffer",
            BindStep::Copy => "copy",
        })
    }
}

/// What a socket is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XskConfig {
    /// Kernel index of the interface.
    pub ifindex: u32,
    /// Receive queue.
    pub queue: u32,
    /// Entries of the receive ring, a power of two. With as many as the lane has chunks it never
    /// fills up, which is more than convenient: where the driver uses our memory itself, a ring
    /// that fills up within a frame of several parts cuts that frame, and the next one seems to
    /// continue it (before commit f7387d6579d6 of Linux 7.0).
    pub rx_entries: u32,
}

/// Busy polling of a socket (SO_PREFER_BUSY_POLL, SO_BUSY_POLL, SO_BUSY_POLL_BUDGET).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long a system call polls the queue, in microseconds.
    pub time_us: u32,
    /// Most frames of one round.
    pub budget: u32,
}

/// What the kernel counted for a socket (XDP_STATISTICS), since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskStatistics {
    /// Frames dropped for want of a chunk, or because they are too long for one.
    pub dropped: u64,
    /// Fill-ring entries that named no chunk.
    pub invalid_fill: u64,
    /// Frames dropped because the receive ring was full.
    pub ring_full: u64,
    /// Chunks that the kernel wanted and that the fill ring did not have.
    pub fill_empty: u64,
}

impl XskStatistics {
    /// What was counted for the socket behind a descriptor, be it another process's.
    ///
    /// # Errors
    /// It is no AF_XDP socket.
    pub fn of(socket: impl AsFd) -> Result<XskStatistics, SysError> {
        let name = "XDP_STATISTICS";
        let words: [u64; 6] =
            socket::get_option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, name)?;
        let [dropped, invalid_fill, _, ring_full, fill_empty, _] = words;
        Ok(XskStatistics { dropped, invalid_fill, ring_full, fill_empty })
    }
}

/// An AF_XDP socket that receives.
pub struct XskSocket {
    fd: OwnedFd,
    config: XskConfig,
    umem: Arc<Umem>,
}

/// The ends of a lane's rings.
pub struct XskEnds {
    /// Where frames come out.
    pub rx: RxRing,
    /// Where free chunks go in; the kernel has none yet.
    pub fill: FillRing,
    /// Where frames of several parts are joined.
    pub arena: LaneArena,
}

impl XskEnds {
    /// The ends of lane `lane`: its rings, new, of `rx_entries` entries and of as many as it has
    /// chunks.
    ///
    /// # Panics
    /// If there is no such lane, or it has its ends.
    pub(super) fn new(
        umem: &Arc<Umem>,
        lane: usize,
        rx: (RingMemory, u32),
        fill: RingMemory,
    ) -> XskEnds {
        let (chunks, arena) = umem.take_lane(lane);
        XskEnds {
            rx: RxRing::new(rx.0, rx.1, umem.clone()),
            fill: FillRing::new(fill, umem.clone(), chunks),
            arena: LaneArena::new(umem.clone(), arena),
        }
    }
}

impl XskSocket {
    /// Makes the socket of lane `lane` of `umem` with its rings; not bound yet. The first socket of
    /// an [`Umem`] registers the memory; later ones share it with `first`.
    ///
    /// # Errors
    /// A privilege is missing (CAP_NET_RAW), the kernel has no AF_XDP, or not enough memory.
    ///
    /// # Panics
    /// If there is no such lane, it was opened before, or `first` is of other memory.
    pub fn open(
        umem: &Arc<Umem>,
        lane: usize,
        first: Option<&XskSocket>,
        config: XskConfig,
    ) -> Result<(XskSocket, XskEnds), SysError> {
        let fd = layout::open()?;
        let cut = umem.layout();
        if let Some(first) = first {
            // The kernel takes the chunks of this socket for places in that memory.
            assert!(Arc::ptr_eq(&first.umem, umem), "lanes share the memory that they are of");
        } else {
            let (bytes, chunk_bytes) = (cut.chunks_bytes(), cut.chunk_bytes);
            // SAFETY: every socket keeps the memory alive (`umem`), and the kernel unpins it only
            // after the last is closed; what it writes to are chunks, by `Chunk`'s rules.
            unsafe {
                layout::register_memory(&fd, umem.as_ptr(), bytes, chunk_bytes, 0)?;
            }
        }
        let entries = [
            (Ring::Fill, cut.chunks_per_lane),
            (Ring::Completion, COMPLETION_ENTRIES),
            (Ring::Receive, config.rx_entries),
        ];
        for (ring, entries) in entries {
            layout::make_ring(&fd, ring, entries)?;
        }
        let descriptor = size_of::<RawDescriptor>();
        let rx = layout::map_ring(&fd, Ring::Receive, config.rx_entries, descriptor)?;
        let fill = layout::map_ring(&fd, Ring::Fill, cut.chunks_per_lane, size_of::<u64>())?;
        let ends = XskEnds::new(umem, lane, (rx, config.rx_entries), fill);
        Ok((XskSocket { fd, config, umem: umem.clone() }, ends))
    }

    /// Binds to the queue. A refusal leaves the socket as it was. `shared_with` is the bound first
    /// socket of the memory, whose way of binding this one takes over. Waits up to a second for a
    /// queue whose last socket was just closed.
    ///
    /// # Errors
    /// What the kernel said to this step.
    ///
    /// # Panics
    /// If `shared_with` is of other memory.
    pub fn bind(&self, step: BindStep, shared_with: Option<&XskSocket>) -> Result<(), io::Error> {
        let flags = shared_with.map_or(step.flags(), |_| libc::XDP_SHARED_UMEM);
        let XskConfig { ifindex, queue, .. } = self.config;
        let shared_with = shared_with.map(|socket| {
            assert!(Arc::ptr_eq(&socket.umem, &self.umem), "lanes share the memory they are of");
            &socket.fd
        });
        let address = Address { flags, ifindex, queue, shared_with };
        layout::bind(&self.fd, &address)
    }

    /// True if the driver uses our memory itself, as the kernel says (XDP_OPTIONS).
    ///
    /// # Errors
    /// The kernel refused.
    pub fn is_zero_copy(&self) -> Result<bool, SysError> {
        layout::is_zero_copy(&self.fd)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn statistics(&self) -> Result<XskStatistics, SysError> {
        XskStatistics::of(&self.fd)
    }

    /// A descriptor of it for another process, which can read what was counted
    /// ([`XskStatistics::of`]).
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Has system calls on the socket poll the queue's NAPI instead of waiting for interrupts.
    ///
    /// # Errors
    /// The kernel refused; it needs CAP_NET_ADMIN.
    pub fn set_busy_poll(&self, busy_poll: BusyPoll) -> Result<(), SysError> {
        let set = |option, value: u32, name| {
            socket::set_option(&self.fd, libc::SOL_SOCKET, option, value, name)
        };
        set(SO_PREFER_BUSY_POLL, 1, "SO_PREFER_BUSY_POLL")?;
        set(SO_BUSY_POLL, busy_poll.time_us, "SO_BUSY_POLL")?;
        set(SO_BUSY_POLL_BUDGET, busy_poll.budget, "SO_BUSY_POLL_BUDGET")
    }

    /// Has system calls on the socket poll nothing any more.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop_busy_poll(&self) -> Result<(), SysError> {
        let set = |option, name| socket::set_option(&self.fd, libc::SOL_SOCKET, option, 0u32, name);
        set(SO_BUSY_POLL, "SO_BUSY_POLL")?;
        set(SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL")
    }

    /// Waits until frames may be there, at most `timeout`. False if the time passed. An interface
    /// that is gone looks like one that receives nothing.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn wait(&self, timeout: Duration) -> Result<bool, SysError> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let tv_sec = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(SysError::io("waiting for an AF_XDP socket", error)),
        }
    }

    /// Has the kernel look at the queue: with busy polling it polls it, else it wakes a driver that
    /// waits for chunks.
    pub fn kick(&self) {
        // It receives nothing; that the queue is busy or was empty is no news.
        let nothing: &mut [u8] = &mut [];
        let _ = recv(&self.fd, nothing, RecvFlags::DONTWAIT);
    }

    /// The memory.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
