//! The Rust side of what `bpf/xdp_rtp.bpf.c` shares, in `bpf/abi_rtp.h`, read by whole words.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Endpoints of one set of the table (RTP_WAYS).
pub(super) const WAYS: usize = 16;
/// Of an entry of a set: bits of the hash (RTP_TAG_MASK).
pub(super) const TAG_MASK: u32 = 0xfffe_0000;
/// Streams of a rule (RTP_STREAMS).
pub const STREAMS: usize = 2;
/// Payload types, each with its kind.
pub const PAYLOAD_TYPES: usize = 128;
/// Kinds of packets; they are numbered by bytes.
pub const KINDS: usize = 256;

/// Words of `struct rtp_rule`, and where its parts are.
pub(super) const RULE_WORDS: usize = 128;
pub(super) const RULE_LOCK: usize = 0;
pub(super) const RULE_END: usize = 1;
pub(super) const RULE_STREAMS: usize = 4;
pub(super) const RULE_KINDS: usize = RULE_STREAMS + STREAMS * STREAM_WORDS;
/// Words of `struct rtp_stream`.
pub(super) const STREAM_WORDS: usize = 53;
/// Words of `struct rtp_counts`.
pub(super) const COUNTS_WORDS: usize = 8;
/// Words of `struct rtp_control`.
pub(super) const CONTROL_WORDS: usize = 2;
pub(super) const CONTROL_ALIVE_UNTIL: usize = 0;
pub(super) const CONTROL_TEST_NOW: usize = 1;

/// The rule is free (`enum rtp_lock`).
pub(super) const FREE: u64 = 0;
/// It is user space's, and counts nothing.
pub(super) const CLOSED: u64 = 2;

/// Bits of a stream.
const IS_USED: u32 = 1;
const HAS_NUMBERS: u32 = 2;
const HAS_STRAY: u32 = 4;
const HAS_LAST: u32 = 8;
const FOLLOWS_NOISE: u32 = 16;
const HAS_JITTER: u32 = 32;
const HAS_ORIGIN: u32 = 64;

/// Of an endpoint's port: its address is IPv6 (RTP_END_V6).
const END_V6: u64 = 0x1_0000;

/// `struct rtp_config`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Config {
    pub seed: u64,
    pub sets: u32,
    pub position: u32,
    pub metadata: u32,
    pub is_test: bool,
}

impl Config {
    /// The bytes as the C program reads them.
    pub fn to_bytes(self) -> Vec<u8> {
        let is_weakly_ordered = (!cfg!(target_arch = "x86_64")).into();
        let words =
            [self.sets, self.position, self.metadata, is_weakly_ordered, self.is_test.into(), 0];
        let rest = words.into_iter().flat_map(u32::to_ne_bytes);
        self.seed.to_ne_bytes().into_iter().chain(rest).collect()
    }
}

/// An address and a port.
pub type End = (IpAddr, u16);

/// `struct rtp_end`.
pub(super) fn end_words((address, port): End) -> [u64; 3] {
    match address {
        IpAddr::V4(address) => [u32::from_ne_bytes(address.octets()).into(), 0, port.into()],
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h, rest @ ..] = address.octets();
            let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
            [first, u64::from_ne_bytes(rest), u64::from(port) | END_V6]
        }
    }
}

fn end_of(&[first, second, port]: &[u64; 3]) -> End {
    let address = if port & END_V6 == 0 {
        IpAddr::V4(Ipv4Addr::from((first as u32).to_ne_bytes()))
    } else {
        let both = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(both).unwrap_or_default()))
    };
    (address, port as u16)
}

/// `struct rtp_spread`: least, greatest and sum of a number of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpreadWords {
    /// Values.
    pub count: u64,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// All together.
    pub sum: i64,
}

/// `struct rtp_stream`: a stream as the program left it. Its fields are those of the statistics
/// that user space makes; times are of the program's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs)] // the same names as in crates/calls/src/rtp, where they are explained
pub struct StreamState {
    pub source: End,
    pub destination: End,
    pub ssrc: u32,
    pub first_ns: u64,
    pub last_ns: u64,
    pub payload_type: u8,
    /// The kind of its last packet of media.
    pub kind: u8,
    pub packets: u64,
    pub payload_bytes: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    pub stray: u64,
    pub restarts: u64,
    pub malformed: u64,
    /// First and highest number, what was seen and discarded below, what would end a stray packet,
    /// what was expected before. None if no packet had a number.
    pub sequence: Option<SequenceState>,
    pub bursts: [u64; 10],
    pub fastest: [i64; 2],
    pub span_begun_ns: u64,
    pub origin: Option<(u64, u32)>,
    pub deltas: SpreadWords,
    pub jitters: SpreadWords,
    pub skew_max_ns: i64,
    pub last: Option<(u64, u32)>,
    pub follows_noise: bool,
    pub jitter_16: u64,
    pub has_jitter: bool,
    pub arrival_ns: i64,
    pub nominal_ns: i64,
}

/// The numbers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs)] // as above
pub struct SequenceState {
    pub first: u64,
    pub highest: u64,
    pub seen: u128,
    pub discarded: u128,
    pub next_of_stray: Option<u16>,
    pub expected_before: u64,
}

impl StreamState {
    /// A stream by its words; `None` if there is none.
    pub(super) fn of(words: &[u64; STREAM_WORDS]) -> Option<StreamState> {
        let [s0, s1, s2, d0, d1, d2, w6, w7, w8, rest @ ..] = words;
        let [[ssrc, flags], [payload_type, kind], [timed, origin]] =
            [w6, w7, w8].map(|word| halves(*word));
        let [last_ns, packets, payload_bytes, first, highest, rest @ ..] = rest;
        let [seen0, seen1, gone0, gone1, fates, played, rest @ ..] = rest;
        let [fast0, fast1, span_begun_ns, origin_ns, rest @ ..] = rest;
        let [dc, dl, dg, ds, jc, jl, jg, js, rest @ ..] = rest;
        let [skew, timed_ns, jitter_16, arrival, nominal, rest @ ..] = rest;
        let [first_ns, next_of_stray, duplicates, out_of_order, stray, rest @ ..] = rest;
        let [restarts, malformed, expected_before, rest @ ..] = rest;
        let [lost, discards, bursts, burst_packets, burst_losses, runs, rest @ ..] = rest;
        let [open_packets, open_losses] = rest;
        let has = |bit: u32| flags & bit != 0;
        let wide = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
        has(IS_USED).then(|| StreamState {
            source: end_of(&[*s0, *s1, *s2]),
            destination: end_of(&[*d0, *d1, *d2]),
            ssrc,
            first_ns: *first_ns,
            last_ns: *last_ns,
            payload_type: payload_type as u8,
            kind: kind as u8,
            packets: *packets,
            payload_bytes: *payload_bytes,
            duplicates: *duplicates,
            out_of_order: *out_of_order,
            stray: *stray,
            restarts: *restarts,
            malformed: *malformed,
            sequence: has(HAS_NUMBERS).then(|| SequenceState {
                first: *first,
                highest: *highest,
                seen: wide(*seen0, *seen1),
                discarded: wide(*gone0, *gone1),
                next_of_stray: has(HAS_STRAY).then_some(*next_of_stray as u16),
                expected_before: *expected_before,
            }),
            bursts: [
                fates,
                lost,
                discards,
                bursts,
                burst_packets,
                burst_losses,
                runs,
                open_packets,
                open_losses,
                played,
            ]
            .map(|word| *word),
            fastest: [*fast0 as i64, *fast1 as i64],
            span_begun_ns: *span_begun_ns,
            origin: has(HAS_ORIGIN).then_some((*origin_ns, origin)),
            deltas: spread([dc, dl, dg, ds]),
            jitters: spread([jc, jl, jg, js]),
            skew_max_ns: *skew as i64,
            last: has(HAS_LAST).then_some((*timed_ns, timed)),
            follows_noise: has(FOLLOWS_NOISE),
            jitter_16: *jitter_16,
            has_jitter: has(HAS_JITTER),
            arrival_ns: *arrival as i64,
            nominal_ns: *nominal as i64,
        })
    }

    /// The same by a clock that is so much behind.
    pub fn earlier_by(mut self, ns: u64) -> StreamState {
        let back = |time: u64| time.wrapping_sub(ns);
        (self.first_ns, self.last_ns) = (back(self.first_ns), back(self.last_ns));
        if self.span_begun_ns > 0 {
            self.span_begun_ns = back(self.span_begun_ns);
        }
        self.origin = self.origin.map(|(time, units)| (back(time), units));
        self.last = self.last.map(|(time, units)| (back(time), units));
        self
    }

    /// Frames that it is made of.
    pub fn frames(&self) -> u64 {
        self.packets + self.malformed
    }
}

fn spread([count, min, max, sum]: [&u64; 4]) -> SpreadWords {
    let [min, max, sum] = [min, max, sum].map(|word| *word as i64);
    SpreadWords { count: *count, min, max, sum }
}

fn halves(word: u64) -> [u32; 2] {
    crate::flows::abi::halves(word)
}

/// `struct rtp_counts` of all CPUs: what became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Counted as media, and discarded. All others went on.
    pub counted: u64,
    /// No RTP at an endpoint that has a rule.
    pub other: u64,
    /// Of streams beyond those that a rule has room for.
    pub no_room: u64,
    /// Another CPU had the rule for too long.
    pub busy: u64,
    /// No process read the counters any more.
    pub stalled: u64,
}

impl Counts {
    /// Adds what one CPU counted, by its words.
    pub(super) fn add(&mut self, words: &[u64; COUNTS_WORDS]) {
        let [counted, other, no_room, busy, stalled, ..] = *words;
        self.counted += counted;
        self.other += other;
        self.no_room += no_room;
        self.busy += busy;
        self.stalled += stalled;
    }

    /// Frames that went on, to captures and to the host.
    pub fn passed(&self) -> u64 {
        self.other + self.no_room + self.busy + self.stalled
    }
}
