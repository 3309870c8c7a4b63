//! Interfaces before they are opened: which there is, how its frames begin, and why it cannot be
//! received from.

use ringside_core::LinkType;
use ringside_netdev as netdev;
use ringside_sys::SysError;
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
        /// Name of the interface.
        name: String,
    },
    /// A driver that takes out what xdp-ring would lose.
    #[error(
        "xdp-ring on interface {name}: it takes VLAN tags out of frames, which would be lost: \
         `ethtool -K {name} rxvlan off` (and `rx-vlan-stag-hw-parse off`)"
    )]
    TakesTags {
        /// Name of the interface.
        name: String,
    },
    /// DPDK on a device.
    #[error("DPDK on {name}: {source}")]
    Dpdk {
        /// Device.
        name: String,
        /// The reason, with its fix.
        source: ringside_dpdk::DpdkError,
    },
    /// PF_RING on a device.
    #[error("PF_RING on {name}: {source}")]
    PfRing {
        /// Device.
        name: String,
        /// The reason, with its fix.
        source: ringside_pfring::PfRingError,
    },
    /// netmap on a port.
    #[error("netmap on {name}: {reason}")]
    Netmap {
        /// Port.
        name: String,
        /// The reason, with its fix.
        reason: String,
    },
    /// The backend cannot do what was asked for.
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

/// What a backend refuses of a request, before anything is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unable {
    /// Several lanes of a whole device.
    #[error("libpcap has one lane")]
    OneLane,
    /// libpcap compiles in this process, and its optimiser would take minutes.
    #[error("the filter has {instructions} instructions, and the kernel takes {max} from libpcap")]
    LongFilter {
        /// Its length.
        instructions: usize,
        /// Longest that is taken.
        max: usize,
    },
    /// The card's stamps of a backend that has its own.
    #[error("{backend} stamps frames itself")]
    OwnStamps {
        /// As people name it.
        backend: &'static str,
    },
    /// A way of waiting for which something would have to wake the worker.
    #[error("nothing wakes a worker of {backend}")]
    NothingWakes {
        /// As people name it.
        backend: &'static str,
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

/// How frames of an interface begin: what a filter for it must be compiled for.
///
/// # Errors
/// There is no such interface, or its frames begin in a way that af-packet does not know.
pub fn link_type(interface: &str) -> Result<LinkType, BackendError> {
    device_link_type(&find_device(interface)?)
}

/// Link types by hardware type, as libpcap chooses them.
pub(crate) fn device_link_type(device: &netdev::NetDevice) -> Result<LinkType, BackendError> {
    match device.hardware_type {
        ARPHRD_ETHER | ARPHRD_LOOPBACK => Ok(LinkType::ETHERNET),
        ARPHRD_NONE | ARPHRD_RAWIP | ARPHRD_TUNNEL | ARPHRD_TUNNEL6 | ARPHRD_SIT => {
            Ok(LinkType::RAW)
        }
        hardware_type => {
            Err(BackendError::UnknownLinkType { name: device.name.clone(), hardware_type })
        }
    }
}

// linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_TUNNEL: u16 = 768;
const ARPHRD_TUNNEL6: u16 = 769;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_SIT: u16 = 776;
const ARPHRD_NONE: u16 = 0xfffe;

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_netdev::NetDevice;

    #[test]
    fn unknown_hardware_is_refused_by_name_and_type() {
        let device = NetDevice { hardware_type: 512, name: "ppp0".into(), ..NetDevice::default() };
        let error = device_link_type(&device).unwrap_err();
        let BackendError::UnknownLinkType { name, hardware_type } = error else {
            panic!("{error}");
        };
        assert_eq!((name.as_str(), hardware_type), ("ppp0", 512));
        let tun = NetDevice { hardware_type: ARPHRD_NONE, ..device };
        assert_eq!(device_link_type(&tun).unwrap(), LinkType::RAW);
    }
}
