//! What an interface takes, and what its refusals mean.

use crate::Error;
use ringside_core::Refusal;
use ringside_netdev::{self as netdev, NetDevice};
use std::io;
use std::time::Duration;

/// ARPHRD_ETHER of linux/if_arp.h.
pub(crate) const ETHERNET: u16 = 1;
/// ARPHRD_LOOPBACK: frames as Ethernet's.
const LOOPBACK: u16 = 772;

/// Ethernet header, which an interface takes beyond its MTU.
pub(crate) const HEADER_BYTES: usize = 14;
/// A VLAN tag may come on top of that.
pub(crate) const TAG_BYTES: usize = 4;
/// TPID of 802.1Q: the kernel lets frames whose first type it is alone be longer
/// (packet_extra_vlan_len_allowed of net/packet/af_packet.c).
const TAG: [u8; 2] = [0x81, 0x00];

/// Linux's numbers of errors for which std has no kind (asm-generic/errno.h).
pub(crate) const ENXIO: i32 = 6;
/// The socket's buffer had no room in the time that a call waits.
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EMSGSIZE: i32 = 90;
pub(crate) const ENETDOWN: i32 = 100;
pub(crate) const ENOBUFS: i32 = 105;

/// How long a link that has just come may take until the kernel sends through it: the kernel looks
/// at links once a second at most, and a busy machine comes later.
const LINK_LIMIT: Duration = Duration::from_secs(10);

/// The interface called `name` of the calling thread's namespace, as it is now.
///
/// # Errors
/// There is none.
pub(crate) fn named(name: &str) -> Result<NetDevice, Error> {
    let namespace = "this network namespace".to_owned();
    netdev::by_name(name)?.ok_or(Error::NoInterface { interface: name.to_owned(), namespace })
}

/// The same, which is to send.
///
/// # Errors
/// There is none, or it is down.
pub(crate) fn find(name: &str) -> Result<NetDevice, Error> {
    let device = named(name)?;
    if !device.is_up() {
        return Err(Error::Down { interface: name.to_owned() });
    }
    Ok(device)
}

/// The same, and its other end is there.
///
/// # Errors
/// There is none, it is down, or it has no link.
pub(crate) fn find_linked(name: &str) -> Result<NetDevice, Error> {
    find(name)?;
    let device = netdev::by_name_noticed(name, LINK_LIMIT)?;
    let linked = device.filter(|device| device.carrier && device.is_noticed());
    linked.ok_or_else(|| Error::NoCarrier { interface: name.to_owned() })
}

/// Refuses an interface that nothing can be sent through now: of the calling thread's namespace.
///
/// # Errors
/// There is none, it is down, or it has no link.
pub fn check_interface(name: &str) -> Result<(), Error> {
    find_linked(name).map(drop)
}

/// Refuses an interface whose frames do not begin with an Ethernet header, for who sends by `sink`.
pub(crate) fn check_ethernet(device: &NetDevice, sink: &'static str) -> Result<(), Error> {
    if [ETHERNET, LOOPBACK].contains(&device.hardware_type) {
        return Ok(());
    }
    let (interface, hardware_type) = (device.name.clone(), device.hardware_type);
    Err(Error::NotEthernet { interface, hardware_type, sink })
}

/// The longest frames that an interface takes: its MTU and the Ethernet header, and a tag more for
/// a frame whose first type is 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    pub mtu_bytes: usize,
}

impl SizeLimit {
    /// That of frames of `bytes_max` at most.
    pub fn of_frames(bytes_max: usize) -> SizeLimit {
        SizeLimit { mtu_bytes: bytes_max.saturating_sub(HEADER_BYTES + TAG_BYTES) }
    }

    /// Longest frame, with a tag.
    pub fn frame_bytes_max(self) -> usize {
        self.mtu_bytes + HEADER_BYTES + TAG_BYTES
    }

    /// By how many bytes the MTU is too small for `frame`, as if it were `bytes` long.
    #[inline]
    pub fn excess(self, frame: &[u8], bytes: usize) -> usize {
        let tag = if has_tag(frame) { TAG_BYTES } else { 0 };
        bytes.saturating_sub(self.mtu_bytes + HEADER_BYTES + tag)
    }
}

/// True if kernels make room for a tag of this frame.
#[inline]
pub(crate) fn has_tag(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&TAG)
}

/// Why the system refused a frame.
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(EAGAIN | ENOBUFS) => Refusal::NoRoom,
        Some(EMSGSIZE) => Refusal::TooLong,
        Some(ENETDOWN | ENXIO | ENODEV) => Refusal::InterfaceGone,
        _ => Refusal::Other,
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
        frame[12..14].copy_from_slice(&TAG);
        assert_eq!(limit.excess(&frame, 1518), 0);
        assert_eq!(limit.excess(&frame, 1519), 1);
        frame[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(limit.excess(&frame, 1518), 4);
    }
}
