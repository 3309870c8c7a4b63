//! What libpcap is to those who choose among backends.

use super::{PcapConfig, link_type, open};
use crate::backend::description::{Description, LaneKind};
use crate::backend::opening::{OpenRequest, OpenWarning, OpenedLanes};
use crate::backend::{BackendError, merge_warning};
use crate::interface::Unable;

/// Longest classic program that the kernel takes (BPF_MAXINSNS of linux/bpf_common.h).
const INSTRUCTIONS_MAX: usize = 4096;

/// libpcap.
pub static PCAP: Description = Description {
    name: "pcap",
    summary: "libpcap: any device that it knows",
    is_in_driver: false,
    lane: LaneKind::Device,
    link_type,
    has_threads: false,
    has_card_stamps: false,
    wants_tags_in_frames: false,
    has_zero_copy: false,
    interface: None,
    system: None,
    check,
    open: open_lane,
    probe: Some(|| link_type("lo").map(|_| ())),
    restore: None,
};

fn check(request: &OpenRequest) -> Result<(), Unable> {
    if request.lanes.is_some_and(|lanes| lanes > 1) {
        return Err(Unable::OneLane);
    }
    let program = request.filter.as_ref().map(|(program, _)| program);
    match program.map_or(0, |program| program.instructions.len()) {
        0..=INSTRUCTIONS_MAX => Ok(()),
        instructions => Err(Unable::LongFilter { instructions, max: INSTRUCTIONS_MAX }),
    }
}

fn open_lane(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let warnings = merge_warning(&request.interface).map(OpenWarning::Merges);
    let source = open(&PcapConfig {
        device: request.interface.clone(),
        interface_id: request.interface_id,
        ring_bytes: request.memory_bytes,
        block_timeout_ms: request.block_timeout_ms,
        snaplen_bytes: request.snaplen_bytes,
        promiscuous: request.promiscuous,
        direction: request.direction,
        filter: request.filter.as_ref().map(|(_, expression)| expression.clone()),
    })?;
    Ok(OpenedLanes {
        lanes: vec![(Box::new(source), None)],
        warnings: warnings.into_iter().collect(),
        ..OpenedLanes::default()
    })
}
