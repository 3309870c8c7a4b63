//! What packet sockets are to those who choose among backends.

use super::kernel_side::restore;
use super::{AfPacketConfig, AfPacketSource, link_type, open};
use crate::backend::BackendError;
use crate::backend::af_xdp::Stamps;
use crate::backend::description::{Description, LaneKind, takes_all};
use crate::backend::opening::{OpenRequest, OpenedLanes, lane};

/// The kernel's packet sockets.
pub static AF_PACKET: Description = Description {
    name: "af-packet",
    summary: "The kernel's packet sockets (TPACKET_V3)",
    is_in_driver: false,
    lane: LaneKind::FanoutMember,
    link_type,
    has_threads: false,
    has_card_stamps: true,
    wants_tags_in_frames: false,
    has_zero_copy: false,
    interface: Some("TPACKET_V3"),
    system: None,
    check: takes_all,
    open: open_lanes,
    probe: Some(probe),
    restore: Some(restore),
};

fn open_lanes(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let request = request.clone();
    let opened = open(&AfPacketConfig {
        interface: request.interface,
        interface_id: request.interface_id,
        lanes: request.lanes.unwrap_or(1),
        fanout: request.fanout,
        ring_bytes: request.memory_bytes,
        block_timeout_ms: request.block_timeout_ms,
        snaplen_bytes: request.snaplen_bytes,
        promiscuous: request.promiscuous,
        direction: request.direction,
        filter: request.filter,
        hardware_timestamps: request.stamps == Stamps::Hardware,
        pre_filter: request.pre_filter,
    })?;
    let lanes = opened.sources.into_iter().map(|source| lane(source, AfPacketSource::kernel_side));
    let (lanes, warnings, pre_filter) = (lanes.collect(), opened.warnings, opened.pre_filter);
    Ok(OpenedLanes { lanes, warnings, pre_filter, ..OpenedLanes::default() })
}

/// The loopback interface exists everywhere; without promiscuous mode nothing is changed.
fn probe() -> Result<(), BackendError> {
    let config = AfPacketConfig::new("lo");
    open(&AfPacketConfig { promiscuous: false, ring_bytes: 1 << 20, ..config }).map(|_| ())
}
