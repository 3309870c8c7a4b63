//! What netmap is to those who choose among backends.

use super::open::open_by;
use crate::backend::BackendError;
use crate::backend::af_xdp::{Stamps, Waiting};
use crate::backend::description::{Description, LaneKind, System};
use crate::backend::opening::{OpenRequest, OpenedLanes};
use crate::interface::Unable;
use ringside_core::LinkType;
use ringside_sys::netmap::{self, Control};
use std::fs::read_to_string;
use std::io;

/// netmap, by its device.
pub static NETMAP: Description = Description {
    name: "netmap",
    summary: "netmap, where its module is: -i netmap:PORT",
    is_in_driver: false,
    lane: LaneKind::OwnQueue,
    // Its ports have frames of Ethernet.
    link_type: |_| Ok(LinkType::ETHERNET),
    has_threads: false,
    has_card_stamps: false,
    wants_tags_in_frames: false,
    has_zero_copy: true,
    interface: Some("/dev/netmap"),
    system: Some(&SYSTEM),
    check,
    open,
    probe: Some(|| device("netmap").map(|_| ())),
    restore: None,
};

static SYSTEM: System = System {
    page: "docs/netmap.md",
    release,
    zero_copy: "yes, by drivers made for it; else one copy by the module",
    kernel: "no (copies between ports of a switch)",
    change: "module netmap; drivers made for it",
    architecture: "kernel bypass: the interface leaves the host",
    cards: "any; without a copy those with a driver made for it",
    price: "none",
    licence: "open, BSD-2-Clause and GPL-2.0",
};

/// How the module takes interfaces, by its parameter admode.
const MODES: [&str; 3] = ["native, else emulated", "native only", "emulated only"];

fn release() -> Option<String> {
    netmap::open().ok()?;
    let mode = read_to_string("/sys/module/netmap/parameters/admode").ok();
    let mode = mode.and_then(|text| MODES.get(text.trim().parse::<usize>().ok()?).copied());
    Some(format!("/dev/netmap, API 14, {}", mode.unwrap_or("mode unknown")))
}

fn check(request: &OpenRequest) -> Result<(), Unable> {
    match (request.stamps, request.waiting) {
        (Stamps::Hardware, _) => Err(Unable::OwnStamps { backend: NETMAP.name }),
        (_, Waiting::BusyPoll) => Err(Unable::NothingWakes { backend: NETMAP.name }),
        (_, Waiting::Spin | Waiting::Sleep | Waiting::Poll) => Ok(()),
    }
}

fn device(name: &str) -> Result<netmap::Device, BackendError> {
    netmap::open().map_err(|error| {
        let fix = match error.kind() {
            io::ErrorKind::NotFound => {
                "the kernel has no netmap; build it (github.com/luigirizzo/netmap) and `modprobe \
                 netmap`"
            }
            io::ErrorKind::PermissionDenied => "run with sudo",
            _ => "look at `dmesg`",
        };
        BackendError::Netmap {
            name: name.to_owned(),
            reason: format!("/dev/netmap: {error}: {fix}"),
        }
    })
}

fn open(request: &OpenRequest) -> Result<OpenedLanes, BackendError> {
    let name = &request.interface;
    open_by(request, &mut || Ok(Box::new(device(name)?) as Box<dyn Control>))
}
