//! The backends of this build, each by a description: who asks for a property of a backend looks it
//! up here and names no backend. Each stands in its backend's module; the list here makes it known.

use super::kernel_side::{KernelSide, Restore};
use super::opening::{OpenRequest, OpenedLanes};
use super::{BackendError, af_packet, af_xdp, dpdk, netmap, pcap, pf_ring, xdp_ring};
use crate::interface::Unable;
use ringside_core::LinkType;
use std::os::fd::OwnedFd;

/// A way to receive from interfaces.
#[derive(Debug)]
pub struct Description {
    /// As people name it, and as processes name it to each other.
    pub name: &'static str,
    /// What it is, in a line of help.
    pub summary: &'static str,
    /// It takes frames away from the host, before its stack sees them.
    pub is_in_driver: bool,
    /// What a lane is.
    pub lane: LaneKind,
    /// The link type of an interface's frames.
    pub link_type: fn(interface: &str) -> Result<LinkType, BackendError>,
    /// Several threads may drain a lane together.
    pub has_threads: bool,
    /// The card's own stamps can be had.
    pub has_card_stamps: bool,
    /// It loses VLAN tags that the driver takes out of frames: the features that do so
    /// ([`stripped_tags`](super::stripped_tags)) are to be off while it receives.
    pub wants_tags_in_frames: bool,
    /// Frames can come without a copy by the kernel, where driver and card do that.
    pub has_zero_copy: bool,
    /// What programs have in front of them; `None` for libpcap, which hides it.
    pub interface: Option<&'static str>,
    /// The system of another project that it receives with.
    pub system: Option<&'static System>,
    /// Refuses what it cannot do of a request, before anything is changed for it.
    pub check: fn(&OpenRequest) -> Result<(), Unable>,
    /// Opens all lanes of an interface, after the check.
    pub open: fn(&OpenRequest) -> Result<OpenedLanes, BackendError>,
    /// Tries whether it can be opened here, where that changes nothing; `None` if it can be tried
    /// only on an interface that was made for it.
    pub probe: Option<fn() -> Result<(), BackendError>>,
    /// What the kernel holds of a lane, from its descriptors; `None` if it tells a process that did
    /// not open it nothing.
    pub restore: Option<Restore>,
}

impl Description {
    /// Its lanes for what is asked.
    ///
    /// # Errors
    /// It cannot do that, or not here.
    pub fn open(&self, request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
        (self.check)(request)?;
        (self.open)(request)
    }
}

/// A capture system of another project, in the words of a survey.
#[derive(Debug)]
pub struct System {
    /// The page of docs/ that says so, with the sources.
    pub page: &'static str,
    /// What of it is installed here.
    pub release: fn() -> Option<String>,
    /// Which frames come without a copy.
    pub zero_copy: &'static str,
    /// What it does to frames in the kernel.
    pub kernel: &'static str,
    /// What it changes of the system.
    pub change: &'static str,
    /// Where it stands.
    pub architecture: &'static str,
    /// The cards that it works with.
    pub cards: &'static str,
    /// What it costs.
    pub price: &'static str,
    /// Its licences.
    pub licence: &'static str,
}

/// Refuses nothing.
pub(super) fn takes_all(_: &OpenRequest) -> Result<(), Unable> {
    Ok(())
}

/// What a lane of a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// A member of a fanout group: as many as one likes.
    FanoutMember,
    /// A receive queue of the interface.
    Queue,
    /// A receive queue that the backend makes: as many as the device can have.
    OwnQueue,
    /// The whole device.
    Device,
}

pub use af_packet::AF_PACKET;
pub use af_xdp::AF_XDP;
pub use dpdk::DPDK;
pub use netmap::NETMAP;
pub use pcap::PCAP;
pub use pf_ring::PF_RING;
pub use xdp_ring::XDP_RING;

/// All of them.
pub static BACKENDS: [&Description; 7] =
    [&AF_PACKET, &AF_XDP, &XDP_RING, &PCAP, &DPDK, &PF_RING, &NETMAP];

/// What another process said that the kernel holds of a lane: the backend's name, its facts and its
/// descriptors. `None` if that makes no sense.
pub fn restore(backend: &str, facts: &str, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
    let backend = BACKENDS.iter().find(|known| known.name == backend)?;
    (backend.restore?)(facts, fds)
}
