//! The backends of this build, as the suite has to know them.

use super::*;
use crate::backend::{AF_PACKET, AF_XDP, PCAP, XDP_RING};

pub(super) static AF_PACKET_SUBJECT: Subject =
    Subject { lanes: 4, ..Subject::of_interface(&AF_PACKET) };

pub(super) static AF_XDP_SUBJECT: Subject =
    Subject { device: queues, lanes: 4, rest: Rest::Passed, ..Subject::of_interface(&AF_XDP) };

pub(super) static XDP_RING_SUBJECT: Subject = Subject {
    device: |wire, lanes| {
        let name = queues(wire, lanes);
        wire.inside("ethtool", &["-K", RX, "rxvlan", "off", "rx-vlan-stag-hw-parse", "off"]);
        name
    },
    lanes: 4,
    rest: Rest::Passed,
    ..Subject::of_interface(&XDP_RING)
};

pub(super) static PCAP_SUBJECT: Subject =
    Subject { rest: Rest::Uncounted, begins_at_start: false, ..Subject::of_interface(&PCAP) };

/// The pair made again with as many queues as lanes, where one does not do.
fn queues(wire: &Wire, lanes: u16) -> String {
    if lanes > 1 {
        wire.make_pair_again(9000, lanes);
    }
    RX.to_owned()
}
