//! Backends: interfaces as sources, and captures on disk.
//!
//! - [`af_packet`]: the kernel's packet sockets, several lanes, exact counters; the default.
//! - [`af_xdp`]: frames from inside the driver, taken away from the host; the fastest.
//! - [`xdp_ring`]: the same by a program's own copy; the fastest where a driver must copy.
//! - [`pcap`]: libpcap, for every device that it knows, one lane.
//! - [`dpdk`]: DPDK's drivers in user space, where DPDK is installed.
//! - [`pf_ring`]: PF_RING, by its own library, where that is installed.
//! - [`netmap`]: netmap's rings, where its module is.
//! - [`mod@file`]: files and recordings, one lane.
//!
//! [`Description`] says what each is and opens it, by what stands in [`OpenRequest`];
//! [`KernelSide`] is what outlives its process.

pub mod af_packet;
pub mod af_xdp;
mod description;
pub mod dpdk;
pub mod file;
mod in_driver;
pub(crate) mod kernel_side;
pub mod netmap;
mod opening;
pub mod pcap;
pub mod pf_ring;
mod polled;
mod wait;
pub mod xdp_ring;

pub(crate) use crate::interface::find_device;
pub use crate::interface::{BackendError, Unable};
pub use description::{
    AF_PACKET, AF_XDP, BACKENDS, DPDK, Description, LaneKind, NETMAP, PCAP, PF_RING, System,
    XDP_RING, restore,
};
pub use in_driver::{VLAN_STRIPPING, stripped_tags};
pub use kernel_side::{KernelCount, KernelSide, LastReading, Restore};
pub use opening::{Lane, OpenRequest, OpenWarning, OpenedLanes};
use ringside_core::SourceError;
use ringside_netdev as netdev;
use ringside_sys::SysError;
use std::io;
use std::time::Duration;

/// Refuses a setting outside its limits.
pub(crate) fn within(
    what: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), BackendError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(BackendError::Limit { what, value, limit: format!("{least} to {most}") })
}

/// What an interface's offloads do to a capture, for the user; `None` if they are off.
pub fn merge_warning(name: &str) -> Option<String> {
    let offloads = netdev::offloads(name).ok()?;
    let (text, option) = match (offloads.gro, offloads.lro) {
        (false, false) => return None,
        (true, false) => ("GRO", "gro off"),
        (false, true) => ("LRO", "lro off"),
        (true, true) => ("GRO and LRO", "gro off lro off"),
    };
    Some(format!(
        "interface {name} has {text} on: frames of a flow may be merged before they are captured; \
         to see them as they were on the wire: ethtool -K {name} {option}"
    ))
}

/// What is said when counters of 32 bits were left alone for too long, as in a frozen process.
fn not_read_for(name: &str, time: Duration) -> String {
    format!(
        "{name}: the kernel's counters, which have 32 bits, were not read for {} s and may have \
         gone round: how many frames were received is not known",
        time.as_secs()
    )
}

/// The system's refusal of a running source.
pub(crate) fn source_error(error: SysError) -> SourceError {
    match error {
        SysError::Io { context, source } => SourceError::Io { context, source },
        other => SourceError::Io {
            context: "packet socket".to_owned(),
            source: io::Error::other(other.to_string()),
        },
    }
}

#[cfg(test)]
mod tests;
