//! RTM_GETLINK over rtnetlink (rtnetlink(7), linux/rtnetlink.h, linux/if_link.h).

use super::{DeviceStatistics, NetDevice};
use crate::netlink::message::{Attribute, Message, Request, attributes, damaged, u16_at, u32_at};
use crate::netlink::{Connection, Listener};
use ringside_core::limits::INTERFACES_MAX;
use ringside_sys::SysError;
use std::io;

/// `struct ifinfomsg`: family, type, index, flags, change mask.
const LINK_HEADER_BYTES: usize = 16;
/// Attributes of IFLA_LINKINFO.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
/// Attributes of IFLA_INFO_DATA of a VLAN: its id, and the type of its tags in network order.
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
/// The kind of a VLAN.
const VLAN: &str = "vlan";
/// Attributes of IFLA_XDP: the id of the program, which is missing if there are several, and those
/// of each mode.
const IFLA_XDP_PROG_IDS: std::ops::RangeInclusive<u16> = 4..=7;

/// All interfaces of this namespace.
pub(super) fn dump() -> Result<Vec<NetDevice>, SysError> {
    let request = Request::new(libc::RTM_GETLINK, &[0; LINK_HEADER_BYTES]);
    Connection::route()?
        .dump(request, INTERFACES_MAX, read_link)
        .map_err(|e| SysError::io("listing interfaces by rtnetlink", e))
}

/// Whether interfaces of a network namespace came, went or changed.
#[derive(Debug)]
pub struct LinkChanges {
    listener: Listener,
}

impl LinkChanges {
    /// Listens from now on, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Netlink is not there.
    pub fn listen() -> Result<LinkChanges, SysError> {
        Ok(LinkChanges { listener: Listener::route(libc::RTMGRP_LINK as u32)? })
    }

    /// True if something changed, or may have, since this was last asked. Does not wait.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn any(&mut self) -> Result<bool, SysError> {
        let found = self.listener.any();
        found.map_err(|e| SysError::io("listening to changes of interfaces by rtnetlink", e))
    }
}

/// The interface that one message describes.
fn read_link(message: &Message<'_>) -> io::Result<Option<NetDevice>> {
    if message.kind != libc::RTM_NEWLINK {
        return Ok(None);
    }
    let body = message.body;
    let mut device = NetDevice {
        hardware_type: u16_at(body, 2).ok_or_else(damaged)?,
        ifindex: u32_at(body, 4).ok_or_else(damaged)?,
        flags: u32_at(body, 8).ok_or_else(damaged)?,
        ..NetDevice::default()
    };
    for attribute in attributes(body.get(LINK_HEADER_BYTES..).ok_or_else(damaged)?)? {
        read_attribute(&mut device, attribute)?;
    }
    Ok(Some(device))
}

fn read_attribute(device: &mut NetDevice, attribute: Attribute<'_>) -> io::Result<()> {
    let some = |word: u32| Some(word).filter(|&word| word != 0);
    match attribute.kind {
        libc::IFLA_ADDRESS => device.hardware_address = attribute.value.to_vec(),
        libc::IFLA_IFNAME => device.name = attribute.text(),
        libc::IFLA_MTU => device.mtu_bytes = attribute.word(),
        libc::IFLA_PROMISCUITY => device.promiscuity = attribute.word(),
        libc::IFLA_NUM_RX_QUEUES => device.rx_queues_max = attribute.word(),
        libc::IFLA_NUM_TX_QUEUES => device.tx_queues_max = attribute.word(),
        libc::IFLA_CARRIER => device.carrier = attribute.value.first() == Some(&1),
        libc::IFLA_OPERSTATE => {
            device.operational_state = attribute.value.first().copied().unwrap_or_default();
        }
        libc::IFLA_QDISC => device.queueing_discipline = attribute.text(),
        libc::IFLA_STATS64 => device.statistics = read_statistics(attribute.value),
        libc::IFLA_MASTER => device.master = some(attribute.word()),
        libc::IFLA_LINK => device.link = some(attribute.word()),
        libc::IFLA_LINK_NETNSID => device.link_is_elsewhere = true,
        libc::IFLA_LINKINFO => {
            for part in attributes(attribute.value)? {
                match part.kind {
                    IFLA_INFO_KIND => device.kind = Some(part.text()),
                    // The kind stands before its data.
                    IFLA_INFO_DATA if device.kind.as_deref() == Some(VLAN) => {
                        device.vlan_id = vlan_id(part.value)?;
                    }
                    IFLA_INFO_SLAVE_KIND => device.member_kind = Some(part.text()),
                    _ => {}
                }
            }
        }
        libc::IFLA_XDP => {
            let parts = attributes(attribute.value)?.into_iter();
            let ids = parts.filter(|part| IFLA_XDP_PROG_IDS.contains(&part.kind));
            device.xdp_programs = ids.filter_map(|part| some(part.word())).collect();
            device.xdp_programs.sort_unstable();
            device.xdp_programs.dedup();
        }
        _ => {}
    }
    Ok(())
}

/// The id of a VLAN, unless its tags are those of a provider (0x88a8).
fn vlan_id(data: &[u8]) -> io::Result<Option<u16>> {
    let (mut id, mut is_customers) = (None, true);
    for part in attributes(data)? {
        match part.kind {
            IFLA_VLAN_ID => id = u16::try_from(part.number()).ok(),
            IFLA_VLAN_PROTOCOL => is_customers = *part.value == [0x81, 0x00],
            _ => {}
        }
    }
    Ok(id.filter(|_| is_customers))
}

/// `struct rtnl_link_stats64`.
fn read_statistics(value: &[u8]) -> DeviceStatistics {
    let counter = |index: usize| {
        let bytes = value.get(index * 8..index * 8 + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    DeviceStatistics {
        rx_packets: counter(0),
        tx_packets: counter(1),
        rx_bytes: counter(2),
        tx_bytes: counter(3),
        rx_errors: counter(4),
        tx_errors: counter(5),
        rx_dropped: counter(6),
        tx_dropped: counter(7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::messages;
    use crate::netlink::message::tests::message;

    fn body() -> Vec<u8> {
        let mut body = vec![0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        body.extend([8, 0, 3, 0, b'a', b'b', 0, 0]);
        body.extend([5, 0, 33, 0, 1, 0, 0, 0]);
        body.extend([8, 0, 10, 0, 3, 0, 0, 0]);
        // IFLA_LINKINFO | NLA_F_NESTED with a kind and the kind as a member.
        body.extend([
            20, 0, 18, 0x80, 8, 0, 1, 0, b'v', b'l', b'n', 0, 7, 0, 4, 0, b'b', b'r', 0, 0,
        ]);
        // IFLA_XDP with the ids of two modes.
        body.extend([20, 0, 43, 0x80, 8, 0, 5, 0, 9, 0, 0, 0, 8, 0, 6, 0, 8, 0, 0, 0]);
        body
    }

    #[test]
    fn a_made_answer_is_read() {
        let bytes = message(libc::RTM_NEWLINK, &body());
        let device = read_link(&messages(&bytes).next().unwrap().unwrap()).unwrap().unwrap();
        assert_eq!((device.name.as_str(), device.ifindex), ("ab", 7));
        assert!(device.carrier && device.is_up());
        assert_eq!((device.master, device.link), (Some(3), None));
        assert_eq!(
            (device.kind.as_deref(), device.member_kind.as_deref()),
            (Some("vln"), Some("br"))
        );
        assert_eq!(device.xdp_programs, [8, 9]);
        let other = message(libc::RTM_NEWADDR, &body());
        assert_eq!(read_link(&messages(&other).next().unwrap().unwrap()).unwrap(), None);
    }

    #[test]
    fn a_vlan_has_an_id() {
        let told = |protocol: [u8; 2]| {
            let mut body = vec![0, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            body.extend([36, 0, 18, 0x80, 9, 0, 1, 0, b'v', b'l', b'a', b'n', 0, 0, 0, 0]);
            body.extend([20, 0, 2, 0x80, 6, 0, 1, 0, 5, 0, 0, 0, 6, 0, 5, 0]);
            body.extend(protocol);
            body.extend([0, 0]);
            let bytes = message(libc::RTM_NEWLINK, &body);
            read_link(&messages(&bytes).next().unwrap().unwrap()).unwrap().unwrap().vlan_id
        };
        assert_eq!((told([0x81, 0]), told([0x88, 0xa8])), (Some(5), None));
    }

    #[test]
    fn mutated_answers_end() {
        let link = message(libc::RTM_NEWLINK, &body());
        let seeds = [link.clone(), [link.clone(), link].concat()];
        ringside_testkit::fuzz("netlink-links", 500_000, &seeds, |input| {
            for message in messages(input).flatten() {
                let _ = read_link(&message);
            }
        });
    }
}
