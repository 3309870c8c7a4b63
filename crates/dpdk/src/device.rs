//! What the name of a device says.

/// In front of a device that DPDK receives from.
pub const PREFIX: &str = "dpdk:";

/// The driver by which an interface of the kernel's is received from.
const OF_INTERFACES: &str = "net_af_packet";

/// Arguments by which drivers name the kernel's interface that they stand on.
const INTERFACE_ARGUMENTS: [&str; 3] = ["iface", "rx_iface", "rx_iface_in"];

/// A link-layer header and two tags.
pub const HEADER_BYTES: u32 = 14 + 8;
/// A frame of Ethernet with that.
pub const ETHERNET_BYTES: u32 = 1_500 + HEADER_BYTES;
/// Least room of a frame: with DPDK's header no AF_XDP chunk of less than 2 KiB, which the kernel
/// refuses.
pub const FRAME_ROOM_MIN: u32 = 2 << 10;
/// Most room of a frame: a power of two whose length, with DPDK's space in front, has 16 bits.
pub const FRAME_ROOM_MAX: u32 = 32 << 10;

/// Of each frame in the ring of a packet socket, what stands in front of it (TPACKET_V2).
const PACKET_HEADER_BYTES: u32 = 80;
/// Bytes of a page, which the blocks of such a ring consist of.
const PAGE_BYTES: u32 = 4096;

/// A device, as its name describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What comes first: the address of a card, or a driver with what tells its devices apart.
    pub name: String,
    /// The arguments behind it, as `KEY=VALUE`.
    pub arguments: Vec<String>,
    /// It is a card.
    pub is_card: bool,
}

impl Device {
    /// Of the name of an interface.
    pub fn named(interface: &str) -> Device {
        let Some(words) = interface.strip_prefix(PREFIX) else {
            let name = format!("{OF_INTERFACES}_{interface}");
            return Device { name, arguments: vec![format!("iface={interface}")], is_card: false };
        };
        let mut words = words.split(',').map(ToOwned::to_owned);
        let name = words.next().unwrap_or_default();
        Device { is_card: is_address(&name), name, arguments: words.collect() }
    }

    /// As DPDK takes it.
    pub fn words(&self) -> String {
        let mut words = self.name.clone();
        for argument in &self.arguments {
            words.push(',');
            words.push_str(argument);
        }
        words
    }

    /// It is of this driver, or a kind of it.
    pub fn is_of(&self, driver: &str) -> bool {
        !self.is_card && self.name.starts_with(driver)
    }

    /// The values of an argument.
    pub fn values<'d>(&'d self, key: &'d str) -> impl Iterator<Item = &'d str> {
        let pairs = self.arguments.iter().filter_map(|argument| argument.split_once('='));
        pairs.filter(move |(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Adds an argument unless it is there.
    pub fn set(&mut self, key: &str, value: impl ToString) {
        if self.values(key).next().is_none() {
            self.arguments.push(format!("{key}={}", value.to_string()));
        }
    }

    /// Gives `net_af_packet` on an interface of this MTU the sizes of its rings: the room of a
    /// frame in them, in bytes, and the longest frame that comes whole if some do not. Other sizes
    /// that are named are left out: the driver copies what its ring has for a frame, and does not
    /// look whether there is room for it.
    pub fn set_packet_ring(
        &mut self,
        mtu_bytes: u32,
        queues: u32,
        frames: impl FnOnce(u32) -> u32,
    ) -> (u32, Option<u32>) {
        let longest = mtu_bytes.saturating_add(HEADER_BYTES).max(ETHERNET_BYTES);
        let slot = longest.saturating_add(PACKET_HEADER_BYTES);
        let slot = slot.min(FRAME_ROOM_MAX).next_power_of_two();
        let fits = slot - PACKET_HEADER_BYTES;
        for (key, value) in [
            ("qpairs", queues),
            ("blocksz", slot.max(PAGE_BYTES)),
            ("framesz", slot),
            ("framecnt", frames(slot)),
        ] {
            self.arguments.retain(|argument| argument.split('=').next() != Some(key));
            self.set(key, value);
        }
        (slot, (longest > fits).then_some(fits))
    }

    /// The interface of the kernel's that it stands on.
    pub fn kernel_interface(&self) -> Option<&str> {
        // A tap's is one that it makes.
        let stands_on_one = !self.is_card && !self.is_of("net_tap");
        let first = || INTERFACE_ARGUMENTS.iter().find_map(|key| self.values(key).next());
        stands_on_one.then(first).flatten()
    }

    /// Its frames wait for who takes them, as those of a file do.
    pub fn plays_files(&self) -> bool {
        self.is_of("net_pcap") && self.values("rx_pcap").next().is_some()
    }

    /// How many receive queues its arguments name; `None` where they are asked for.
    pub fn queues_named(&self) -> Option<usize> {
        let of_files = ["rx_pcap", "rx_iface", "rx_iface_in"];
        let count: usize = of_files.iter().map(|key| self.values(key).count()).sum();
        self.is_of("net_pcap").then_some(count)
    }
}

/// A PCI address, with or without its domain: `0000:03:00.0`, `03:00.0`.
fn is_address(name: &str) -> bool {
    let Some((rest, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let is_hex = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    (2..=3).contains(&parts.len()) && parts.iter().all(is_hex) && is_hex(&function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_device_is() {
        for (name, words, is_card, interface) in [
            ("dpdk:0000:03:00.0", "0000:03:00.0", true, None),
            ("dpdk:03:00.1,a=b", "03:00.1,a=b", true, None),
            ("dpdk:net_null0", "net_null0", false, None),
            ("dpdk:net_af_xdp0,iface=eth1", "net_af_xdp0,iface=eth1", false, Some("eth1")),
            ("dpdk:net_pcap0,rx_iface_in=eth1", "net_pcap0,rx_iface_in=eth1", false, Some("eth1")),
            ("dpdk:net_tap0,iface=tap1", "net_tap0,iface=tap1", false, None),
            ("eth1.5", "net_af_packet_eth1.5,iface=eth1.5", false, Some("eth1.5")),
            ("dpdk:", "", false, None),
        ] {
            let device = Device::named(name);
            assert_eq!((device.words().as_str(), device.is_card), (words, is_card), "{name}");
            assert_eq!(device.kernel_interface(), interface, "{name}");
        }
        let mut device = Device::named("dpdk:net_pcap1,rx_pcap=/a=b,rx_pcap=/c");
        assert_eq!((device.queues_named(), device.plays_files()), (Some(2), true));
        assert_eq!(device.values("rx_pcap").collect::<Vec<_>>(), ["/a=b", "/c"]);
        device.set("rx_pcap", "/d");
        device.set("size", 60);
        assert_eq!(device.words(), "net_pcap1,rx_pcap=/a=b,rx_pcap=/c,size=60");
        assert_eq!(Device::named("eth1").queues_named(), None);
    }

    #[test]
    fn any_name_is_put_together_as_it_was_taken_apart() {
        let seeds =
            ["dpdk:0000:03:00.0,a=b", "dpdk:net_pcap0,rx_pcap=/a,rx_iface=e", "dpdk:net_af"];
        let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
        ringside_testkit::fuzz("dpdk-devices", 50_000, &seeds, |bytes| {
            let name = String::from_utf8_lossy(bytes);
            let device = Device::named(&name);
            if let Some(words) = name.strip_prefix(PREFIX) {
                assert_eq!(device.words(), words);
            }
            let mut device = Device { is_card: false, ..device };
            device.set_packet_ring(1_500, 1, |_| 64);
            assert_eq!(device.values("framesz").collect::<Vec<_>>(), ["2048"]);
        });
    }

    #[test]
    fn rings_of_packet_sockets_have_room_for_the_mtu() {
        for (mtu, slot, cut) in
            [(1_500, 2_048, None), (9_000, 16_384, None), (65_535, 32_768, Some(32_688))]
        {
            let mut device = Device::named("dpdk:net_af_packet0,iface=eth1,framesz=65536");
            assert_eq!(device.set_packet_ring(mtu, 2, |_| 64), (slot, cut), "{mtu}");
            let sizes = format!("qpairs=2,blocksz={},framesz={slot},framecnt=64", slot.max(4096));
            assert!(device.words().ends_with(&sizes), "{}", device.words());
        }
    }
}
