//! What PF_RING is to those who choose among backends.

use super::open::open_by;
use crate::backend::BackendError;
use crate::backend::af_xdp::Waiting;
use crate::backend::description::{Description, LaneKind, System};
use crate::backend::opening::{OpenRequest, OpenedLanes};
use crate::interface::Unable;
use ringside_core::LinkType;
use ringside_pfring::Library;

/// PF_RING, by its library.
pub static PF_RING: Description = Description {
    name: "pf-ring",
    summary: "PF_RING, where its module and library are: -i pf-ring:DEVICE",
    is_in_driver: false,
    lane: LaneKind::OwnQueue,
    // PF_RING knows Ethernet alone.
    link_type: |_| Ok(LinkType::ETHERNET),
    has_threads: false,
    has_card_stamps: true,
    wants_tags_in_frames: false,
    has_zero_copy: true,
    interface: Some("libpfring"),
    system: Some(&SYSTEM),
    check,
    open,
    probe: Some(|| library("pf-ring").map(|_| ())),
    restore: None,
};

static SYSTEM: System = System {
    page: "docs/pf-ring.md",
    release,
    zero_copy: "yes, by ZC drivers; else one copy by the module",
    kernel: "yes (the module copies to its ring; rules, clusters)",
    change: "module pf_ring; drivers for ZC",
    architecture: "tap on the kernel's stack; kernel bypass by ZC",
    cards: "any; ZC: those that ntop has a driver for",
    price: "none; ZC: a licence for each port",
    licence: "module GPL-2.0, library LGPL-2.1, ZC proprietary",
};

fn release() -> Option<String> {
    let library = Library::find().ok()?.release();
    let module = ringside_pfring::module().map_or("no module".into(), |m| format!("module {m}"));
    Some(format!("libpfring {library}, {module}"))
}

fn check(request: &OpenRequest) -> Result<(), Unable> {
    match request.waiting {
        Waiting::BusyPoll => Err(Unable::NothingWakes { backend: PF_RING.name }),
        Waiting::Spin | Waiting::Sleep | Waiting::Poll => Ok(()),
    }
}

fn library(name: &str) -> Result<Library, BackendError> {
    Library::find().map_err(|source| BackendError::PfRing { name: name.to_owned(), source })
}

fn open(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    open_by(library(&request.interface)?, request)
}
