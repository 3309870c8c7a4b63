//! The interface that frames leave by: what it takes, and what it counts.

use crate::replay::report::InterfaceCounts;
use crate::run::COUNTED;
use crate::{Error, Pace, Rate};
use ringside_sys::netdev::{self, NetDevice};
use std::time::{Duration, Instant};

/// ARPHRD_ETHER and ARPHRD_LOOPBACK (linux/if_arp.h): frames begin with an Ethernet header.
const ETHERNET_TYPES: [u16; 2] = [1, 772];

const HEADER_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;
const VLAN_TYPE: [u8; 2] = [0x81, 0x00];

/// An interface of the calling thread's namespace.
pub(crate) struct Port {
    device: NetDevice,
}

impl Port {
    /// # Errors
    /// There is no such interface, its frames are not Ethernet, or it is down.
    pub fn open(interface: &str) -> Result<Port, Error> {
        let device = netdev::by_name(interface)?.ok_or_else(|| Error::NoInterface {
            interface: interface.into(),
            namespace: "this namespace".into(),
        })?;
        if !ETHERNET_TYPES.contains(&device.hardware_type) {
            return Err(Error::NotEthernet {
                interface: interface.into(),
                hardware_type: device.hardware_type,
                sink: "a replay",
            });
        }
        if !device.is_up() {
            return Err(Error::Down { interface: interface.into() });
        }
        if !device.carrier {
            return Err(Error::NoCarrier { interface: interface.into() });
        }
        Ok(Port { device })
    }

    pub fn name(&self) -> &str {
        &self.device.name
    }

    pub fn ifindex(&self) -> u32 {
        self.device.ifindex
    }

    /// What it takes.
    pub fn size_limit(&self) -> SizeLimit {
        SizeLimit { mtu_bytes: self.device.mtu_bytes as usize }
    }

    pub fn pace(&self, rate: Rate) -> Result<Pace, Error> {
        // Who does not say it does not know it.
        let speed = netdev::link_bits_per_sec(self.name()).unwrap_or(None);
        Ok(rate.on_link(self.name(), speed)?)
    }

    /// What it has counted since it was opened, once it has counted `accepted` frames or it is
    /// clear that it will not; `None` if it is gone.
    pub fn counts(&self, accepted: u64) -> Option<InterfaceCounts> {
        let begin = Instant::now();
        let before = self.device.statistics;
        loop {
            let devices = netdev::list().ok()?;
            let now = devices.iter().find(|device| device.ifindex == self.device.ifindex)?;
            let counts = InterfaceCounts {
                tx_packets: now.statistics.tx_packets.saturating_sub(before.tx_packets),
                tx_dropped: now.statistics.tx_dropped.saturating_sub(before.tx_dropped),
            };
            let told = counts.tx_packets.saturating_add(counts.tx_dropped) >= accepted;
            if told || begin.elapsed() > COUNTED {
                return Some(counts);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The longest frames that an interface takes (packet_snd of net/packet/af_packet.c): its MTU and
/// the Ethernet header, and a tag more for a frame whose first type is 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    pub mtu_bytes: usize,
}

impl SizeLimit {
    /// By how many bytes the MTU is too small for `frame`, as if it were `bytes` long.
    pub fn excess(self, frame: &[u8], bytes: usize) -> usize {
        let tag = if frame.get(12..14) == Some(&VLAN_TYPE) { VLAN_TAG_BYTES } else { 0 };
        bytes.saturating_sub(self.mtu_bytes + HEADER_BYTES + tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag_of_802_1q_is_allowed_beyond_the_mtu() {
        let limit = SizeLimit { mtu_bytes: 1500 };
        let mut frame = vec![0; 1514];
        assert_eq!(limit.excess(&frame, 1514), 0);
        assert_eq!(limit.excess(&frame, 1518), 4);
        frame[12..14].copy_from_slice(&VLAN_TYPE);
        assert_eq!(limit.excess(&frame, 1518), 0);
        assert_eq!(limit.excess(&frame, 1519), 1);
        frame[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(limit.excess(&frame, 1518), 4);
    }
}
