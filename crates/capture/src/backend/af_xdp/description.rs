//! What AF_XDP is to those who choose among backends.

use super::kernel_side::restore;
use super::{AfXdpConfig, AfXdpSource, open};
use crate::backend::description::{Description, LaneKind, takes_all};
use crate::backend::opening::{OpenRequest, OpenWarning, OpenedLanes, lane};
use crate::backend::{BackendError, af_packet, merge_warning};

/// From inside the driver, by AF_XDP sockets.
pub static AF_XDP: Description = Description {
    name: "af-xdp",
    summary: "From inside the driver, away from the host (AF_XDP)",
    is_in_driver: true,
    lane: LaneKind::Queue,
    link_type: af_packet::link_type,
    has_threads: true,
    has_card_stamps: true,
    wants_tags_in_frames: false,
    has_zero_copy: true,
    interface: Some("AF_XDP"),
    system: None,
    check: takes_all,
    open: open_lanes,
    probe: None,
    restore: Some(restore),
};

fn open_lanes(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let warnings = merge_warning(&request.interface).map(OpenWarning::Merges);
    let request = request.clone();
    let opened = open(&AfXdpConfig {
        interface: request.interface,
        interface_id: request.interface_id,
        lanes: request.lanes,
        threads: request.threads,
        memory_bytes: request.memory_bytes,
        snaplen_bytes: request.snaplen_bytes,
        promiscuous: request.promiscuous,
        filter: request.filter,
        stamps: request.stamps,
        waiting: request.waiting,
    })?;
    let lanes = opened.sources.into_iter().map(|source| lane(source, AfXdpSource::kernel_side));
    Ok(OpenedLanes {
        lanes: lanes.collect(),
        way: Some(opened.way),
        notes: opened.notes,
        warnings: warnings.into_iter().collect(),
        ..OpenedLanes::default()
    })
}
