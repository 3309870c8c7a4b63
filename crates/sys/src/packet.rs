//! The receive ring of a packet socket (TPACKET_V3, Documentation/networking/packet_mmap.rst).
//!
//! Opening and closing are arranged so that every frame is counted exactly once:
//!
//! 1. [`PacketRing::open`] binds the socket with a filter that rejects everything, and then joins
//!    the fanout group. Between bind and join a member sees the whole interface; nothing of that
//!    may get in.
//! 2. [`PacketRing::start`] exchanges that filter for the real one. The exchange is atomic.
//! 3. [`PacketRing::detach`] puts the rejecting filter back and waits until no CPU is within the
//!    old one any more. From then on the kernel's counters stand still.
//! 4. What is left in the ring is lent. The ring is [drained](PacketRing::is_drained) when as many
//!    frames came out of it as the kernel put in; the block that the kernel was filling is handed
//!    over by the block time-out.
//!
//! The kernel resets PACKET_STATISTICS on every read, and its `tp_packets` includes `tp_drops`.
//! One function reads and accumulates. So, once drained: handled + dropped == received.
//!
//! VLAN tags, which the kernel takes out of frames, are put back into the bytes.

mod blocks;
mod layout;
mod left_behind;
mod setup;
mod statistics;
mod walk;

pub use blocks::{BlockCounts, Filled, Keep};
pub use left_behind::LeftBehind;
pub use setup::{CaptureDirection, Fanout, FanoutMode, PacketConfig};
pub use statistics::{PacketStatistics, ReadingTimes};

use crate::bpf::{self, Program};
use crate::ethtool::{self, COMMAND_WORDS, ETHTOOL_GGRO};
use crate::{SysError, clock, socket};
use blocks::BlockRing;
use ringside_core::bpf::{ClassicProgram, Instruction};
use ringside_core::{Batch, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// BPF_RET | BPF_K.
const RETURN_CONSTANT: u16 = 0x06;

/// What a started ring accepts.
#[derive(Clone, Copy)]
pub enum FilterProgram<'p> {
    /// Every frame, whole.
    AcceptAll,
    /// Every frame, cut to this number of bytes by the kernel.
    Snaplen(u32),
    /// What a classic program accepts. The kernel does not count what it rejects.
    Classic(&'p ClassicProgram),
    /// What a loaded eBPF program accepts.
    Ebpf(&'p Program),
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// A block may be ready.
    Ready,
    /// The time passed, or a signal came.
    TimedOut,
    /// The interface will deliver nothing more.
    Gone(InterfaceEvent),
}

/// What happened to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceEvent {
    /// It was set down; it may come up again.
    SetDown,
    /// It was deleted, or moved to another network namespace.
    Removed,
}

impl fmt::Display for InterfaceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InterfaceEvent::SetDown => "was set down",
            InterfaceEvent::Removed => "was removed",
        })
    }
}

/// A packet socket with its ring. Closing it (also by kill -9) ends everything that it changed:
/// the promiscuous mode is counted per socket by the kernel.
pub struct PacketRing {
    // Before the socket, so that the mapping goes first.
    blocks: BlockRing,
    socket: OwnedFd,
    statistics: PacketStatistics,
    read: ReadingTimes,
    ifindex: u32,
    fanout_group: Option<u16>,
    detached: bool,
}

impl PacketRing {
    /// Opens the socket and its ring; nothing is received before [`start`](PacketRing::start).
    ///
    /// # Errors
    /// A missing privilege (CAP_NET_RAW), an interface that is not there or not up, a value
    /// beyond its limit, not enough memory.
    pub fn open(config: &PacketConfig) -> Result<PacketRing, SysError> {
        config.check()?;
        let (socket, memory) = setup::open_ring(config)?;
        bpf::attach_classic(socket.as_fd(), &return_constant(0))?;
        let fanout_group = setup::bind_and_join(&socket, config)?;
        let (block_bytes, block_count) = (config.block_bytes as usize, config.block_count as usize);
        Ok(PacketRing {
            blocks: BlockRing::new(memory, block_bytes, block_count, config.rules()),
            socket,
            statistics: PacketStatistics::default(),
            read: ReadingTimes::default(),
            ifindex: config.ifindex,
            fanout_group,
            detached: false,
        })
    }

    /// The id of the fanout group that was made or joined.
    pub fn fanout_group(&self) -> Option<u16> {
        self.fanout_group
    }

    /// Lets frames in: those that `program` accepts.
    ///
    /// # Errors
    /// The kernel refused the program.
    pub fn start(&mut self, program: FilterProgram<'_>) -> Result<(), SysError> {
        self.read.note(clock::monotonic_ns());
        let socket = self.socket.as_fd();
        match program {
            FilterProgram::AcceptAll => {
                let (level, option) = (libc::SOL_SOCKET, libc::SO_DETACH_FILTER);
                socket::set_option(socket, level, option, 0u32, "SO_DETACH_FILTER")
            }
            FilterProgram::Snaplen(bytes) => {
                Ok(bpf::attach_classic(socket, &return_constant(bytes))?)
            }
            FilterProgram::Classic(classic) => Ok(bpf::attach_classic(socket, classic)?),
            FilterProgram::Ebpf(program) => Ok(bpf::attach_socket_filter(socket, program)?),
        }
    }

    /// Stops the supply: when this returns, no later frame is counted or put into the ring. May
    /// take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused; then the ring goes on receiving.
    pub fn detach(&mut self) -> Result<(), SysError> {
        if self.detached {
            return Ok(());
        }
        reject_all(self.socket.as_fd())?;
        self.detached = true;
        self.read_statistics()
    }

    /// True once detached and every frame that the kernel put into the ring came out of it.
    pub fn is_drained(&self) -> bool {
        self.detached && self.left_in_ring() == 0
    }

    /// Frames that the kernel accepted and that have not been found in a block yet, by the
    /// statistics as last read.
    pub fn left_in_ring(&self) -> u64 {
        let accepted = self.statistics.received.saturating_sub(self.statistics.dropped);
        accepted.saturating_sub(self.blocks.counts().handled())
    }

    /// Frames that lie in the ring, as counted there, and were neither lent nor turned away.
    pub fn waiting(&self) -> u64 {
        self.blocks.waiting()
    }

    /// Waits until a block may be ready, at most `timeout`.
    ///
    /// # Errors
    /// The socket reports an error other than that the interface is gone.
    pub fn wait(&self, timeout: Duration) -> Result<Wakeup, SysError> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::ERR)];
        // Longer than the kernel's clock is for ever.
        let tv_sec = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let events = match poll(&mut fds, Some(&timeout)) {
            Ok(_) => fds[0].revents(),
            Err(rustix::io::Errno::INTR) => PollFlags::empty(),
            Err(error) => return Err(SysError::io("waiting for a packet socket", error)),
        };
        if !events.contains(PollFlags::ERR) {
            return Ok(if events.is_empty() { Wakeup::TimedOut } else { Wakeup::Ready });
        }
        match rustix::net::sockopt::socket_error(&self.socket) {
            Ok(Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::NODEV)) => {
                Ok(Wakeup::Gone(self.interface_event()))
            }
            Ok(Ok(())) => Ok(Wakeup::Ready),
            Ok(Err(error)) | Err(error) => {
                Err(SysError::io(format!("receiving on interface index {}", self.ifindex), error))
            }
        }
    }

    /// Tells a removed interface from one that was set down. Removing sets it down first, under
    /// the kernel's rtnl lock; a request that takes this lock too is answered only afterwards.
    fn interface_event(&self) -> InterfaceEvent {
        let name = || rustix::net::netdevice::index_to_name(&self.socket, self.ifindex);
        let still_there = name().is_ok_and(|name| {
            // The answer does not matter, only that it comes after the lock.
            let mut words = [0; COMMAND_WORDS];
            words[0] = ETHTOOL_GGRO;
            let _ = ethtool::exchange(&self.socket, &name, &mut words);
            true
        });
        if still_there && name().is_ok() {
            InterfaceEvent::SetDown
        } else {
            InterfaceEvent::Removed
        }
    }

    /// Collects the next frames, of at most one block; does not wait.
    pub fn fill(&mut self, keep: Option<Keep<'_>>) -> Filled {
        self.blocks.fill(keep)
    }

    /// Lends what [`fill`](PacketRing::fill) collected.
    pub fn lend(&mut self) -> Option<Batch<'_>> {
        self.blocks.lend()
    }

    /// Reads the kernel's counters and adds them up. To be called at least every few minutes:
    /// they are 32 bits wide.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn read_statistics(&mut self) -> Result<(), SysError> {
        self.read.note(clock::monotonic_ns());
        self.statistics.accumulate(&self.socket)
    }

    /// When the kernel's counters were read.
    pub fn reading_times(&self) -> ReadingTimes {
        self.read
    }

    /// The kernel's counters as last read, since the start.
    pub fn statistics(&self) -> PacketStatistics {
        self.statistics
    }

    /// What came out of the ring.
    pub fn counts(&self) -> BlockCounts {
        self.blocks.counts()
    }

    /// The latest stamp of all frames that were found in a block; 0 before the first.
    pub fn newest_stamp(&self) -> Timestamp {
        self.blocks.newest_stamp()
    }
}

impl AsFd for PacketRing {
    /// For an observer; receiving from it or changing its filter breaks the accounting.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Has a packet socket receive nothing more, and waits until no CPU is within its old filter.
fn reject_all(socket: BorrowedFd<'_>) -> Result<(), SysError> {
    bpf::attach_classic(socket, &return_constant(0))?;
    // The packet path runs the filter and counts its verdict within one RCU section.
    bpf::wait_until_left();
    Ok(())
}

/// Keeps an interface promiscuous, so that it receives frames for other stations too, until it is
/// dropped. The kernel counts the requests, so that no other program's request is undone.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Makes the interface with index `ifindex` promiscuous.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn keep(ifindex: u32) -> Result<Promiscuous, SysError> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        // Without a protocol the socket receives nothing.
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|e| SysError::io("opening a packet socket", e))?;
        setup::join_promiscuous(&socket, ifindex)?;
        Ok(Promiscuous { _socket: socket })
    }
}

/// Has a packet socket of another library receive no frames that this host sends.
///
/// # Errors
/// `socket` is no packet socket.
pub fn ignore_outgoing(socket: impl AsFd) -> Result<(), SysError> {
    let (level, option) = (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING);
    socket::set_option(socket, level, option, 1u32, "PACKET_IGNORE_OUTGOING")
}

/// The classic program that returns `bytes` for every frame; 0 rejects it.
fn return_constant(bytes: u32) -> ClassicProgram {
    let instruction = Instruction { code: RETURN_CONSTANT, jump_true: 0, jump_false: 0, k: bytes };
    ClassicProgram { instructions: vec![instruction] }
}
