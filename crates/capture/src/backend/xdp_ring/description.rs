//! What a program's own copy is to those who choose among backends.

use super::kernel_side::restore;
use super::{XdpRingConfig, XdpRingSource, open};
use crate::backend::af_xdp::{Stamps, Waiting};
use crate::backend::description::{Description, LaneKind};
use crate::backend::opening::{OpenRequest, OpenWarning, OpenedLanes, lane};
use crate::backend::{BackendError, af_packet, merge_warning};
use crate::interface::Unable;

/// From inside the driver, by a program's own copy.
pub static XDP_RING: Description = Description {
    name: "xdp-ring",
    summary: "The same by a program's own copy: the fastest where a driver has no zero-copy",
    is_in_driver: true,
    lane: LaneKind::Queue,
    link_type: af_packet::link_type,
    has_threads: false,
    has_card_stamps: false,
    wants_tags_in_frames: true,
    has_zero_copy: false,
    interface: Some("BPF array"),
    system: None,
    check,
    open: open_lanes,
    probe: None,
    restore: Some(restore),
};

fn check(request: &OpenRequest) -> Result<(), Unable> {
    match (request.stamps, request.waiting) {
        (Stamps::Hardware, _) => Err(Unable::OwnStamps { backend: XDP_RING.name }),
        (_, Waiting::Poll | Waiting::BusyPoll) => {
            Err(Unable::NothingWakes { backend: XDP_RING.name })
        }
        (_, Waiting::Spin | Waiting::Sleep) => Ok(()),
    }
}

fn open_lanes(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let warnings = merge_warning(&request.interface).map(OpenWarning::Merges);
    let request = request.clone();
    let opened = open(&XdpRingConfig {
        interface: request.interface,
        interface_id: request.interface_id,
        lanes: request.lanes,
        ring_bytes: request.memory_bytes,
        snaplen_bytes: request.snaplen_bytes,
        promiscuous: request.promiscuous,
        filter: request.filter,
        has_stamps: request.stamps != Stamps::Off,
        waiting: request.waiting,
    })?;
    let lanes = opened.sources.into_iter().map(|source| lane(source, XdpRingSource::kernel_side));
    Ok(OpenedLanes {
        lanes: lanes.collect(),
        way: None,
        notes: opened.notes,
        warnings: warnings.into_iter().collect(),
        ..OpenedLanes::default()
    })
}
