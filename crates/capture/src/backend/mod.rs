//! Backends: interfaces as sources, and captures on disk.
//!
//! - [`af_packet`]: the kernel's packet sockets, several lanes, exact counters; the default.
//! - [`af_xdp`]: frames from inside the driver, taken away from the host; the fastest.
//! - [`xdp_ring`]: the same by a program's own copy; the fastest where a driver must copy.
//! - [`pcap`]: libpcap, for every device that it knows, one lane.
//! - [`mod@file`]: files and recordings, one lane.
//!
//! [`Description`] says what each is and opens it, by what stands in [`OpenRequest`];
//! [`KernelSide`] is what outlives its process.

pub mod af_packet;
pub mod af_xdp;
mod description;
pub mod file;
mod in_driver;
pub(crate) mod kernel_side;
mod opening;
pub mod pcap;
mod wait;
pub mod xdp_ring;

pub use description::{
    AF_PACKET, AF_XDP, BACKENDS, Description, LaneKind, PCAP, XDP_RING, restore,
};
pub use in_driver::{VLAN_STRIPPING, stripped_tags};
pub use kernel_side::{KernelCount, KernelSide, LastReading, Restore};
pub use opening::{Lane, OpenRequest, OpenWarning, OpenedLanes, Unable};
use ringside_core::SourceError;
use ringside_sys::{SysError, netdev};
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Why a backend could not be opened.
#[derive(Debug, Error)]
pub enum BackendError {
    /// There is no such interface.
    #[error("there is no interface {name}{}; `ip -brief link` lists them", meant(.similar))]
    NoSuchInterface {
        /// What was asked for.
        name: String,
        /// Names that may have been meant, best first.
        similar: Vec<String>,
    },
    /// The interface is not up.
    #[error("interface {name} is down and receives nothing: `ip link set {name} up`")]
    InterfaceDown {
        /// Interface.
        name: String,
    },
    /// A privilege is missing.
    #[error(
        "{context}: not permitted; it needs CAP_NET_RAW: run with sudo, or \
         `setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep $(which ringside)`"
    )]
    Privilege {
        /// What was tried.
        context: String,
    },
    /// Frames of this interface begin in a way that the backend does not know.
    #[error(
        "interface {name} has frames of hardware type {hardware_type}, for which af-packet has no \
         link type"
    )]
    UnknownLinkType {
        /// Interface.
        name: String,
        /// ARPHRD_ value.
        hardware_type: u16,
    },
    /// A setting beyond its limit.
    #[error("{what} is {value}, allowed is {limit}")]
    Limit {
        /// Setting.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// What is allowed, as text.
        limit: String,
    },
    /// The filter cannot be used.
    #[error("filter `{}`: {reason}", ringside_filter::shown(expression))]
    Filter {
        /// As it was given.
        expression: String,
        /// Why not.
        reason: String,
    },
    /// libpcap refused.
    #[error("libpcap on {name}: {reason}")]
    Pcap {
        /// Device.
        name: String,
        /// Its message.
        reason: String,
    },
    /// The kernel's XDP program.
    #[error("interface {name}: {source}")]
    Program {
        /// Interface.
        name: String,
        /// The reason, with its fix.
        source: ringside_ebpf::Error,
    },
    /// AF_XDP on a queue.
    #[error("AF_XDP on interface {name}, {reason}")]
    AfXdp {
        /// Interface.
        name: String,
        /// Queue, reason and fix.
        reason: String,
    },
    /// A driver that does not go with the program.
    #[error("xdp-ring on interface {name}: {reason}")]
    XdpRing {
        /// Interface.
        name: String,
        /// Reason and fix.
        reason: String,
    },
    /// A device that runs the program of xdp-ring in whatever thread writes to it.
    #[error(
        "xdp-ring on interface {name}: a tun or tap device may run the program for several frames \
         of a queue at once"
    )]
    SeveralWriters {
        /// Interface.
        name: String,
    },
    /// A driver that takes out what xdp-ring would lose.
    #[error(
        "xdp-ring on interface {name}: it takes VLAN tags out of frames, which would be lost: \
         `ethtool -K {name} rxvlan off` (and `rx-vlan-stag-hw-parse off`)"
    )]
    TakesTags {
        /// Interface.
        name: String,
    },
    /// The backend has no such thing.
    #[error(transparent)]
    Unable(#[from] Unable),
    /// The operating system refused.
    #[error("interface {name}: {source}")]
    System {
        /// Interface.
        name: String,
        /// What was tried, and the reason.
        source: SysError,
    },
}

fn meant(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!(" (did you mean {}?)", names.join(" or ")),
    }
}

/// The interface called `name`.
pub(crate) fn find_device(name: &str) -> Result<netdev::NetDevice, BackendError> {
    let system = |source| BackendError::System { name: name.to_owned(), source };
    let devices = netdev::list().map_err(system)?;
    let names = devices.iter().map(|device| device.name.as_str());
    let similar = netdev::similar_names(name, names);
    let found = devices.into_iter().find(|device| device.name == name);
    found.ok_or_else(|| BackendError::NoSuchInterface { name: name.to_owned(), similar })
}

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
