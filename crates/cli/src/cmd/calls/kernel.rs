//! Media that are counted in the drivers of interfaces (`--rtp kernel`).

use crate::open_args::OpenArgs;
use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use ringside_calls::KernelMedia;
use ringside_ebpf::rtp::{RtpLayout, RtpMeter};
use ringside_sys::clock;
use ringside_terminal::say;

/// ARPHRD_ETHER of linux/if_arp.h.
const ETHERNET: u16 = 1;

/// Where packets of media are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Counted {
    /// Here, as every packet.
    User,
    /// In the driver, by rules that come and go with calls. What is counted goes neither to the
    /// host nor to captures nor to a recording: for interfaces that receive a copy of the traffic.
    Kernel,
}

/// The programs, one on each interface.
pub fn media(open: &OpenArgs) -> anyhow::Result<KernelMedia> {
    let meters = open.in_namespace(|names| names.iter().map(|name| meter(name)).collect())?;
    Ok(KernelMedia::new(meters, clock::tai_offset_ns()))
}

fn meter(name: &str) -> anyhow::Result<RtpMeter> {
    let device = ringside_netdev::by_name(name)?.ok_or_else(|| {
        anyhow!("--rtp kernel wants interfaces by their names, and none is called {name}: see -D")
    })?;
    ensure!(
        device.hardware_type == ETHERNET,
        "{name} is no Ethernet: leave out --rtp kernel, and media are counted in user space"
    );
    let meter = RtpMeter::open(name, device.ifindex, RtpLayout::RULES_MAX);
    let meter = meter.with_context(|| format!("--rtp kernel cannot count on {name}"))?;
    meter.notes().iter().for_each(|note| say::message(format_args!("ringside: {note}")));
    Ok(meter)
}
