//! The Rust side of what routers have in `bpf/abi_route.h`.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Interfaces of one router at most.
pub const PORTS_MAX: usize = 32;

/// Numbers of interfaces below this are looked up without a hash.
pub const NEAR: u32 = 4096;

/// Places of next hops that are in use.
pub const HOPS: usize = 4096;

/// Answers of the kernel's tables that each CPU keeps.
pub(crate) const CACHE_ENTRIES: u32 = 8192;
/// Of nanoseconds: how long they stand is counted in these.
const CACHE_TICK_SHIFT: u32 = 24;

/// Shortest time that an answer can stand: two ticks, of which the first is under way already.
pub const ANSWER_AGE_MIN: Duration = Duration::from_millis(34);

/// How long an answer stands, in ticks: at most `age_max`; 0, none is kept, if that is too short.
pub(crate) fn cache_ticks(age_max: Duration) -> u32 {
    if age_max < ANSWER_AGE_MIN {
        return 0;
    }
    u32::try_from(age_max.as_nanos() >> CACHE_TICK_SHIFT).unwrap_or(u32::MAX)
}

/// What became of a frame. All but the first went on unmodified, to the host's stack, which
/// forwards it or answers as it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Cause {
    /// It left by another interface of the router.
    Forwarded = 0,
    /// It is not to the interface's own address in the link layer.
    Foreign = 1,
    /// It is to all, or to a group, in the link layer.
    Group = 2,
    /// It is neither IPv4 nor IPv6.
    NotIp = 3,
    /// It has a VLAN tag of no interface of the router, or none where only those with one are for
    /// it.
    Tagged = 4,
    /// Version, lengths or checksum are wrong, or there is more behind the packet than padding.
    Malformed = 5,
    /// IPv4 has options.
    Options = 6,
    /// IPv6 has headers before the transport.
    Extensions = 7,
    /// Source or destination is none that a router forwards.
    Addresses = 8,
    /// TTL or hop limit ends here.
    HopLimit = 9,
    /// An error of ICMP, which goes the way of the packet that it is about.
    IcmpError = 10,
    /// It is for this host, or there is no route.
    Host = 11,
    /// The route is a blackhole.
    Blackhole = 12,
    /// The route says unreachable.
    Unreachable = 13,
    /// The route says prohibited.
    Prohibited = 14,
    /// Forwarding is off where it came in.
    Off = 15,
    /// The route puts packets into a tunnel.
    Encapsulated = 16,
    /// The next hop's address in the link layer is not known (yet).
    NoNeighbour = 17,
    /// It is longer than the route's MTU.
    TooLong = 18,
    /// The route leads back where it came from.
    SameInterface = 19,
    /// The route leads out of an interface that the router does not have.
    NotMember = 20,
    /// By the interface's rp_filter its source may not come from there.
    ReversePath = 21,
    /// The kernel gave another answer.
    Unknown = 22,
    /// Once a second of each next hop while no process keeps neighbours fresh: the host forwards
    /// it, and so notices that the neighbour is used.
    Refresh = 23,
}

impl Cause {
    /// All, each at its number.
    pub const ALL: [Cause; 24] = [
        Cause::Forwarded,
        Cause::Foreign,
        Cause::Group,
        Cause::NotIp,
        Cause::Tagged,
        Cause::Malformed,
        Cause::Options,
        Cause::Extensions,
        Cause::Addresses,
        Cause::HopLimit,
        Cause::IcmpError,
        Cause::Host,
        Cause::Blackhole,
        Cause::Unreachable,
        Cause::Prohibited,
        Cause::Off,
        Cause::Encapsulated,
        Cause::NoNeighbour,
        Cause::TooLong,
        Cause::SameInterface,
        Cause::NotMember,
        Cause::ReversePath,
        Cause::Unknown,
        Cause::Refresh,
    ];

    /// Its name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Forwarded => "forwarded",
            Cause::Foreign => "foreign",
            Cause::Group => "group",
            Cause::NotIp => "not_ip",
            Cause::Tagged => "tagged",
            Cause::Malformed => "malformed",
            Cause::Options => "options",
            Cause::Extensions => "extensions",
            Cause::Addresses => "addresses",
            Cause::HopLimit => "hop_limit",
            Cause::IcmpError => "icmp_error",
            Cause::Host => "host",
            Cause::Blackhole => "blackhole",
            Cause::Unreachable => "unreachable",
            Cause::Prohibited => "prohibited",
            Cause::Off => "off",
            Cause::Encapsulated => "encapsulated",
            Cause::NoNeighbour => "no_neighbour",
            Cause::TooLong => "too_long",
            Cause::SameInterface => "same_interface",
            Cause::NotMember => "not_member",
            Cause::ReversePath => "reverse_path",
            Cause::Unknown => "unknown",
            Cause::Refresh => "refresh",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `struct route_port`: an interface of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its number; 0: there is none.
    pub ifindex: u32,
    /// Its address in the link layer.
    pub mac: [u8; 6],
    /// What rp_filter asks of sources of IPv4.
    pub reverse_path: ReversePath,
    /// Ports of packets decide about their routes.
    pub asks_for_ports: bool,
    /// Id of its VLAN, from 1 to 4094; 0: its frames have no tag.
    pub vlan: u16,
}

/// ROUTE_PORT_TRANSPORT, of the flags whose lower bits are a [`ReversePath`].
const TRANSPORT: u16 = 4;

/// Bytes of `struct route_port`.
const PORT_BYTES: usize = 16;

/// What must be true of the way back to a source of IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// Nothing.
    #[default]
    Unasked = 0,
    /// It leads out of the interface where the packet came in.
    Strict = 1,
    /// There is one.
    Loose = 2,
}

impl Port {
    pub(crate) fn to_bytes(self) -> [u8; PORT_BYTES] {
        let mut bytes = [0; PORT_BYTES];
        bytes[..6].copy_from_slice(&self.mac);
        let transport = if self.asks_for_ports { TRANSPORT } else { 0 };
        bytes[6..8].copy_from_slice(&(self.reverse_path as u16 | transport).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.ifindex.to_ne_bytes());
        bytes[12..14].copy_from_slice(&self.vlan.to_ne_bytes());
        bytes
    }

    /// The number alone, of what another process wrote.
    pub(crate) fn ifindex_in(bytes: &[u8]) -> Option<u32> {
        let number = bytes.get(8..12)?.try_into().map(u32::from_ne_bytes).ok()?;
        Some(number).filter(|number| *number != 0)
    }
}

/// `struct route_counts`: frames that came in by one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them: the sum of `causes`.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// By what became of them, each at its cause's number.
    pub causes: [u64; Cause::ALL.len()],
}

impl Counts {
    /// Frames of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.causes[cause as usize]
    }

    pub(crate) fn from_words(words: &[u64]) -> Option<Counts> {
        let (&[received, received_bytes], rest) = words.split_first_chunk()?;
        Some(Counts { received, received_bytes, causes: *rest.first_chunk()? })
    }
}

/// Words of `struct route_counts`.
pub(crate) const COUNTS_WORDS: usize = 26;

/// `struct route_flow`: frames from one interface to another, or out of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How many.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// `struct route_config`: where a program stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub device: u32,
    pub slot: u32,
    pub position: u32,
    pub metadata: u32,
    pub reports: u32,
    pub stays: u32,
    pub vlans: u32,
    pub ticks: u32,
}

/// ROUTE_NO_SLOT: of a device whose frames without a tag are not for the router.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Bytes of `struct route_config`, and where `stays` is in it.
const CONFIG_BYTES: usize = 32;
const STAYS_AT: usize = 20;

impl Config {
    /// Reads `stays` from the bytes of a program.
    pub fn stays_in(bytes: &[u8]) -> bool {
        bytes.len() == CONFIG_BYTES && bytes[STAYS_AT..][..4] != [0; 4]
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let Config { device, slot, position, metadata, reports, stays, vlans, ticks } = self;
        let words = [device, slot, position, metadata, reports, stays, vlans, ticks];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// `struct route_report`: what was found out about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What became of it.
    pub cause: Cause,
    /// Interface where the route leads, as far as the tables were asked and said so.
    pub ifindex: Option<u32>,
    /// MTU of the route, if the packet is longer.
    pub mtu: Option<u32>,
    /// The next hop, if the route was found.
    pub next_hop: Option<IpAddr>,
    /// The next hop's address in the link layer, if it is known.
    pub mac: Option<[u8; 6]>,
}

/// Bytes of `struct route_report`.
pub(crate) const REPORT_BYTES: usize = 44;
/// ROUTE_NO_ANSWER.
const NO_ANSWER: u32 = u32::MAX;
const AF_INET6: u32 = libc::AF_INET6 as u32;

impl Report {
    /// Reads what the program wrote about a frame.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let bytes: &[u8; REPORT_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let cause = *Cause::ALL.get(word(0) as usize)?;
        let answer = word(4);
        let is_asked = answer != NO_ANSWER;
        // The kernel names the interface before it looks for the neighbour.
        let is_found = is_asked && (answer == 0 || cause == Cause::NoNeighbour);
        let address: [u8; 16] = bytes[16..32].try_into().ok()?;
        let next_hop = match word(32) {
            AF_INET6 => IpAddr::from(address),
            _ => IpAddr::from([address[0], address[1], address[2], address[3]]),
        };
        Some(Report {
            cause,
            // Where forwarding is off it is still the one where the frame came in.
            ifindex: (is_found || cause == Cause::Off).then(|| word(8)),
            mtu: (cause == Cause::TooLong).then(|| word(12)),
            next_hop: is_found.then_some(next_hop),
            mac: (is_asked && answer == 0).then(|| bytes[36..42].try_into().unwrap_or_default()),
        })
    }
}

/// The place of a next hop in the table of those in use (bpf/route.h, hop_place).
pub fn hop_place(ifindex: u32, next_hop: IpAddr) -> usize {
    let mix = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    };
    let hash = match next_hop {
        IpAddr::V4(address) => mix(u64::from(ifindex), u32::from_ne_bytes(address.octets()).into()),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let (words, _) = octets.as_chunks::<4>();
            let word = |at: usize| u64::from(u32::from_ne_bytes(words[at]));
            let first = mix(mix(u64::from(ifindex), word(0)), word(1));
            mix(first, word(2) | word(3) << 32)
        }
    };
    (hash >> 20) as usize & (HOPS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_no_longer_than_they_may() {
        let ticks = |ms| cache_ticks(Duration::from_millis(ms));
        assert_eq!([0, 33, 34, 100, 1000].map(ticks), [0, 0, 2, 5, 59]);
        assert_eq!(cache_ticks(Duration::MAX), u32::MAX);
    }

    #[test]
    fn words_lie_as_the_program_reads_them() {
        let config = Config {
            device: 1,
            slot: 2,
            position: 3,
            metadata: 4,
            reports: 5,
            stays: 6,
            vlans: 7,
            ticks: 8,
        };
        let words = [1u32, 2, 3, 4, 5, 6, 7, 8];
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(config.to_bytes(), expected);
        assert!(Config::stays_in(&expected) && !Config::stays_in(&expected[1..]));
        assert!(!Config::stays_in(&Config { stays: 0, ..config }.to_bytes()));
        let (mac, reverse_path) = ([1, 2, 3, 4, 5, 6], ReversePath::Loose);
        let port = Port { ifindex: 7, mac, reverse_path, asks_for_ports: true, vlan: 9 };
        let bytes = port.to_bytes();
        assert_eq!((&bytes[..6], &bytes[6..8]), (&port.mac[..], &6u16.to_ne_bytes()[..]));
        assert_eq!((Port::ifindex_in(&bytes), Port::ifindex_in(&[0; 16])), (Some(7), None));
    }

    #[test]
    fn each_cause_is_at_its_number_and_has_a_name_of_its_own() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            let same = Cause::ALL.iter().filter(|other| other.name() == cause.name());
            assert_eq!(same.count(), 1, "{cause}");
        }
    }

    #[test]
    fn whatever_lies_there_is_a_report_or_none() {
        let mut seed = vec![0u8; REPORT_BYTES];
        seed[..4].copy_from_slice(&(Cause::TooLong as u32).to_ne_bytes());
        ringside_testkit::fuzz("route-report", 200_000, &[seed], |bytes| {
            let Some(report) = Report::from_bytes(bytes) else { return };
            assert!(report.mtu.is_none() || report.cause == Cause::TooLong);
            assert!(report.mac.is_none() || report.next_hop.is_some());
        });
    }
}
