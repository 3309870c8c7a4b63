//! Setting up a packet socket and its ring.

use super::walk::{FrameRules, VLAN_TAG_BYTES};
use crate::mmap::Mapping;
use crate::{SysError, socket};
use ringside_core::{InterfaceId, QueueId};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsFd, OwnedFd};

/// Memory of one ring, in bytes. The kernel allocates it at once and it cannot be swapped.
const RING_BYTES_MAX: u64 = 8 << 30;

/// Smallest block: a multiple of every architecture's page.
const BLOCK_BYTES_MIN: u32 = 64 << 10;

/// Largest block: more makes the kernel look for more contiguous memory than it will find.
const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// Longest block time-out: a frame on a quiet link becomes visible that late.
const BLOCK_TIMEOUT_MS_MAX: u32 = 10_000;

/// Unused by TPACKET_V3, but checked: any size that divides a page.
const NOMINAL_FRAME_BYTES: u32 = 2048;

/// What a ring receives and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Kernel index of the interface.
    pub ifindex: u32,
    /// Id of the interface within the run, for the frames' metadata.
    pub interface: InterfaceId,
    /// Fanout member, for the frames' metadata.
    pub queue: QueueId,
    /// Bytes of a block: a power of two, at least 64 KiB. A frame must fit into one.
    pub block_bytes: u32,
    /// Number of blocks.
    pub block_count: u32,
    /// The kernel hands a block with frames over after this time, full or not; 1 to 10,000 ms.
    pub block_timeout_ms: u32,
    /// Share the interface's frames with the other members of a group.
    pub fanout: Option<Fanout>,
    /// Receive frames for other stations, until the socket is closed.
    pub promiscuous: bool,
    /// Which way frames must cross the interface.
    pub direction: CaptureDirection,
    /// Use the interface's own stamps where a frame has one. They must have been switched on.
    pub hardware_timestamps: bool,
    /// Ask for the receive hash; the kernel computes it in software where the driver gives none.
    pub receive_hash: bool,
    /// Frames are lent cut to this many bytes.
    pub snaplen_bytes: u32,
    /// Frames begin with an Ethernet header, so VLAN tags can be put back.
    pub ethernet: bool,
}

/// Frames by their way across the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureDirection {
    /// Received ones.
    #[default]
    Inbound,
    /// Received ones, and those that this host sends.
    Both,
}

/// Membership of a fanout group: each frame of the interface goes to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// Group to join; `None` makes one with an unused id.
    pub group: Option<u16>,
    /// Which member gets a frame; the same for all members.
    pub mode: FanoutMode,
}

/// How a fanout group chooses the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanoutMode {
    /// By a symmetric hash of the flow: both directions of a flow meet in one lane.
    #[default]
    Hash,
    /// By the CPU that received the frame.
    Cpu,
    /// By the interface's receive queue.
    Queue,
}

impl PacketConfig {
    pub(super) fn check(&self) -> Result<(), SysError> {
        let ring_bytes = u64::from(self.block_bytes) * u64::from(self.block_count);
        if !self.block_bytes.is_power_of_two()
            || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&self.block_bytes)
        {
            let limit = format!("a power of two from {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}");
            return Err(limit_error("the size of a ring's block", self.block_bytes, limit));
        }
        if self.block_count == 0 || ring_bytes > RING_BYTES_MAX {
            let limit = format!("1 byte to {RING_BYTES_MAX} bytes");
            return Err(limit_error("the size of a ring", ring_bytes, limit));
        }
        if !(1..=BLOCK_TIMEOUT_MS_MAX).contains(&self.block_timeout_ms) {
            let limit = format!("1 to {BLOCK_TIMEOUT_MS_MAX} ms");
            return Err(limit_error("the block time-out", self.block_timeout_ms, limit));
        }
        Ok(())
    }

    pub(super) fn rules(&self) -> FrameRules {
        FrameRules {
            interface: self.interface,
            queue: self.queue,
            snaplen_bytes: self.snaplen_bytes,
            ethernet: self.ethernet,
            receive_hash: self.receive_hash,
        }
    }
}

fn limit_error(what: &'static str, value: impl Into<u64>, limit: String) -> SysError {
    SysError::Limit { what, value: value.into(), limit }
}

/// A socket that is not bound yet, and the memory of its ring.
pub(super) fn open_ring(config: &PacketConfig) -> Result<(OwnedFd, Mapping), SysError> {
    // Protocol 0: nothing is received before the bind.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(|e| SysError::io("opening a packet socket", e))?;
    let set = |option, value: u32, name| {
        socket::set_option(&socket, libc::SOL_PACKET, option, value, name)
    };
    set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as u32, "PACKET_VERSION")?;
    set(libc::PACKET_RESERVE, VLAN_TAG_BYTES as u32, "PACKET_RESERVE")?;
    if config.hardware_timestamps {
        set(libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE, "PACKET_TIMESTAMP")?;
    }
    if config.direction == CaptureDirection::Inbound {
        super::ignore_outgoing(&socket)?;
    }
    let features = if config.receive_hash { libc::TP_FT_REQ_FILL_RXHASH } else { 0 };
    let frames_per_block = config.block_bytes / NOMINAL_FRAME_BYTES;
    // struct tpacket_req3.
    let request: [u32; 7] = [
        config.block_bytes,
        config.block_count,
        NOMINAL_FRAME_BYTES,
        frames_per_block * config.block_count,
        config.block_timeout_ms,
        0,
        features,
    ];
    socket::set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request, "PACKET_RX_RING")?;
    let ring_bytes = config.block_bytes as usize * config.block_count as usize;
    let memory = Mapping::shared(&socket, ring_bytes)?;
    Ok((socket, memory))
}

/// Binds the socket, which must reject everything, and joins the fanout group. Returns its id.
pub(super) fn bind_and_join(
    socket: &OwnedFd,
    config: &PacketConfig,
) -> Result<Option<u16>, SysError> {
    socket::bind_packet(socket, config.ifindex, libc::ETH_P_ALL as u16)?;
    // Binding to an interface that is down succeeds and leaves ENETDOWN behind.
    if let Ok(Err(rustix::io::Errno::NETDOWN)) = rustix::net::sockopt::socket_error(socket) {
        return Err(SysError::InterfaceDown { ifindex: config.ifindex });
    }
    let group = match config.fanout {
        Some(fanout) => Some(join(socket, fanout, config.direction)?),
        None => None,
    };
    if config.promiscuous {
        join_promiscuous(socket, config.ifindex)?;
    }
    Ok(group)
}

/// Keeps an interface promiscuous until the socket is closed.
pub(super) fn join_promiscuous(socket: &OwnedFd, ifindex: u32) -> Result<(), SysError> {
    // struct packet_mreq: ifindex, type and address length, address. As words: the type is the
    // first half word in memory.
    let kind = (libc::PACKET_MR_PROMISC as u16).to_ne_bytes();
    let kind = u32::from_ne_bytes([kind[0], kind[1], 0, 0]);
    let request: [u32; 4] = [ifindex, kind, 0, 0];
    let (level, option) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
    socket::set_option(socket, level, option, request, "PACKET_ADD_MEMBERSHIP")
}

fn join(socket: &OwnedFd, fanout: Fanout, direction: CaptureDirection) -> Result<u16, SysError> {
    let mode = match fanout.mode {
        FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
        FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
        FanoutMode::Queue => libc::PACKET_FANOUT_QM,
    };
    // The group has a hook of its own, to which PACKET_IGNORE_OUTGOING of a member means nothing.
    let ignore = match direction {
        CaptureDirection::Inbound => libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING,
        CaptureDirection::Both => 0,
    };
    let unique = if fanout.group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let request = u32::from(fanout.group.unwrap_or(0)) | ((mode | ignore | unique) << 16);
    let (level, option) = (libc::SOL_PACKET, libc::PACKET_FANOUT);
    socket::set_option(socket, level, option, request, "PACKET_FANOUT")?;
    let joined: u32 = socket::get_option(socket.as_fd(), level, option, "PACKET_FANOUT")?;
    Ok(joined as u16)
}

const _: () = {
    use libc::{packet_mreq, tpacket_req3};
    use std::mem::{offset_of, size_of};
    assert!(size_of::<tpacket_req3>() == size_of::<[u32; 7]>());
    assert!(offset_of!(tpacket_req3, tp_retire_blk_tov) == 16);
    assert!(offset_of!(tpacket_req3, tp_feature_req_word) == 24);
    assert!(size_of::<packet_mreq>() == size_of::<[u32; 4]>());
    assert!(offset_of!(packet_mreq, mr_type) == 4);
};
