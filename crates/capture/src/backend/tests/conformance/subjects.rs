//! The backends of this build, as the suite has to know them.

use super::fakes;
use super::*;
use crate::backend::{AF_PACKET, AF_XDP, DPDK, PCAP, XDP_RING};

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

/// By `net_af_packet`, on the wire's end: what it loses the kernel alone knows (before 25.03), and
/// it puts every tag that the kernel took out back as 0x8100.
pub(super) static DPDK_SUBJECT: Subject = Subject {
    device: |wire, _| {
        // Tests of a process share DPDK, which knows a device by its name.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        wire.make_pair_again(9000, 1);
        format!("dpdk:net_af_packet{},iface={RX}", NEXT.fetch_add(1, Ordering::Relaxed))
    },
    lanes: 4,
    frame_bytes_max: 9014,
    keeps_tag_protocols: false,
    stamped_by: TimestampKind::Poll,
    counts_losses: false,
    missing: || ringside_dpdk::release().err().map(|error| error.to_string()),
    ..Subject::of_interface(&DPDK)
};

/// By a library that plays PF_RING's. The module puts every tag that the kernel took out back as
/// 0x8100, and loses one that is 0.
pub(super) static PF_RING_SUBJECT: Subject = Subject {
    device: |_, _| format!("pf-ring:{RX}"),
    lanes: 4,
    keeps_tag_protocols: false,
    keeps_empty_tags: false,
    missing: fakes::no_pf_ring,
    ..Subject::of_interface(&fakes::PF_RING)
};

/// By what plays the kernel's side, on rings that are fed from inside the driver.
pub(super) static NETMAP_SUBJECT: Subject = Subject {
    device: |wire, lanes| format!("netmap:{}", queues(wire, lanes)),
    lanes: 4,
    stamped_by: TimestampKind::Poll,
    counts_losses: false,
    ..Subject::of_interface(&fakes::NETMAP)
};

/// The pair made again with as many queues as lanes, where one does not do.
fn queues(wire: &Wire, lanes: u16) -> String {
    if lanes > 1 {
        wire.make_pair_again(9000, lanes);
    }
    RX.to_owned()
}
