//! The rules of a meter: endpoints, and the streams that were counted there. One writer.

use super::abi::{
    CLOSED, CONTROL_ALIVE_UNTIL, CONTROL_TEST_NOW, CONTROL_WORDS, COUNTS_WORDS, Counts, End, FREE,
    KINDS, PAYLOAD_TYPES, RULE_END, RULE_KINDS, RULE_LOCK, RULE_STREAMS, RULE_WORDS, STREAM_WORDS,
    StreamState, TAG_MASK, WAYS, end_words,
};
use crate::Error;
use crate::load::Loaded;
use ringside_sys::words::{AtomicU64, Words32, Words64};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The stream's place of `last_ns` (`struct rtp_stream`).
const STREAM_LAST_NS: usize = 9;

/// How a table is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpLayout {
    /// Numbers of CPUs.
    pub cpus: u32,
    /// Rules, a power of two; some kilobyte each.
    pub rules: u32,
}

impl RtpLayout {
    /// Most rules: entries of a set have 17 bits for their numbers.
    pub const RULES_MAX: u32 = 1 << 16;

    /// Sets: a quarter of their places is used when all rules are.
    pub(super) fn sets(&self) -> u32 {
        (self.rules * 4 / WAYS as u32).max(1)
    }

    /// Bytes of all arrays.
    pub fn memory_bytes(&self) -> usize {
        self.rules as usize * RULE_WORDS * 8 + self.sets() as usize * WAYS * 4
    }
}

/// The payload types' kinds of a rule.
pub type Kinds = [u8; PAYLOAD_TYPES];

/// The number of a rule, until it is taken away.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleNumber(u32);

/// What program and user space share.
#[derive(Debug)]
pub struct RtpTable {
    control: Words64,
    counts: Words64,
    kinds: Words64,
    sets: Words32,
    rules: Words64,
    seed: u64,
    free: Vec<u32>,
}

impl RtpTable {
    pub(super) fn of(loaded: &Loaded, layout: RtpLayout, seed: u64) -> Result<RtpTable, Error> {
        let map = |name: &'static str| -> Result<OwnedFd, Error> {
            let copy = loaded.map(name)?.as_fd().try_clone_to_owned();
            copy.map_err(|e| Error::kernel(format!("cannot keep the map {name}"), e.into()))
        };
        let words = |name: &'static str, count: usize| {
            Words64::of_array(&map(name)?, count).map_err(|e| Error::mapping(name, e))
        };
        let sets = Words32::of_array(&map("rtp_sets")?, layout.sets() as usize * WAYS);
        let table = RtpTable {
            control: words("rtp_control", CONTROL_WORDS)?,
            counts: words("rtp_counts", layout.cpus as usize * COUNTS_WORDS)?,
            kinds: words("rtp_kinds", KINDS)?,
            sets: sets.map_err(|e| Error::mapping("rtp_sets", e))?,
            rules: words("rtp_rules", layout.rules as usize * RULE_WORDS)?,
            seed,
            free: (0..layout.rules).rev().collect(),
        };
        for rule in table.rules.chunks_exact(RULE_WORDS) {
            rule[RULE_LOCK].store(CLOSED, Relaxed);
        }
        Ok(table)
    }

    /// Rules that are in force.
    pub fn len(&self) -> usize {
        self.rules.len() / RULE_WORDS - self.free.len()
    }

    /// True if no rule is in force.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What packets of this kind are: the rate of their clock, and a `Content`. The kind 0 is
    /// unknown.
    pub fn set_kind(&self, kind: u8, clock_rate: u32, content: u32) {
        let [a, b, c, d] = clock_rate.to_ne_bytes();
        let [e, f, g, h] = content.to_ne_bytes();
        self.kinds[usize::from(kind)].store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Release);
    }

    /// Has packets to and from an endpoint, which must not be there, counted and discarded; `None`
    /// if there is no room.
    pub fn add(&mut self, end: End, kinds: &Kinds) -> Option<RuleNumber> {
        let words = end_words(end);
        let hash = self.hash(&words);
        let tag = (hash >> 32) as u32 & TAG_MASK;
        let set = &self.sets[self.set_of(hash)..][..WAYS];
        // The program looks at one rule for each tag.
        let is_taken = |way: u32| way != 0 && way & TAG_MASK == tag;
        if set.iter().any(|way| is_taken(way.load(Relaxed))) {
            return None;
        }
        let way = set.iter().find(|way| way.load(Relaxed) == 0)?;
        let number = self.free.pop()?;
        let rule = self.rule(number);
        for (word, value) in rule[RULE_END..].iter().zip(words) {
            word.store(value, Relaxed);
        }
        rule[RULE_STREAMS..].iter().for_each(|word| word.store(0, Relaxed));
        self.set_kinds(&RuleNumber(number), kinds);
        rule[RULE_LOCK].store(FREE, Release);
        way.store(tag | (number + 1), Release);
        Some(RuleNumber(number))
    }

    /// The payload types mean something else from now on.
    pub fn set_kinds(&self, rule: &RuleNumber, kinds: &Kinds) {
        let (words, _) = kinds.as_chunks::<8>();
        for (word, eight) in self.rule(rule.0)[RULE_KINDS..].iter().zip(words) {
            word.store(u64::from_ne_bytes(*eight), Relaxed);
        }
    }

    /// When the last packet came; 0 if none did.
    pub fn last_ns(&self, rule: &RuleNumber) -> u64 {
        let last_ns = |stream: &[AtomicU64]| stream[STREAM_LAST_NS].load(Relaxed);
        streams(self.rule(rule.0)).map(last_ns).max().unwrap_or(0)
    }

    /// Takes a rule away: its streams, as they are for good.
    pub fn close(&mut self, rule: RuleNumber) -> Vec<StreamState> {
        let number = rule.0;
        let rule = self.rule(number);
        let words: [u64; 3] = std::array::from_fn(|at| rule[RULE_END + at].load(Relaxed));
        let hash = self.hash(&words);
        let entry = (hash >> 32) as u32 & TAG_MASK | (number + 1);
        let set = &self.sets[self.set_of(hash)..][..WAYS];
        if let Some(way) = set.iter().find(|way| way.load(Relaxed) == entry) {
            way.store(0, Relaxed);
        }
        // The program has it for less than a microsecond, and nothing interrupts it.
        while rule[RULE_LOCK].compare_exchange_weak(FREE, CLOSED, Acquire, Relaxed).is_err() {
            std::hint::spin_loop();
        }
        let states = streams(rule).filter_map(|stream| {
            StreamState::of(&std::array::from_fn(|at| stream[at].load(Relaxed)))
        });
        let states = states.collect();
        self.free.push(number);
        states
    }

    /// Frames of streams of rules that are in force.
    pub fn frames_open(&self) -> u64 {
        let rules = self.rules.chunks_exact(RULE_WORDS);
        let open = rules.filter(|rule| rule[RULE_LOCK].load(Acquire) != CLOSED);
        open.flat_map(streams)
            .filter_map(|stream| {
                StreamState::of(&std::array::from_fn(|at| stream[at].load(Relaxed)))
            })
            .map(|stream| stream.frames())
            .sum()
    }

    /// What all CPUs counted: exact while no frames come.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for cpu in self.counts.chunks_exact(COUNTS_WORDS) {
            all.add(&std::array::from_fn(|at| cpu[at].load(Relaxed)));
        }
        all
    }

    /// Has the program count until then, by the monotonic clock: later all frames go on.
    pub fn keep_alive_until(&self, until_ns: u64) {
        self.control[CONTROL_ALIVE_UNTIL].store(until_ns, Relaxed);
    }

    /// The time of test runs.
    pub fn set_test_time(&self, now_ns: u64) {
        self.control[CONTROL_TEST_NOW].store(now_ns, Relaxed);
    }

    fn rule(&self, number: u32) -> &[AtomicU64] {
        &self.rules[number as usize * RULE_WORDS..][..RULE_WORDS]
    }

    fn set_of(&self, hash: u64) -> usize {
        let sets = (self.sets.len() / WAYS) as u64;
        (hash & (sets - 1)) as usize * WAYS
    }

    /// `hash_of` of bpf/xdp_rtp.bpf.c.
    fn hash(&self, end: &[u64; 3]) -> u64 {
        end.iter().fold(self.seed, |hash, word| {
            let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ hash >> 32
        })
    }
}

/// The streams of a rule.
fn streams(rule: &[AtomicU64]) -> impl Iterator<Item = &[AtomicU64]> {
    rule[RULE_STREAMS..RULE_KINDS].chunks_exact(STREAM_WORDS)
}

const _: () = assert!(RULE_KINDS + PAYLOAD_TYPES / 8 <= RULE_WORDS, "as in bpf/abi_rtp.h");
