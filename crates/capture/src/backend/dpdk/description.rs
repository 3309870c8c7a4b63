//! What DPDK is to those who choose among backends.

use super::open::open;
use crate::backend::BackendError;
use crate::backend::af_xdp::{Stamps, Waiting};
use crate::backend::description::{Description, LaneKind, System};
use crate::backend::opening::OpenRequest;
use crate::interface::Unable;
use ringside_core::LinkType;

/// DPDK's drivers, by the plug-in.
pub static DPDK: Description = Description {
    name: "dpdk",
    summary: "DPDK's drivers in user space, where its plug-in is: -i dpdk:DEVICE",
    is_in_driver: false,
    lane: LaneKind::OwnQueue,
    // Its drivers give frames of Ethernet.
    link_type: |_| Ok(LinkType::ETHERNET),
    has_threads: false,
    has_card_stamps: false,
    wants_tags_in_frames: false,
    has_zero_copy: true,
    interface: Some("DPDK"),
    system: Some(&SYSTEM),
    check,
    open,
    probe: Some(probe),
    restore: None,
};

static SYSTEM: System = System {
    page: "docs/dpdk.md",
    release: || ringside_dpdk::release().ok(),
    zero_copy: "yes, of cards (trial: copy by the driver)",
    kernel: "no",
    change: "none: a card is bound to vfio-pci",
    architecture: "kernel bypass, of cards",
    cards: "those that DPDK has a driver for; any by net_af_packet",
    price: "none",
    licence: "open, BSD-3-Clause",
};

fn check(request: &OpenRequest) -> Result<(), Unable> {
    match (request.stamps, request.waiting) {
        (Stamps::Hardware, _) => Err(Unable::OwnStamps { backend: DPDK.name }),
        (_, Waiting::Poll | Waiting::BusyPoll) => Err(Unable::NothingWakes { backend: DPDK.name }),
        (_, Waiting::Spin | Waiting::Sleep) => Ok(()),
    }
}

/// The plug-in and DPDK's libraries are there. DPDK itself is not started for that: it would stay.
fn probe() -> Result<(), BackendError> {
    let refused = |source| BackendError::Dpdk { name: DPDK.name.to_owned(), source };
    ringside_dpdk::release().map(|_| ()).map_err(refused)
}
