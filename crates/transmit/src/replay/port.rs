//! The interface that frames leave by: what it takes, and what it counts.

use crate::interface::{self, SizeLimit};
use crate::replay::report::InterfaceCounts;
use crate::run::COUNTED;
use crate::{Error, Pace, Rate};
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_netdev::{self as netdev, NetDevice};
use ringside_pfring::Device;
use ringside_sys::netmap;
use std::time::{Duration, Instant};

/// Of a device that DPDK has, as it comes.
const ETHERNET_MTU: usize = 1_500;

/// An interface of the calling thread's namespace, or a device that the kernel does not know.
pub(crate) struct Port {
    name: String,
    /// None of DPDK's, and of netmap's switches and pipes.
    device: Option<NetDevice>,
    size_limit: SizeLimit,
}

impl Port {
    /// # Errors
    /// There is no such interface, its frames are not Ethernet, or it is down or
    /// has no link.
    pub fn open(name: &str) -> Result<Port, Error> {
        let name = name.to_owned();
        if name.starts_with(ringside_dpdk::PREFIX) {
            return Ok(Port {
                name,
                device: None,
                size_limit: SizeLimit { mtu_bytes: ETHERNET_MTU },
            });
        }
        let of_netmap = name.strip_prefix(netmap::PREFIX).map(netmap::Port::named);
        if of_netmap.as_ref().is_some_and(|port| port.interface().is_none()) {
            // What its buffers hold its sink says.
            let size_limit = SizeLimit::of_frames(FRAME_BYTES_MAX as usize);
            return Ok(Port { name, device: None, size_limit });
        }
        let of_pf_ring = name.strip_prefix(ringside_pfring::PREFIX).map(Device::named);
        let kernel = of_pf_ring.as_ref().and_then(Device::interface);
        let kernel = kernel.or_else(|| of_netmap.as_ref()?.interface()).unwrap_or(&name);
        let device = interface::find_linked(kernel)?;
        interface::check_ethernet(&device, "a replay")?;
        let size_limit = SizeLimit { mtu_bytes: device.mtu_bytes as usize };
        Ok(Port { name, device: Some(device), size_limit })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it takes.
    pub fn size_limit(&self) -> SizeLimit {
        self.size_limit
    }

    pub fn pace(&self, rate: Rate) -> Result<Pace, Error> {
        // Who does not say it does not know it.
        let speed = netdev::link_bits_per_sec(self.name()).unwrap_or(None);
        Ok(rate.on_link(self.name(), speed)?)
    }

    /// What it has counted since it was opened, once it has counted `accepted` frames or it is
    /// clear that it will not; `None` if it is gone, or no interface of the kernel's.
    pub fn counts(&self, accepted: u64) -> Option<InterfaceCounts> {
        let device = self.device.as_ref()?;
        let (begin, before) = (Instant::now(), device.statistics);
        loop {
            let devices = netdev::list().ok()?;
            let now = devices.iter().find(|now| now.ifindex == device.ifindex)?;
            let counts = InterfaceCounts {
                tx_packets: now.statistics.tx_packets.saturating_sub(before.tx_packets),
                tx_dropped: now.statistics.tx_dropped.saturating_sub(before.tx_dropped),
            };
            let is_counted = counts.tx_packets.saturating_add(counts.tx_dropped) >= accepted;
            if is_counted || begin.elapsed() > COUNTED {
                return Some(counts);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
