//! What a driver can do for XDP and AF_XDP: the netlink family `netdev` (linux/netdev.h,
//! Documentation/netlink/specs/netdev.yaml), in kernels from 6.3 on.

use crate::netlink::generic::{Family, GENERIC_HEADER_BYTES};
use crate::netlink::message::{Message, attributes, damaged};
use ringside_sys::SysError;
use std::io;

pub(super) const FAMILY: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;

/// What a driver says about itself. All false of an interface for which only generic XDP is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Programs run in the driver and may drop, pass and send back.
    pub native: bool,
    /// They may redirect.
    pub redirect: bool,
    /// Frames may be redirected to the interface.
    pub redirect_target: bool,
    /// AF_XDP sockets receive without a copy by the kernel.
    pub zero_copy: bool,
    /// Programs may be put into the hardware.
    pub hardware_offload: bool,
    /// Programs get frames that lie in several pieces.
    pub receive_fragments: bool,
    /// Most pieces of a frame without a copy; 1 means that a frame lies in one piece. 0 where the
    /// driver has no zero-copy.
    pub zero_copy_pieces_max: u32,
    /// Programs can read the hardware's stamp.
    pub metadata_timestamp: bool,
    /// Programs can read the hash of the receive side scaling.
    pub metadata_hash: bool,
    /// Programs can read the VLAN tag that the hardware took out.
    pub metadata_vlan_tag: bool,
    /// AF_XDP sockets can ask for the hardware's stamp of what they send.
    pub transmit_timestamp: bool,
    /// They can ask for checksums.
    pub transmit_checksum: bool,
}

/// What the driver of an interface can do for XDP; `None` where the kernel cannot say (before 6.3).
///
/// # Errors
/// There is no such interface, or the answer is damaged.
pub fn xdp_features(ifindex: u32) -> Result<Option<XdpFeatures>, SysError> {
    let failed = |e: io::Error| {
        SysError::io(format!("asking what the interface with index {ifindex} can do for XDP"), e)
    };
    let Some(mut family) = Family::open(FAMILY)? else { return Ok(None) };
    let request =
        family.request(NETDEV_CMD_DEV_GET).attribute(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
    family.connection.ask(request, read_features).map_err(failed)
}

fn read_features(message: &Message<'_>) -> io::Result<Option<XdpFeatures>> {
    let mut features = XdpFeatures::default();
    let body = message.body.get(GENERIC_HEADER_BYTES..).ok_or_else(damaged)?;
    for attribute in attributes(body)? {
        let has = |bit: u32| attribute.number() & (1 << bit) != 0;
        match attribute.kind {
            NETDEV_A_DEV_XDP_FEATURES => {
                features.native = has(0);
                features.redirect = has(1);
                features.redirect_target = has(2);
                features.zero_copy = has(3);
                features.hardware_offload = has(4);
                features.receive_fragments = has(5);
            }
            NETDEV_A_DEV_XDP_ZC_MAX_SEGS => features.zero_copy_pieces_max = attribute.word(),
            NETDEV_A_DEV_XDP_RX_METADATA_FEATURES => {
                features.metadata_timestamp = has(0);
                features.metadata_hash = has(1);
                features.metadata_vlan_tag = has(2);
            }
            NETDEV_A_DEV_XSK_FEATURES => {
                features.transmit_timestamp = has(0);
                features.transmit_checksum = has(1);
            }
            _ => {}
        }
    }
    Ok(Some(features))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::Request;
    use crate::netlink::message::messages;

    fn answer() -> Vec<u8> {
        Request::new(30, &[1, 1, 0, 0])
            .attribute(NETDEV_A_DEV_XDP_FEATURES, &43u64.to_ne_bytes())
            .attribute(NETDEV_A_DEV_XDP_ZC_MAX_SEGS, &1u32.to_ne_bytes())
            .attribute(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, &5u64.to_ne_bytes())
            .attribute(NETDEV_A_DEV_XSK_FEATURES, &2u32.to_ne_bytes())
            .bytes(1)
    }

    #[test]
    fn bits_have_their_names() {
        let bytes = answer();
        let features = read_features(&messages(&bytes).next().unwrap().unwrap());
        let expected = XdpFeatures {
            native: true,
            redirect: true,
            zero_copy: true,
            receive_fragments: true,
            zero_copy_pieces_max: 1,
            metadata_timestamp: true,
            metadata_vlan_tag: true,
            transmit_checksum: true,
            ..XdpFeatures::default()
        };
        assert_eq!(features.unwrap(), Some(expected));
    }

    #[test]
    fn the_loopback_interface_has_no_xdp_in_its_driver() {
        let features = xdp_features(1).unwrap();
        assert!(features.is_none_or(|features| !features.native && !features.zero_copy));
        assert!(features.is_none() || xdp_features(u32::MAX >> 1).is_err());
    }

    #[test]
    fn mutated_answers_end() {
        ringside_testkit::fuzz("netdev-features", 500_000, &[answer()], |input| {
            for message in messages(input).flatten() {
                let _ = read_features(&message);
            }
        });
    }
}
