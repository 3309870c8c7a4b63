//! The program that takes frames: to sockets, or into rings.

use crate::Error;
use crate::abi::{CaptureLeafConfig, RingLeafConfig};
use crate::load::{Embedded, Loaded, embedded};
use crate::root::LEAVES;
use ringside_sys::xdp_ring::XdpRingLayout;
use std::os::fd::{BorrowedFd, OwnedFd};

static XDP_CAPTURE: Embedded = embedded!("xdp_capture");
static XDP_RING: Embedded = embedded!("xdp_ring");

/// Rings that frames are copied into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLeaf {
    /// Queues below the number of rings have one; frames of other queues pass.
    pub layout: XdpRingLayout,
    /// Bytes kept of each frame, at least 1; a frame of which more than
    /// [`FRAME_BYTES_MAX`](ringside_sys::xdp_ring::FRAME_BYTES_MAX) would be kept is dropped.
    pub kept_bytes_max: u32,
    /// Each frame gets the time.
    pub has_stamps: bool,
}

/// What a leaf is loaded with.
pub(super) struct Leaf<'l> {
    pub constants: &'l CaptureLeafConfig,
    /// The array that it is to stand in.
    pub leaves: BorrowedFd<'l>,
    /// Those of another leaf, or none for its own.
    pub counters: Option<BorrowedFd<'l>>,
    /// Number of the interface.
    pub ifindex: u32,
    /// None: frames go to sockets.
    pub rings: Option<&'l RingLeaf>,
}

impl Leaf<'_> {
    pub fn load(&self) -> Result<Loaded, Error> {
        let leaf = *self.constants;
        match self.rings {
            None => self.prepared(&XDP_CAPTURE, &leaf.to_bytes()),
            Some(rings) => {
                let constants = RingLeafConfig {
                    leaf,
                    ring_bytes: rings.layout.ring_bytes as u32,
                    window_bytes: rings.layout.window_bytes as u32,
                    kept_bytes_max: rings.kept_bytes_max,
                    has_stamps: rings.has_stamps.into(),
                    is_weakly_ordered: (!cfg!(target_arch = "x86_64")).into(),
                    ifindex: self.ifindex,
                };
                self.prepared(&XDP_RING, &constants.to_bytes())
            }
        }
    }

    fn prepared(&self, object: &Embedded, constants: &[u8]) -> Result<Loaded, Error> {
        let queues = self.constants.queues;
        // The one that frames go to which are not taken has no use for rings.
        let rings = self.rings.filter(|_| self.constants.passes == 0);
        Loaded::prepared(object, Some(constants), |object| {
            for mut map in object.maps_mut() {
                match (map.name().to_str(), self.counters) {
                    (Some(LEAVES), _) => map.reuse_fd(self.leaves)?,
                    (Some("sockets"), _) => map.set_max_entries(queues)?,
                    (Some("counters"), Some(counters)) => map.reuse_fd(counters)?,
                    (Some("counters"), None) => map.set_max_entries(queues.saturating_add(1))?,
                    (Some("rings"), _) => {
                        if let Some(rings) = rings {
                            map.set_max_entries(rings.layout.rings as u32)?;
                            map.set_value_size(rings.layout.value_bytes() as u32)?;
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    }
}

/// A descriptor of our own.
pub(super) fn copy(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    fd.try_clone_to_owned()
        .map_err(|e| Error::kernel("cannot keep a descriptor of the capture", e.into()))
}
