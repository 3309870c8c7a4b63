use super::*;
use proptest::prelude::*;
use ringside_core::LinkType;
use std::collections::BTreeMap;

const SOUGHT: Sought = Sought { outer: 8, inner: 0 };
/// Bytes that are kept for a pattern of that length.
const KEPT: usize = 7;

/// A TCP segment from 10.0.0.1 to 10.0.0.2 or back.
#[derive(Clone, Debug)]
struct Packet {
    port: u16,
    is_back: bool,
    sequence: u32,
    flags: u16,
    payload: Vec<u8>,
    /// Bytes at the end that were on the wire and are not here.
    missing: u32,
}

impl Packet {
    fn new(sequence: u32, payload: &[u8]) -> Packet {
        let payload = payload.to_vec();
        Packet { port: 1024, is_back: false, sequence, flags: Tcp::ACK, payload, missing: 0 }
    }

    fn with(self, flags: u16) -> Packet {
        Packet { flags, ..self }
    }

    fn back(self) -> Packet {
        Packet { is_back: true, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
        out.extend((40 + self.payload.len() as u16 + self.missing as u16).to_be_bytes());
        let (from, to) = if self.is_back { (2, 1) } else { (1, 2) };
        out.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        let ports = if self.is_back { [80, self.port] } else { [self.port, 80] };
        ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
        out.extend(self.sequence.to_be_bytes());
        out.extend([0, 0, 0, 0, 0x50, self.flags as u8, 0, 0, 0, 0, 0, 0]);
        out.extend(&self.payload);
        out
    }
}

/// What lay before the border, and whether another flow was given up.
fn take_in(streams: &mut Streams, packet: &Packet) -> (Vec<u8>, bool) {
    let bytes = packet.bytes();
    let dissected =
        DissectedFrame::new(&bytes, bytes.len() as u32 + packet.missing, LinkType::ETHERNET);
    let mut seams = Seams::default();
    let gave_up = streams.take_in(&dissected, Level::Outer, &mut seams);
    (seams.at(Level::Outer).before().to_vec(), gave_up)
}

fn seen(packets: &[Packet]) -> Vec<Vec<u8>> {
    let mut streams = Streams::new(SOUGHT).unwrap();
    packets.iter().map(|packet| take_in(&mut streams, packet).0).collect()
}

#[test]
fn segments_in_order_continue_each_direction() {
    for first in [5, u32::MAX - 2] {
        let at = |more: u32| first.wrapping_add(more);
        let packets = [
            Packet::new(at(0), b"abc"),
            Packet::new(900, b"12").back(),
            Packet::new(at(3), b"defghijkl"),
            Packet::new(902, b"34").back(),
            Packet::new(at(12), b"m"),
            Packet { port: 1025, ..Packet::new(at(13), b"another flow") },
            Packet::new(at(13), b"n"),
        ];
        let expected: [&[u8]; 7] = [b"", b"", b"abc", b"12", b"fghijkl", b"", b"ghijklm"];
        assert_eq!(seen(&packets), expected);
    }
}

#[test]
fn what_is_repeated_or_late_is_looked_at_alone_and_changes_nothing() {
    let packets = [
        Packet::new(100, b"abcd"),
        Packet::new(100, b"abcd"),
        Packet::new(102, b"cd"),
        Packet::new(50, b"late"),
        // The first two bytes again, two new ones.
        Packet::new(102, b"cdef"),
        Packet::new(106, b"gh"),
    ];
    let expected: [&[u8]; 6] = [b"", b"", b"", b"", b"abcd", b"abcdef"];
    assert_eq!(seen(&packets), expected);
}

#[test]
fn behind_a_gap_a_direction_begins_anew() {
    let packets = [
        Packet::new(100, b"abcd"),
        Packet::new(105, b"fg"),
        // What was missing comes late.
        Packet::new(104, b"e"),
        Packet::new(107, b"h"),
        // Far ahead, and where the flow really is, which is far behind then.
        Packet::new(0x4000_0000, b"xx"),
        Packet::new(108, b"ij"),
        Packet::new(110, b"kl"),
    ];
    let expected: [&[u8]; 7] = [b"", b"", b"", b"fg", b"", b"", b"ij"];
    assert_eq!(seen(&packets), expected);
}

#[test]
fn a_syn_begins_anew_and_takes_a_number() {
    let packets = [
        Packet::new(100, b"abcd"),
        Packet::new(900, b"12").back(),
        // The other side's alone.
        Packet::new(901, b"").back().with(Tcp::SYN | Tcp::ACK),
        Packet::new(104, b"ef"),
        Packet::new(902, b"34").back(),
        Packet::new(105, b"").with(Tcp::SYN),
        Packet::new(106, b"gh"),
        Packet::new(904, b"56").back(),
        // With a payload: what follows the SYN.
        Packet::new(300, b"open").with(Tcp::SYN),
        Packet::new(305, b"more"),
    ];
    let expected: [&[u8]; 10] = [b"", b"", b"", b"abcd", b"", b"", b"", b"", b"", b"open"];
    assert_eq!(seen(&packets), expected);
}

#[test]
fn behind_a_segment_that_was_cut_nothing_is_known() {
    let cut = Packet { missing: 10, ..Packet::new(104, b"ef") };
    let packets =
        [Packet::new(100, b"abcd"), cut, Packet::new(106, b"gh"), Packet::new(108, b"ij")];
    let expected: [&[u8]; 4] = [b"", b"abcd", b"", b"gh"];
    assert_eq!(seen(&packets), expected);
}

#[test]
fn nothing_is_followed_where_nothing_can_lie_across() {
    for outer in [0, 1] {
        assert!(Streams::new(Sought { outer, inner: 0 }).is_none());
    }
    let room = |outer| Streams::new(Sought { outer, inner: 2 }).unwrap().flows_max();
    assert_eq!((room(2), room(129), room(130), room(1024)), (65_536, 65_536, 32_768, 8_192));
}

/// One more flow takes an old one's place, and what is there belongs to one flow alone.
#[test]
fn flows_are_bounded_and_none_gets_what_another_had() {
    // Of the longest patterns few flows are followed.
    let mut streams = Streams::new(Sought { outer: 1024, inner: 0 }).unwrap();
    let flows = 3 * streams.flows_max() as u16;
    let mut given_up = 0;
    for port in 0..flows {
        let name = port.to_be_bytes();
        let (before, gave_up) = take_in(&mut streams, &Packet { port, ..Packet::new(7, &name) });
        assert_eq!(before, b"");
        given_up += usize::from(gave_up);
        let next = Packet { port, ..Packet::new(9, b"x") };
        assert_eq!(take_in(&mut streams, &next), (name.to_vec(), false));
    }
    assert!(given_up >= usize::from(flows) - streams.flows_max(), "{given_up}");
}

#[test]
fn flows_that_are_over_make_room_and_syns_take_none() {
    let mut streams = Streams::new(Sought { outer: 1024, inner: 0 }).unwrap();
    let port = |packet: Packet, port: u16| Packet { port, ..packet };
    for number in 0..40_000 {
        let data = take_in(&mut streams, &port(Packet::new(1, b"abc"), number));
        let end = take_in(&mut streams, &port(Packet::new(4, b"").with(Tcp::FIN), number));
        assert!(!data.1 && !end.1, "{number}: a flow that is over is not given up");
    }
    assert!(!take_in(&mut streams, &port(Packet::new(1, b"kept"), 50_000)).1);
    for number in 0..40_000 {
        take_in(&mut streams, &port(Packet::new(1, b"").with(Tcp::SYN), number));
    }
    assert_eq!(take_in(&mut streams, &port(Packet::new(5, b"!"), 50_000)).0, b"kept");
}

/// A reference of another kind: of each direction all bytes since it began anew.
#[derive(Default)]
struct Model(BTreeMap<(u16, bool), (i64, Vec<u8>)>);

impl Model {
    fn take_in(&mut self, packet: &Packet) -> Vec<u8> {
        let Packet { port, is_back, sequence, flags, ref payload, missing } = *packet;
        let is_syn = flags & Tcp::SYN != 0;
        if is_syn {
            self.0.remove(&(port, is_back));
            if flags & Tcp::ACK == 0 {
                self.0.remove(&(port, !is_back));
            }
        }
        if payload.is_empty() {
            return Vec::new();
        }
        let first = i64::from(sequence.wrapping_add(is_syn.into()));
        let (end, run) = self.0.entry((port, is_back)).or_insert((first, Vec::new()));
        // The nearest number that means the same.
        let turn = 1i64 << 32;
        let first = (-1..=1).map(|n| first + n * turn).min_by_key(|at| (at - *end).abs()).unwrap();
        let length = payload.len() as i64;
        let mut before = Vec::new();
        if first <= *end && first + length > *end {
            before = run[run.len().saturating_sub(KEPT)..].to_vec();
            run.extend(&payload[(*end - first) as usize..]);
        } else if first <= *end && *end - first <= 65_535 {
            return Vec::new();
        } else {
            run.clone_from(payload);
        }
        *end = (first + length) & (turn - 1);
        if missing > 0 {
            self.0.remove(&(port, is_back));
        }
        before
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    // Around a place near where numbers begin again, and anywhere.
    let sequence = prop_oneof![
        8 => (0u32..60).prop_map(|at| at.wrapping_sub(30)),
        1 => any::<u32>(),
        1 => (0u32..80_000).prop_map(|at| at.wrapping_sub(70_000)),
    ];
    let flags = prop::sample::select(vec![
        Tcp::ACK,
        Tcp::ACK,
        Tcp::ACK,
        Tcp::ACK,
        Tcp::SYN,
        Tcp::SYN | Tcp::ACK,
        Tcp::FIN,
        Tcp::RST,
    ]);
    let payload = prop::collection::vec(any::<u8>(), 0..20);
    let missing = prop::sample::select(vec![0, 0, 0, 0, 0, 9]);
    (0u16..2, any::<bool>(), sequence, flags, payload, missing).prop_map(
        |(port, is_back, sequence, flags, payload, missing)| {
            let port = 1024 + port;
            Packet { port, is_back, sequence, flags, payload, missing }
        },
    )
}

proptest! {
    #[test]
    fn any_segments_match_the_reference(packets in prop::collection::vec(packet(), 1..80)) {
        let mut streams = Streams::new(SOUGHT).unwrap();
        let mut model = Model::default();
        for packet in &packets {
            let (before, gave_up) = take_in(&mut streams, packet);
            prop_assert_eq!(before, model.take_in(packet), "{:?}", packet);
            prop_assert!(!gave_up);
        }
    }
}
