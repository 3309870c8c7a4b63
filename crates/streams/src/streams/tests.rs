use super::*;
use crate::Overlap;
use proptest::prelude::*;
use ringside_core::InterfaceId;
use ringside_inspect::key::Around;
use ringside_wire::IpProtocol;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// What a handler got, data in one piece until something else comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Data(bool, Vec<u8>),
    Gap(bool, u32, Cause),
    Fin(bool),
    Closed(Closing),
}

#[derive(Default)]
struct Log {
    said: Vec<Said>,
    stamps: Vec<u64>,
}

impl Handler for Log {
    type Kept = u32;

    fn event(&mut self, at: &At<'_>, kept: &mut u32, event: Event<'_>) {
        *kept += 1;
        let is_back = at.from_high != at.initiator_high;
        self.stamps.push(at.stamp.0);
        match (event, self.said.last_mut()) {
            (Event::Data(more), Some(Said::Data(way, bytes))) if *way == is_back => {
                bytes.extend(more);
            }
            (Event::Data(bytes), _) => self.said.push(Said::Data(is_back, bytes.to_vec())),
            (Event::Gap { bytes, cause }, _) => self.said.push(Said::Gap(is_back, bytes, cause)),
            (Event::Fin, _) => self.said.push(Said::Fin(is_back)),
            (Event::Closed(why), _) => self.said.push(Said::Closed(why)),
        }
    }
}

fn segment(sequence: u32, payload: &[u8]) -> Segment<'_> {
    of_port(40_000, sequence, payload)
}

fn of_port(port: u16, sequence: u32, payload: &[u8]) -> Segment<'_> {
    let interface = InterfaceId(0);
    let around = Around { protocol: IpProtocol::TCP, vlan: None, tunnel: None, interface };
    let ends = (("10.0.0.9".parse().unwrap(), port), ("10.0.0.1".parse().unwrap(), 80));
    let (key, from_high) = Key::new(ends.0, ends.1, &around, false);
    Segment {
        key,
        from_high,
        stamp: Timestamp(SECOND),
        sequence,
        acknowledgment: None,
        flags: 0,
        window: 65_535,
        window_scale: None,
        payload,
        payload_bytes: payload.len() as u32,
    }
}

fn back(segment: Segment<'_>) -> Segment<'_> {
    Segment { from_high: !segment.from_high, ..segment }
}

fn with(segment: Segment<'_>, flags: u16) -> Segment<'_> {
    Segment { flags, ..segment }
}

fn acked(segment: Segment<'_>, number: u32) -> Segment<'_> {
    Segment { acknowledgment: Some(number), flags: segment.flags | Tcp::ACK, ..segment }
}

fn at(segment: Segment<'_>, ns: u64) -> Segment<'_> {
    Segment { stamp: Timestamp(ns), ..segment }
}

fn run(limits: Limits, segments: &[Segment<'_>]) -> (Vec<Said>, StreamLedger) {
    let mut streams = Streams::new(limits);
    let mut log = Log::default();
    for segment in segments {
        streams.take_in(segment, &mut log);
        assert!(streams.ledger().balances(), "{:?}", streams.ledger());
    }
    streams.finish(&mut log);
    let ledger = streams.ledger().clone();
    assert!(ledger.balances() && ledger.held_bytes == 0, "{ledger:?}");
    assert!(streams.held_memory() == 0 && streams.shared.waiting.is_empty());
    (log.said, ledger)
}

fn said(segments: &[Segment<'_>]) -> Vec<Said> {
    run(Limits::default(), segments).0
}

fn data(text: &str) -> Said {
    Said::Data(false, text.into())
}

const FORCED: Said = Said::Closed(Closing::Forced);
const BEFORE: Said = Said::Gap(false, 0, Cause::BeforeCapture);

#[test]
fn a_connection_from_its_syn_to_its_end() {
    for isn in [7, u32::MAX - 3] {
        let n = |more: u32| isn.wrapping_add(more);
        let segments = [
            with(segment(isn, b""), Tcp::SYN),
            acked(with(back(segment(900, b"")), Tcp::SYN), n(1)),
            acked(segment(n(1), b""), 901),
            acked(segment(n(1), b"hello "), 901),
            // Ahead, again, overlapping, and a keep-alive.
            segment(n(12), b"!"),
            segment(n(1), b"hello "),
            segment(n(3), b"llo wo"),
            segment(n(6), b"x"),
            segment(n(9), b"rld"),
            acked(back(segment(901, b"yes")), n(13)),
            acked(with(segment(n(13), b""), Tcp::FIN), 904),
            acked(with(back(segment(904, b"")), Tcp::FIN), n(14)),
            // What comes later is not another connection.
            acked(segment(n(14), b""), 905),
            back(segment(901, b"yes")),
        ];
        let yes = Said::Data(true, b"yes".to_vec());
        let ends = [Said::Fin(false), Said::Fin(true), Said::Closed(Closing::Fin)];
        let expected: Vec<_> = [data("hello world!"), yes].into_iter().chain(ends).collect();
        let (said, ledger) = run(Limits::default(), &segments);
        assert_eq!(said, expected);
        assert_eq!((ledger.connections, ledger.after_end_bytes), (1, 3));
    }
}

#[test]
fn what_began_before_the_capture_says_so() {
    let mid = segment(500, b"middle");
    assert_eq!(said(&[mid]), [BEFORE, data("middle"), FORCED]);
    // Its SYN comes late; then another connection between the same ports.
    let segments = [mid, with(segment(499, b""), Tcp::SYN), segment(506, b"!")];
    assert_eq!(said(&segments), [BEFORE, data("middle!"), FORCED]);
    let another = [mid, with(segment(99_999, b""), Tcp::SYN), segment(100_000, b"new")];
    let reused = Said::Closed(Closing::Reused);
    assert_eq!(said(&another), [BEFORE, data("middle"), reused, data("new"), FORCED]);
}

#[test]
fn a_syn_tells_the_first_byte_of_both_sides() {
    // The first segment of each side is lost, and the client's SYN too.
    let segments = [
        acked(with(back(segment(900, b"")), Tcp::SYN), 101),
        segment(104, b"def"),
        back(segment(904, b"456")),
    ];
    let gap = |way| Said::Gap(way, 3, Cause::Ended);
    let back = Said::Data(true, b"456".to_vec());
    assert_eq!(said(&segments), [gap(false), data("def"), gap(true), back, FORCED]);
}

#[test]
fn a_payload_in_a_syn_follows_it() {
    let segments = [with(segment(100, b"early"), Tcp::SYN), segment(106, b" data")];
    assert_eq!(said(&segments), [data("early data"), FORCED]);
}

#[test]
fn what_the_receiver_has_is_not_waited_for_for_long() {
    let limits = Limits::default();
    let (mut streams, mut log) = (Streams::new(limits), Log::default());
    let ack = back(segment(0, b""));
    for segment in [
        with(segment(99, b""), Tcp::SYN),
        segment(100, b"abc"),
        segment(106, b"ghi"),
        at(acked(ack, 109), 2 * SECOND),
    ] {
        streams.take_in(&segment, &mut log);
    }
    streams.tick(Timestamp(2 * SECOND + 200_000_000), &mut log);
    assert_eq!(log.said, [data("abc")]);
    // However late the tick is, the gap has the time at which it was due.
    streams.tick(Timestamp(9 * SECOND), &mut log);
    let expected = [data("abc"), Said::Gap(false, 3, Cause::Lost), data("ghi")];
    assert_eq!(log.said, expected);
    assert_eq!(log.stamps, [SECOND, 2 * SECOND + 250_000_000, SECOND]);
    // What is never acknowledged is waited for in vain.
    let more = at(segment(112, b"mno"), 9 * SECOND);
    streams.take_in(&more, &mut log);
    streams.tick(Timestamp(12 * SECOND), &mut log);
    assert_eq!(log.said[3..], [Said::Gap(false, 3, Cause::WaitedFor), data("mno")]);
    streams.tick(Timestamp(310 * SECOND), &mut log);
    assert_eq!(log.said[5..], [Said::Closed(Closing::Idle)]);
    assert_eq!((log.stamps[5], streams.connections()), (309 * SECOND, 0));
}

#[test]
fn limits_end_the_wait() {
    let limits = Limits { side_bytes: 300, held_bytes: 400, ..Limits::default() };
    let long = [b'x'; 150];
    let segments = [segment(100, b"a"), segment(102, &long), segment(300, &long)];
    let (said, _) = run(limits, &segments);
    let full = Said::Gap(false, 1, Cause::SideFull);
    assert_eq!(said[2], full);
    assert_eq!(said[4], Said::Gap(false, 48, Cause::Ended));
    // Of three directions that wait, the oldest gives up.
    let long = [b'x'; 90];
    let of = |port, sequence, payload| of_port(port, sequence, payload);
    let mut segments = Vec::new();
    for port in 1..=3 {
        segments.extend([of(port, 100, b"a".as_slice()), of(port, 102, long.as_slice())]);
    }
    let (said, _) = run(limits, &segments);
    let gaps = said.iter().filter(|said| matches!(said, Said::Gap(_, 1, Cause::HeldFull)));
    assert_eq!(gaps.count(), 1);
    // Without waiting there is a gap at once.
    let limits = Limits { wait: Duration::ZERO, ..limits };
    let (said, ledger) = run(limits, &[segment(100, b"a"), segment(102, b"c"), segment(101, b"b")]);
    let gap = Said::Gap(false, 1, Cause::NotWaitedFor);
    assert_eq!(said, [BEFORE, data("a"), gap, data("c"), FORCED]);
    assert_eq!(ledger.repeated_bytes, 1, "what came too late");
    // Behind a body of 3 GB that was left out, which is no step back.
    let far = 101_u32.wrapping_add(3_000_000_000);
    let (said, ledger) = run(limits, &[segment(100, b"a"), segment(far, b"z")]);
    let gap = Said::Gap(false, 3_000_000_000, Cause::NotWaitedFor);
    assert_eq!(said, [BEFORE, data("a"), gap, data("z"), FORCED]);
    assert_eq!(ledger.repeated_bytes, 0);
}

#[test]
fn a_large_segment_behind_small_ones_does_not_exceed_the_limit() {
    let limits = Limits { side_bytes: 300, ..Limits::default() };
    let (mut streams, mut log) = (Streams::new(limits), Log::default());
    let long = [b'x'; 200];
    let small = [100, 102, 104, 106, 108].map(|sequence| segment(sequence, b"a"));
    for segment in small.into_iter().chain([segment(200, &long)]) {
        streams.take_in(&segment, &mut log);
        let held = streams.held_memory();
        assert!(held <= limits.side_bytes, "{held} bytes are held of one direction");
    }
}

#[test]
fn which_of_two_versions_counts_is_chosen() {
    let segments =
        [segment(100, b"a"), segment(104, b"EFGH"), segment(102, b"cdef"), segment(106, b"ghij")];
    let fill = segment(101, b"b");
    for (overlap, expected) in [
        (Overlap::First, "abcdEFGHij"),
        (Overlap::Leftmost, "abcdefGHij"),
        (Overlap::Last, "abcdefghij"),
    ] {
        let limits = Limits { overlap, ..Limits::default() };
        let all: Vec<_> = segments.into_iter().chain([fill]).collect();
        let (said, ledger) = run(limits, &all);
        assert_eq!(said, [BEFORE, data(expected), FORCED], "{overlap:?}");
        assert_eq!((ledger.conflicting_bytes, ledger.repeated_bytes), (4, 4));
    }
}

#[test]
fn frames_that_were_cut_leave_gaps() {
    let cut = Segment { payload_bytes: 10, ..segment(100, b"abcd") };
    let gap = Said::Gap(false, 6, Cause::Cut);
    let expected = [BEFORE, data("abcd"), gap, data("k"), FORCED];
    assert_eq!(said(&[cut, segment(110, b"k")]), expected);
    // The same while it waits.
    let start = segment(99, b"");
    let segments = [with(Segment { sequence: 98, ..start }, Tcp::SYN), cut, segment(110, b"k")];
    let late = [segments[0], segments[1], segments[2], segment(99, b"Z")];
    let gap = Said::Gap(false, 6, Cause::Cut);
    assert_eq!(said(&late), [data("Zabcd"), gap, data("k"), FORCED]);
}

#[test]
fn a_reset_counts_only_where_a_host_takes_it() {
    let start = [with(segment(99, b""), Tcp::SYN), acked(segment(100, b"abc"), 900)];
    let ack = acked(back(segment(900, b"")), 103);
    let wild = with(segment(0x7000_0000, b""), Tcp::RST);
    let right = with(segment(103, b""), Tcp::RST);
    let (said, ledger) = run(Limits::default(), &[start[0], start[1], ack, wild, right]);
    assert_eq!(said, [data("abc"), Said::Closed(Closing::Reset)]);
    assert_eq!(ledger.resets_ignored, 1);
    // Nor is what lies far beyond the window.
    let far = segment(0x7000_0000, b"zzz");
    let (said, ledger) = run(Limits::default(), &[start[0], start[1], ack, far]);
    assert_eq!(said, [data("abc"), FORCED]);
    assert_eq!(ledger.out_of_window_bytes, 3);
    // Nor an end there.
    let end = with(segment(0x7000_0000, b""), Tcp::FIN);
    let (said, _) = run(Limits::default(), &[start[0], start[1], ack, end, segment(103, b"def")]);
    assert_eq!(said, [data("abcdef"), FORCED]);
}

/// A million connections that are half open, then as many that send a byte which has to wait.
#[test]
fn a_million_connections_stay_within_the_memory_that_was_said() {
    let count = 1_000_000;
    let limits = Limits::default();
    let (mut streams, mut log) = (Streams::<u32>::new(limits), Log::default());
    let make = |index: u32, sequence, payload| {
        let mut segment = of_port(index as u16, sequence, payload);
        let interface = InterfaceId(index >> 16);
        let around = Around { protocol: IpProtocol::TCP, vlan: None, tunnel: None, interface };
        (segment.key, segment.from_high) =
            Key::new(segment.key.high(), segment.key.low(), &around, false);
        segment
    };
    for index in 0..count {
        streams.take_in(&with(make(index, 10, b""), Tcp::SYN), &mut log);
    }
    assert_eq!(streams.connections(), 0, "a flood of SYNs drives nothing out");
    assert_eq!(streams.ledger().opening_displaced, u64::from(count) - OPENING_MAX as u64);
    for index in 0..count {
        streams.take_in(&with(make(index, 10, b""), Tcp::SYN), &mut log);
        streams.take_in(&make(index, 12, b"x"), &mut log);
        log.said.clear();
        log.stamps.clear();
    }
    let displaced = u64::from(count) - limits.connections as u64;
    assert_eq!(
        (streams.connections(), streams.ledger().displaced),
        (limits.connections, displaced)
    );
    assert!(streams.held_memory() <= limits.held_bytes);
    assert!(Streams::<u64>::table_bytes(&limits) <= 80 << 20);
    assert!(streams.ledger().balances());
    streams.finish(&mut log);
    assert_eq!((streams.held_memory(), streams.shared.waiting.len()), (0, 0));
}

/// A stream of one direction as it was sent, and what became of its parts on the way.
#[derive(Clone, Debug)]
struct Journey {
    isn: u32,
    bytes: Vec<u8>,
    has_fin: bool,
    /// Ranges that arrive, in the order in which they do.
    arrivals: Vec<(usize, usize)>,
}

fn journey() -> impl Strategy<Value = Journey> {
    let bytes = prop::collection::vec(any::<u8>(), 1..300);
    let isn = prop_oneof![any::<u32>(), Just(u32::MAX - 100)];
    (bytes, isn, any::<bool>()).prop_flat_map(|(bytes, isn, has_fin)| {
        let length = bytes.len();
        let range = (0..length).prop_flat_map(move |from| (Just(from), from + 1..=length));
        let arrivals = prop::collection::vec(range, 1..40);
        arrivals.prop_map(move |arrivals| Journey { isn, bytes: bytes.clone(), has_fin, arrivals })
    })
}

impl Journey {
    /// What a simple model makes of it: which bytes came at all.
    fn expected(&self) -> Vec<Said> {
        let mut came = vec![false; self.bytes.len()];
        self.arrivals.iter().for_each(|&(from, to)| came[from..to].fill(true));
        let last = came.iter().rposition(|came| *came).map_or(0, |last| last + 1);
        let end = if self.has_fin { self.bytes.len() } else { last };
        let mut said = Vec::new();
        for run in came[..end].chunk_by(|one, other| one == other) {
            let at = said.iter().map(|said| match said {
                Said::Data(_, bytes) => bytes.len(),
                Said::Gap(_, bytes, _) => *bytes as usize,
                _ => 0,
            });
            let at: usize = at.sum();
            said.push(match run[0] {
                true => Said::Data(false, self.bytes[at..at + run.len()].to_vec()),
                false => Said::Gap(false, run.len() as u32, Cause::Ended),
            });
        }
        said.extend(self.has_fin.then_some(Said::Fin(false)));
        said.push(FORCED);
        said
    }

    fn said(&self, with_ticks: bool) -> Vec<Said> {
        let (mut streams, mut log) = (Streams::new(Limits::default()), Log::default());
        let first = self.isn.wrapping_add(1);
        streams.take_in(&with(segment(self.isn, b""), Tcp::SYN), &mut log);
        let fin = first.wrapping_add(self.bytes.len() as u32);
        for (index, &(from, to)) in self.arrivals.iter().enumerate() {
            let sequence = first.wrapping_add(from as u32);
            let stamp = SECOND + index as u64 * 1_000_000;
            streams.take_in(&at(segment(sequence, &self.bytes[from..to]), stamp), &mut log);
            assert!(streams.ledger().balances());
            if with_ticks {
                streams.tick(Timestamp(stamp), &mut log);
            }
            // The FIN comes in the middle of it.
            if self.has_fin && index == self.arrivals.len() / 2 {
                streams.take_in(&with(at(segment(fin, b""), stamp), Tcp::FIN), &mut log);
            }
        }
        streams.finish(&mut log);
        log.said
    }
}

proptest! {
    #[test]
    fn events_depend_on_what_came_and_not_on_how(journey in journey()) {
        let expected = journey.expected();
        prop_assert_eq!(&journey.said(false), &expected);
        prop_assert_eq!(&journey.said(true), &expected);
    }
}
