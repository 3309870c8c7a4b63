#![forbid(unsafe_code)]
//! Network interfaces: which there are, and what they can do. Everything here reads, but for
//! the functions `set_…`, whose caller puts back what was set before, and the orders to ask
//! [`Neighbours`].
//!
//! All answers are those of the calling thread's network namespace: they come by netlink and
//! ioctl, not from /sys, whose view is that of who mounted it. What is only there (the place of a
//! card in the machine) is believed if the interface is the same.
//!
//! What the kernel answers is decoded by safe functions on slices (`netlink.rs`). In addition to
//! interfaces netlink lists [`unix_names`]. Which interface is taken, and what is to be changed, is
//! decided elsewhere.

mod ethtool;
mod features;
mod links;
mod napi;
mod neighbours;
mod netlink;
mod polling;
mod route;
mod rss;
mod rules;
mod settings;
pub mod unix_names;
mod uses;

pub use ethtool::{Offloads, Queues, StampCapability, StampSettings};
pub use ethtool::{Watch, driver, is_up_by, offloads, queues, stamp_capability};
pub use ethtool::{set_stamp_settings, stamp_settings};
pub use features::{XdpFeatures, xdp_features};
pub use links::LinkChanges;
pub use napi::{Napi, NapiSettings, Queue, napis, queue_list, set_napi};
pub use neighbours::{NEIGHBOURS_MAX, Neighbour, Neighbours};
pub use polling::{PolledQueue, Poller, node, polled_queues};
pub use ringside_core::similar_names;
pub use route::{Route, neighbour, route};
pub use rss::{FLOW_TYPES, FlowFields, Rss, Table, flow_fields, rss, set_flow_fields, set_rss};
pub use rules::rules_ask_for_transport;
pub use settings::{Channels, Features, RingSizes, channels, features, ring_sizes};
pub use settings::{link_bits_per_sec, may_take_tags_out};
pub use settings::{set_channels, set_feature, set_receive_ring};
pub use uses::{Use, uses};

use ringside_sys::SysError;
use std::time::{Duration, Instant};

/// Values of IFLA_OPERSTATE (linux/if.h).
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_LOWERLAYERDOWN: u8 = 3;

/// An interface as RTM_GETLINK describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetDevice {
    /// Name, as `eth1`.
    pub name: String,
    /// Kernel index within the namespace, never 0.
    pub ifindex: u32,
    /// IFF_ flags (linux/if.h).
    pub flags: u32,
    /// Its address in the link layer; empty if it has none.
    pub hardware_address: Vec<u8>,
    /// ARPHRD_ value: how its frames begin.
    pub hardware_type: u16,
    /// Largest packet, in bytes, without the link-layer header.
    pub mtu_bytes: u32,
    /// The other end is there.
    pub carrier: bool,
    /// IF_OPER_ value (linux/if.h, RFC 2863): follows the carrier a little later.
    pub operational_state: u8,
    /// How many users keep it promiscuous.
    pub promiscuity: u32,
    /// Receive queues that the driver allocated; [`queues`] tells how many are used.
    pub rx_queues_max: u32,
    /// Transmit queues that the driver allocated.
    pub tx_queues_max: u32,
    /// What it is, where a kind of virtual interface: `veth`, `vlan`, `bridge`.
    pub kind: Option<String>,
    /// Of a VLAN by IEEE 802.1Q (type 0x8100) its id.
    pub vlan_id: Option<u16>,
    /// Index of the bridge, bond or the like that it is a member of.
    pub master: Option<u32>,
    /// What it is a member of: `bridge`, `bond`, `vrf`.
    pub member_kind: Option<String>,
    /// Index of the interface that it stands on (a VLAN) or is joined with (a veth pair).
    pub link: Option<u32>,
    /// `link` is the index of an interface in another namespace.
    pub link_is_elsewhere: bool,
    /// Ids of the XDP programs on it, in ascending order: one for each mode (driver, generic,
    /// hardware) in which there is one.
    pub xdp_programs: Vec<u32>,
    /// The queueing discipline at its root: `noqueue` where frames go straight to the driver, `mq`
    /// where each queue has its own.
    pub queueing_discipline: String,
    /// Counters since the interface was made.
    pub statistics: DeviceStatistics,
}

/// The first counters of `struct rtnl_link_stats64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames received with errors.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Received frames that were dropped for want of room.
    pub rx_dropped: u64,
    /// Frames to be sent that were dropped.
    pub tx_dropped: u64,
}

impl NetDevice {
    /// Set up by the administrator (IFF_UP).
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// False while the kernel still throws away, uncounted, what is sent: between the moment when
    /// the carrier comes and the one when a kernel thread has noticed it.
    pub fn is_noticed(&self) -> bool {
        !self.carrier || ![IF_OPER_DOWN, IF_OPER_LOWERLAYERDOWN].contains(&self.operational_state)
    }

    /// What it sends it receives (IFF_LOOPBACK).
    pub fn is_loopback(&self) -> bool {
        self.flags & libc::IFF_LOOPBACK as u32 != 0
    }
}

/// The interfaces of this namespace, by index.
///
/// # Errors
/// Netlink is not there, or its answer is damaged.
pub fn list() -> Result<Vec<NetDevice>, SysError> {
    links::dump()
}

/// The interface called `name`, or `None`.
///
/// # Errors
/// As [`list`].
pub fn by_name(name: &str) -> Result<Option<NetDevice>, SysError> {
    Ok(list()?.into_iter().find(|device| device.name == name))
}

/// The same, once what is sent through it is not thrown away any more, or after `limit`.
///
/// # Errors
/// As [`list`].
pub fn by_name_noticed(name: &str, limit: Duration) -> Result<Option<NetDevice>, SysError> {
    let start = Instant::now();
    loop {
        let device = by_name(name)?;
        let is_noticed = device.as_ref().is_none_or(NetDevice::is_noticed);
        if is_noticed || start.elapsed() >= limit {
            return Ok(device);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed_with_its_properties() {
        let lo = by_name("lo").unwrap().unwrap();
        assert_eq!((lo.ifindex, lo.hardware_type), (1, libc::ARPHRD_LOOPBACK));
        assert!(lo.flags & libc::IFF_LOOPBACK as u32 != 0);
        assert!(by_name("rsafp-none").unwrap().is_none());
    }

    #[test]
    fn loopback_has_offloads_but_no_hardware_clock() {
        assert!(offloads("lo").is_ok());
        assert!(offloads("rsafp-none").is_err());
        let capability = stamp_capability("lo").unwrap();
        assert!(!capability.receive_hardware);
        let refusal = stamp_settings("lo").unwrap_err().to_string();
        assert!(refusal.contains("lo"), "{refusal}");
        assert!(queues("lo").is_err() || queues("lo").unwrap().rx >= 1);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(is_up_by(&socket, "lo").unwrap(), Some(true));
        assert_eq!(is_up_by(&socket, "rsafp-none").unwrap(), None);
        assert!(is_up_by(std::fs::File::open("/dev/null").unwrap(), "lo").is_err());
        assert_eq!(Watch::new(1).unwrap().is_up().unwrap(), Some(true));
        assert_eq!(Watch::new(u32::MAX >> 1).unwrap().is_up().unwrap(), None);
    }
}
