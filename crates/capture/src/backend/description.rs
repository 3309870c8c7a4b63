//! The backends of this build, each by a description: who asks for a property of a backend looks it
//! up here and names no backend.

use super::kernel_side::{KernelSide, Restore};
use super::{BackendError, af_packet, af_xdp, pcap, xdp_ring};
use ringside_core::LinkType;
use std::os::fd::OwnedFd;

/// A way to receive from interfaces.
#[derive(Debug)]
pub struct Description {
    /// As people name it, and as processes name it to each other.
    pub name: &'static str,
    /// It takes frames away from the host, before its stack sees them.
    pub is_in_driver: bool,
    /// What a lane is.
    pub lane: LaneKind,
    /// The link type of an interface's frames.
    pub link_type: fn(interface: &str) -> Result<LinkType, BackendError>,
    /// Several threads may drain a lane together.
    pub has_threads: bool,
    /// What the kernel holds of a lane, from its descriptors; `None` if it tells a process that did
    /// not open it nothing.
    pub restore: Option<Restore>,
}

/// What a lane of a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// A member of a fanout group: as many as one likes.
    FanoutMember,
    /// A receive queue of the interface.
    Queue,
    /// The whole device.
    Device,
}

/// The kernel's packet sockets.
pub static AF_PACKET: Description = Description {
    name: "af-packet",
    is_in_driver: false,
    lane: LaneKind::FanoutMember,
    link_type: af_packet::link_type,
    has_threads: false,
    restore: Some(af_packet::restore),
};

/// From inside the driver, by AF_XDP sockets.
pub static AF_XDP: Description = Description {
    name: "af-xdp",
    is_in_driver: true,
    lane: LaneKind::Queue,
    link_type: af_packet::link_type,
    has_threads: true,
    restore: Some(af_xdp::restore),
};

/// From inside the driver, by a program's own copy.
pub static XDP_RING: Description = Description {
    name: "xdp-ring",
    is_in_driver: true,
    lane: LaneKind::Queue,
    link_type: af_packet::link_type,
    has_threads: false,
    restore: Some(xdp_ring::restore),
};

/// libpcap.
pub static PCAP: Description = Description {
    name: "pcap",
    is_in_driver: false,
    lane: LaneKind::Device,
    link_type: pcap::link_type,
    has_threads: false,
    restore: None,
};

/// All of them.
pub static BACKENDS: [&Description; 4] = [&AF_PACKET, &AF_XDP, &XDP_RING, &PCAP];

/// What another process said that the kernel holds of a lane: the backend's name, its facts and its
/// descriptors. `None` if that makes no sense.
pub fn restore(backend: &str, facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
    let backend = BACKENDS.iter().find(|known| known.name == backend)?;
    (backend.restore?)(facts, fds)
}
