//! What is known of DPDK's drivers that they do not say themselves.

use ringside_core::TimestampKind;
use ringside_dpdk::Device;

/// A release of DPDK, as year and month: `(22, 11)`.
pub(super) type Release = (u32, u32);

/// Drivers that do not count every frame that is lost before it is taken, with the release since
/// which they do, if any: `net_af_packet` has no counter of what the kernel drops, `net_af_xdp`
/// none of a full ring, tap, virtio, vhost and memif none at all.
const UNCOUNTED: &[(&str, Option<Release>)] = &[
    ("net_af_packet", Some((25, 3))),
    ("net_af_xdp", None),
    ("net_tap", None),
    ("net_virtio", None),
    ("net_vhost", None),
    ("net_memif", None),
];

/// The release of `net_pcap` whose stamps are nanoseconds; they were microseconds before.
const PCAP_IN_NANOSECONDS: Release = (26, 7);

/// The release in `text`, as "DPDK 22.11.11"; `None` if there is none.
pub(super) fn release_of(text: &str) -> Option<Release> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// It counts all frames that are lost before they are taken.
pub(super) fn counts_losses(driver: &str, release: Release) -> bool {
    let entry = UNCOUNTED.iter().find(|(name, _)| *name == driver);
    entry.is_none_or(|(_, since)| since.is_some_and(|since| release >= since))
}

/// What the stamps of a driver mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    /// Whose they are; `Poll` where frames are stamped when they are taken.
    pub kind: TimestampKind,
    /// Nanoseconds of their unit.
    pub unit_ns: u64,
}

/// Each driver has its own clock and unit, which nothing tells: those that are not known for
/// certain are not believed. The frames of a capture that `net_pcap` plays come as of now.
pub(super) fn stamps(driver: &str, device: &Device, release: Release) -> Stamps {
    if driver == "net_pcap" && device.kernel_interface().is_some() {
        let unit_ns = if release >= PCAP_IN_NANOSECONDS { 1 } else { 1_000 };
        return Stamps { kind: TimestampKind::Kernel, unit_ns };
    }
    Stamps { kind: TimestampKind::Poll, unit_ns: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_drivers_are_known() {
        assert_eq!(release_of("DPDK 22.11.11"), Some((22, 11)));
        assert_eq!(release_of("DPDK 25.03.0-rc1"), Some((25, 3)));
        assert_eq!((release_of("DPDK"), release_of("")), (None, None));
        for (driver, release, counts) in [
            ("net_af_packet", (22, 11), false),
            ("net_af_packet", (25, 11), true),
            ("net_af_xdp", (26, 7), false),
            ("net_pcap", (22, 11), true),
            ("net_ixgbe", (22, 11), true),
        ] {
            assert_eq!(counts_losses(driver, release), counts, "{driver} {release:?}");
        }
        let live = Device::named("dpdk:net_pcap0,rx_iface_in=eth1");
        let file = Device::named("dpdk:net_pcap0,rx_pcap=/a");
        let micros = Stamps { kind: TimestampKind::Kernel, unit_ns: 1_000 };
        assert_eq!(stamps("net_pcap", &live, (22, 11)), micros);
        assert_eq!(stamps("net_pcap", &live, (26, 7)).unit_ns, 1);
        assert_eq!(stamps("net_pcap", &file, (22, 11)).kind, TimestampKind::Poll);
        assert_eq!(stamps("net_mlx5", &live, (22, 11)).kind, TimestampKind::Poll);
    }
}
