//! The Rust side of what the flow cache shares with `bpf/flows.h`, in `bpf/abi.h`. What lies in
//! arrays is read by whole words, since the program writes it meanwhile.

/// Entries of one set (FLOW_WAYS).
pub const WAYS: usize = 8;
/// Words of `struct flow_entry`.
pub const ENTRY_WORDS: usize = 16;
/// Words of 32 bits of `struct flow_set`: marks, then versions.
pub const SET_WORDS: usize = 2 * WAYS;
/// Words of `struct flow_taken`.
pub const TAKEN_WORDS: usize = 8;
/// Words of `struct flow_counts`.
pub const COUNTS_WORDS: usize = 16;
/// Words of control.
pub const CONTROL_WORDS: usize = 8;
/// Word of control: what changes with each reading.
pub const CONTROL_EPOCH: usize = 0;
/// Word of control: ways of each set that are used.
pub const CONTROL_WAYS_USED: usize = 1;

/// Where in a ring its positions are, in words.
pub const RING_HEAD: usize = 0;
/// See [`RING_HEAD`].
pub const RING_TAIL: usize = 8;
/// Bytes of a ring before its records (RING_RECORDS_AT).
pub const RING_RECORDS_AT: usize = 4096;
/// Bytes behind the records, in which one may end (FLOW_RING_BEHIND).
pub const RING_BEHIND: usize = 4096;
/// Words of `struct flow_record`, in front of what is handed up.
pub const RECORD_WORDS: usize = 4;
/// What is handed up is an entry.
pub const RECORD_ENTRY: u32 = 1;
/// What is handed up is the beginning of a frame.
pub const RECORD_FRAME: u32 = 2;
/// Most bytes of a frame that are handed up.
pub const FRAME_BYTES_MAX: usize = 512;

/// In a key: there is a VLAN tag, whose id the lower bits are.
pub const HAS_VLAN: u16 = 0x1000;
/// In a key: addresses are IPv6.
pub const V6: u8 = 1;
/// In a key: a message of ICMP that has no answer.
pub const ONE_WAY: u8 = 2;

/// `struct flow_config`: how a cache is cut, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub seed: u64,
    pub cpus: u32,
    pub sets: u32,
    pub ring_bytes: u32,
    pub position: u32,
    pub metadata: u32,
    pub is_sending: u32,
    pub is_weakly_ordered: u32,
}

impl Config {
    /// The bytes as the C program reads them.
    pub fn to_bytes(self) -> Vec<u8> {
        let words = [
            self.cpus,
            self.sets,
            self.ring_bytes,
            self.position,
            self.metadata,
            self.is_sending,
            self.is_weakly_ordered,
            0,
        ];
        let rest = words.into_iter().flat_map(u32::to_ne_bytes);
        self.seed.to_ne_bytes().into_iter().chain(rest).collect()
    }
}

/// `struct flow_entry`: a flow's sums since its place was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Source and destination, raw; of IPv4 both in the first word.
    pub address: [u64; 4],
    /// Ports of source and destination; of ICMP type, and type or code.
    pub ports: [u16; 2],
    /// [`HAS_VLAN`] and the id, or 0.
    pub vlan: u16,
    /// Protocol above IP.
    pub protocol: u8,
    /// [`V6`], [`ONE_WAY`].
    pub flags: u8,
    /// Packets.
    pub packets: u64,
    /// Octets of frames on the wire.
    pub octets: u64,
    /// Octets of IP packets.
    pub ip_octets: u64,
    /// Stamp of the first packet: nanoseconds since 1970, TAI, as all stamps here.
    pub first: u64,
    /// Stamp of the last packet.
    pub last: u64,
    /// The latest even and odd epoch in which packets came.
    pub epoch: [u32; 2],
    /// Stamp of the first packet of each.
    pub since: [u64; 2],
    /// TCP flags of the packets of each, all together.
    pub epoch_flags: [u16; 2],
    /// TCP flags of all packets.
    pub all_flags: u16,
    /// TCP flags of the first packet.
    pub first_flags: u16,
    /// Type of service or traffic class of the first packet.
    pub tos: u8,
    /// How often the place was taken.
    pub generation: u32,
    /// The place.
    pub index: u32,
}

impl Entry {
    /// An entry by its words.
    pub fn of(words: &[u64; ENTRY_WORDS]) -> Entry {
        let [ports_from, ports_to, vlan, last] = quarters(words[4]);
        let [even_flags, odd_flags, all_flags, first_flags] = quarters(words[14]);
        let [protocol, flags] = last.to_ne_bytes();
        let (epoch, place) = (halves(words[12]), halves(words[13]));
        Entry {
            address: [words[0], words[1], words[2], words[3]],
            ports: [u16::from_be(ports_from), u16::from_be(ports_to)],
            vlan,
            protocol,
            flags,
            packets: words[5],
            octets: words[6],
            last: words[7],
            ip_octets: words[8],
            first: words[9],
            since: [words[10], words[11]],
            epoch,
            generation: place[0],
            index: place[1],
            epoch_flags: [even_flags, odd_flags],
            all_flags,
            first_flags,
            tos: words[15].to_ne_bytes()[0],
        }
    }
}

/// The two words of 32 bits that a word is made of, in the order of memory.
pub fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

fn quarters(word: u64) -> [u16; 4] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes)
}

/// `struct flow_counts`, of one CPU or of all together: packets and octets of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What the interface received.
    pub received: [u64; 2],
    /// What it sent.
    pub sent: [u64; 2],
    /// Added to entries.
    pub cached: [u64; 2],
    /// Frames that were handed up.
    pub handed_up: [u64; 2],
    /// Frames that carry no IP.
    pub not_ip: [u64; 2],
    /// Lost: the ring was full.
    pub no_room: [u64; 2],
    /// Places that were ever taken.
    pub places: u64,
    /// Entries that went for another flow.
    pub evicted: u64,
    /// Entries that went for a new connection between the same ports.
    pub renewed: u64,
}

impl Counts {
    /// Adds what one CPU counted, by its words.
    pub fn add(&mut self, words: &[u64; COUNTS_WORDS]) {
        let sums = [
            &mut self.received,
            &mut self.sent,
            &mut self.cached,
            &mut self.handed_up,
            &mut self.not_ip,
            &mut self.no_room,
        ];
        for (sum, pair) in sums.into_iter().zip(words.chunks_exact(2)) {
            sum[0] += pair[0];
            sum[1] += pair[1];
        }
        self.places += words[12];
        self.evicted += words[13];
        self.renewed += words[14];
    }
}
