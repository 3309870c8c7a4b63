//! RTM_GETLINK over rtnetlink (rtnetlink(7), linux/rtnetlink.h, linux/if_link.h).

use super::{DeviceStatistics, NetDevice};
use crate::SysError;
use ringside_core::limits::INTERFACES_MAX;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, sendto, socket_with};
use std::io;

/// The kernel answers a dump in pieces of at most this size (NLMSG_GOODSIZE, and 32 KiB where the
/// reader offers it).
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const MESSAGE_HEADER_BYTES: usize = 16;
/// `struct ifinfomsg`: family, type, index, flags, change mask.
const LINK_HEADER_BYTES: usize = 16;
/// `struct rtattr`: length, type.
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// All interfaces of this namespace.
pub(super) fn dump() -> Result<Vec<NetDevice>, SysError> {
    let failed = |e: rustix::io::Errno| SysError::io("listing interfaces by rtnetlink", e);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    // No protocol stands for 0, which is NETLINK_ROUTE.
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel).map_err(failed)?;
    let mut devices = Vec::new();
    let mut answer = vec![0u8; ANSWER_BYTES_MAX];
    loop {
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).map_err(failed)?;
        let done = read_messages(&answer[..length], &mut devices)
            .map_err(|e| SysError::io("listing interfaces by rtnetlink", e))?;
        // An empty answer or too many interfaces must not keep this going.
        if done || length == 0 || devices.len() > INTERFACES_MAX {
            return Ok(devices);
        }
    }
}

fn request() -> [u8; MESSAGE_HEADER_BYTES + LINK_HEADER_BYTES] {
    let mut message = [0; MESSAGE_HEADER_BYTES + LINK_HEADER_BYTES];
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message
}

/// Adds the interfaces of one answer; true when the dump is complete.
fn read_messages(mut answer: &[u8], devices: &mut Vec<NetDevice>) -> io::Result<bool> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    while !answer.is_empty() {
        let length = u32_at(answer, 0).ok_or_else(damaged)? as usize;
        let message = answer.get(MESSAGE_HEADER_BYTES..length).ok_or_else(damaged)?;
        match i32::from(u16_at(answer, 4).ok_or_else(damaged)?) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = u32_at(message, 0).ok_or_else(damaged)? as i32;
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            kind if kind == i32::from(libc::RTM_NEWLINK) => {
                devices.push(read_link(message).ok_or_else(damaged)?);
            }
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

fn read_link(message: &[u8]) -> Option<NetDevice> {
    let mut device = NetDevice {
        hardware_type: u16_at(message, 2)?,
        ifindex: u32_at(message, 4)?,
        flags: u32_at(message, 8)?,
        ..NetDevice::default()
    };
    let mut attributes = message.get(LINK_HEADER_BYTES..)?;
    while attributes.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        read_attribute(&mut device, u16_at(attributes, 2)?, value);
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Some(device)
}

fn read_attribute(device: &mut NetDevice, kind: u16, value: &[u8]) {
    let word = || u32_at(value, 0).unwrap_or(0);
    match kind {
        libc::IFLA_IFNAME => {
            let name = value.split(|&byte| byte == 0).next().unwrap_or(&[]);
            device.name = String::from_utf8_lossy(name).into_owned();
        }
        libc::IFLA_MTU => device.mtu_bytes = word(),
        libc::IFLA_PROMISCUITY => device.promiscuity = word(),
        libc::IFLA_NUM_RX_QUEUES => device.rx_queues_max = word(),
        libc::IFLA_NUM_TX_QUEUES => device.tx_queues_max = word(),
        libc::IFLA_CARRIER => device.carrier = value.first() == Some(&1),
        libc::IFLA_STATS64 => device.statistics = read_statistics(value),
        _ => {}
    }
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

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((MESSAGE_HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_made_answer_is_read() {
        let mut body = vec![0, 0, 1, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        body.extend([8, 0, 3, 0, b'a', b'b', 0, 0]);
        body.extend([5, 0, 33, 0, 1, 0, 0, 0]);
        let mut answer = message(libc::RTM_NEWLINK, &body);
        answer.extend(message(libc::NLMSG_DONE as u16, &[0; 4]));
        let mut devices = Vec::new();
        assert!(read_messages(&answer, &mut devices).unwrap());
        assert_eq!((devices[0].name.as_str(), devices[0].ifindex), ("ab", 7));
        assert!(devices[0].carrier && devices[0].is_up());
    }

    #[test]
    fn an_error_is_reported_and_a_cut_answer_is_damage() {
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::EPERM).to_ne_bytes());
        let error = read_messages(&refused, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        assert!(read_messages(&refused[..18], &mut Vec::new()).is_err());
        assert!(read_messages(&[0; 16], &mut Vec::new()).is_err());
    }

    #[test]
    fn mutated_answers_end() {
        let mut body = vec![0; LINK_HEADER_BYTES];
        body.extend([8, 0, 3, 0, b'a', b'b', 0, 0]);
        let mut seed = message(libc::RTM_NEWLINK, &body);
        seed.extend(seed.clone());
        ringside_testkit::fuzz("netlink-links", &[seed], |input| {
            let _ = read_messages(input, &mut Vec::new());
        });
    }
}
