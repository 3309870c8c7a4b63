//! The Rust side of what rules share with `bpf/xdp_rules.bpf.c`, in `bpf/abi.h`. Integers are in
//! host byte order; what lies in arrays is written by whole words, since the program reads it.

/// What becomes of a frame (`enum rules_fate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To the host.
    Pass = 0,
    /// To the programs behind this one.
    Take = 1,
    /// The frame is dropped.
    Drop = 2,
    /// Out of another interface.
    Interface = 3,
    /// To the host's stack on another CPU.
    Cpu = 4,
    /// No rule has decided.
    None = 5,
}

impl Fate {
    pub(crate) fn of(number: u32) -> Option<Fate> {
        let all = [Fate::Pass, Fate::Take, Fate::Drop, Fate::Interface, Fate::Cpu, Fate::None];
        all.into_iter().find(|fate| *fate as u32 == number)
    }
}

/// Bits of a rule's record above its fate.
pub mod record {
    /// Later rules are asked too.
    pub const CONTINUES: u32 = 1 << 8;
    /// It asks or does what a driver cannot.
    pub const FOREIGN: u32 = 1 << 9;
    /// One frame in N is meant, the others are not.
    pub const SAMPLES: u32 = 1 << 10;
    /// It asks what the tables do not know.
    pub const CHECKS: u32 = 1 << 11;
    /// It sends frames elsewhere.
    pub const TARGETS: u32 = 1 << 12;
    /// In the note next to an exact rule: it is plain, and its fate is in the note.
    pub const NOTE_PLAIN: u64 = 1 << 32;
}

/// What few rules need (`struct rule_extras`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Index of its first check.
    pub checks: u32,
    /// Checks whose answers are those of the flow; they come first.
    pub flow_checks: u16,
    /// Checks whose answers may differ from frame to frame.
    pub frame_checks: u16,
    /// Of a sample; 0: none.
    pub one_in: u32,
    /// Of a redirect: number of the interface or CPU.
    pub target: u32,
}

/// Words of [`Extras`] in their array.
pub const EXTRAS_WORDS: usize = 2;

impl Extras {
    /// As it lies in the array.
    pub fn to_words(&self) -> [u64; EXTRAS_WORDS] {
        let counts = pair16(self.flow_checks, self.frame_checks);
        [pair(self.checks, counts), pair(self.one_in, self.target)]
    }
}

/// Checks of one rule: each may be asked of each frame.
pub const CHECKS_MAX: usize = 24;
/// Spans of one check.
pub const CHECK_SPANS_MAX: usize = 3;
/// Bytes that one check compares.
pub const CHECK_BYTES_MAX: usize = 8;

/// What a check asks about (`enum rule_check_kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Flags of TCP that are set (`number`) and that are not (first of `values`).
    TcpFlags = 1,
    /// The frame's length, in spans.
    Length = 2,
    /// `count` bytes, masked, at `number` behind a base (`place`).
    Bytes = 3,
    /// An identifier of a VLAN tag, in spans.
    Vlan = 4,
    /// A type of the link layer, in spans.
    EtherType = 5,
    /// A label of MPLS, in spans.
    Mpls = 6,
    /// A hardware address of a side (`place`), masked.
    Mac = 7,
    /// An address of a side (`place`) in the set of this `number`.
    Set = 8,
}

/// One question about a frame (`struct rule_check`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What the question is about.
    pub kind: CheckKind,
    /// It holds if the answer is no.
    pub is_negated: bool,
    /// A base: 0 frame, 1 network, 2 transport, 3 payload. A side: 0 either, 1 source,
    /// 2 destination.
    pub place: u8,
    /// Spans, or bytes.
    pub count: u8,
    /// See [`CheckKind`].
    pub number: u32,
    /// Value and mask as they lie; or spans, first and last, of two numbers each.
    pub values: [u64; CHECK_SPANS_MAX],
}

/// Words of a [`Check`] in its array.
pub const CHECK_WORDS: usize = 4;

impl Check {
    /// A check of spans, at most [`CHECK_SPANS_MAX`]; none if there are more.
    pub fn of_spans(kind: CheckKind, spans: &[(u32, u32)]) -> Option<Check> {
        let mut values = [0; CHECK_SPANS_MAX];
        for (at, &(first, last)) in spans.iter().enumerate() {
            *values.get_mut(at)? = pair(first, last);
        }
        let count = spans.len() as u8;
        Some(Check { kind, is_negated: false, place: 0, count, number: 0, values })
    }

    /// As it lies in the array.
    pub fn to_words(&self) -> [u64; CHECK_WORDS] {
        let head =
            u32::from_ne_bytes([self.kind as u8, self.is_negated.into(), self.place, self.count]);
        let [a, b, c] = self.values;
        [pair(head, self.number), a, b, c]
    }
}

/// An address set (`struct rule_set`): where its parts lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetEntry {
    /// First span of IPv4, and how many.
    pub v4: (u32, u32),
    /// The same of IPv6.
    pub v6: (u32, u32),
    /// First word of its Bloom filter, and its words less one.
    pub bloom: (u32, u32),
    /// Which granules it has: bits, from bit 8 on of IPv6.
    pub granules: u32,
}

/// Words of a [`SetEntry`] in its array.
pub const SET_WORDS: usize = 4;

impl SetEntry {
    /// As it lies in the array.
    pub fn to_words(&self) -> [u64; SET_WORDS] {
        let of = |(a, b): (u32, u32)| pair(a, b);
        [of(self.v4), of(self.v6), of(self.bloom), pair(self.granules, 0)]
    }
}

/// Two numbers of 32 bits as a word: the first lies first.
pub fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The two numbers of a word.
pub fn parts(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

fn pair16(first: u16, second: u16) -> u32 {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

/// `struct rules_config`: what the program is loaded with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub position: u32,
    pub metadata: u32,
    pub shares: u32,
    pub is_dry: u32,
    pub reports: u32,
    pub cpus: u32,
    pub slots: u32,
    pub words: u32,
    pub summary: u32,
    pub memory: u32,
    pub sources: u32,
    pub offenders: u32,
    pub extras: u32,
    pub stays: u32,
    pub tokens_per_us: u64,
    pub tokens_max: u64,
}

pub(crate) const CONFIG_BYTES: usize = 72;
/// Where `stays` lies.
const STAYS_AT: usize = 52;

impl Config {
    /// Reads `stays` from the bytes of a program.
    pub fn stays_in(bytes: &[u8]) -> bool {
        bytes.len() == CONFIG_BYTES && bytes[STAYS_AT..][..4] != [0; 4]
    }

    /// The bytes as the program reads them.
    pub fn to_bytes(self) -> [u8; CONFIG_BYTES] {
        let words = [
            self.position,
            self.metadata,
            self.shares,
            self.is_dry,
            self.reports,
            self.cpus,
            self.slots,
            self.words,
            self.summary,
            self.memory,
            self.sources,
            self.offenders,
            self.extras,
            self.stays,
        ];
        let mut bytes = [0; CONFIG_BYTES];
        let (head, tail) = bytes.split_at_mut(4 * words.len());
        for (to, word) in head.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        for (to, word) in tail.chunks_exact_mut(8).zip([self.tokens_per_us, self.tokens_max]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_stay_says_so() {
        for stays in [0, 1] {
            let config = Config {
                position: 1,
                metadata: 2,
                shares: 3,
                is_dry: 4,
                reports: 5,
                cpus: 6,
                slots: 7,
                words: 8,
                summary: 9,
                memory: 10,
                sources: 11,
                offenders: 12,
                extras: 13,
                stays,
                tokens_per_us: 15,
                tokens_max: 16,
            };
            assert_eq!(Config::stays_in(&config.to_bytes()), stays == 1);
        }
        assert!(!Config::stays_in(&[1; CONFIG_BYTES - 1]));
    }

    #[test]
    fn words_lie_as_the_program_reads_them() {
        let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let extras =
            Extras { checks: 1, flow_checks: 2, frame_checks: 3, one_in: 4, target: 5 }.to_words();
        let expected = [
            &1u32.to_ne_bytes()[..],
            &2u16.to_ne_bytes(),
            &3u16.to_ne_bytes(),
            &4u32.to_ne_bytes(),
        ]
        .concat();
        assert_eq!(bytes(&extras)[..12], expected[..]);
        let check = Check::of_spans(CheckKind::Vlan, &[(5, 6), (7, 8)]).unwrap();
        let lies = bytes(&check.to_words());
        assert_eq!(lies[..4], [4, 0, 0, 2]);
        assert_eq!(lies[8..24], bytes(&[pair(5, 6), pair(7, 8)])[..]);
        assert_eq!(parts(pair(9, 10)), (9, 10));
        assert_eq!(Check::of_spans(CheckKind::Vlan, &[(0, 1); 4]), None);
    }
}
