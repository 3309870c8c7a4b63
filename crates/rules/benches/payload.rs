//! What looking for many patterns in payloads costs on one core, next to the `aho-corasick` crate's
//! DFA in the same run: bodies of TCP and UDP from real captures (made ones where there are none),
//! patterns of 4 to 32 bytes of which one is put into each 256th payload, and hostile payloads.
//!
//! `cargo bench -p ringside-rules --bench payload` prints tables.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "../../filter/tests/all/common/mod.rs"]
mod captures;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::{Follows, Live};
use ringside_rules::language::{self, PayloadPattern, RuleSet, Sets};
use ringside_rules::patterns::{Hits, PatternList, PatternSet};
use ringside_rules::{Engine, Question};
use ringside_testkit::Random;
use ringside_wire::{LayerKind, Level};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Payload of a TCP segment that fills an Ethernet frame, with time stamps.
const CHUNK_BYTES: usize = 1448;
const HIT_EVERY: usize = 256;
const ROUNDS: usize = 5;
/// TCP flows that are followed: as many as a busy link has at once.
const FLOWS: usize = 10_000;
/// Text that words are drawn from.
const PROSE: [&str; 4] = [
    include_str!("../../../docs/rules.md"),
    include_str!("../../../docs/ARCHITECTURE.md"),
    include_str!("../../../docs/af-xdp.md"),
    include_str!("../../../docs/filter.md"),
];

/// What TCP and UDP carry in the real captures.
fn bodies() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for file in captures::captures("bodies of the payload benchmark") {
        for frame in &file.frames {
            let dissected = DissectedFrame::new(&frame.bytes, frame.wire_bytes, file.link_type);
            let layers = dissected.layers();
            let carrier = layers.transport(Level::Outer).map(|layer| layer.kind);
            let range = layers.transport_payload(Level::Outer);
            let body = range.and_then(|range| frame.bytes.get(range)).unwrap_or_default();
            if matches!(carrier, Some(LayerKind::Tcp | LayerKind::Udp)) && !body.is_empty() {
                bodies.push(body.to_vec());
            }
        }
    }
    if bodies.is_empty() {
        println!("no real captures: bodies are made of prose and random bytes");
        let mut random = Random::new(1);
        let prose = PROSE.concat();
        for _ in 0..8000 {
            let from = random.below(prose.len() - CHUNK_BYTES);
            bodies.push(prose.as_bytes()[from..from + CHUNK_BYTES].to_vec());
            bodies.push(random.bytes(CHUNK_BYTES));
        }
    }
    bodies
}

/// One pattern: a word or two, a header's name, a host or random bytes, of 4 to 32 bytes.
fn pattern(words: &[&str], random: &mut Random) -> Vec<u8> {
    let word = |random: &mut Random| words[random.below(words.len())];
    let (first, second) = (word(random), word(random));
    let mut bytes = match random.below(4) {
        0 => format!("{first} {second}").into_bytes(),
        1 => format!("{first}-{second}: ").into_bytes(),
        2 => {
            let top = ["com", "org", "net"][random.below(3)];
            format!("{first}.{second}.{top}").to_lowercase().into_bytes()
        }
        _ => random.bytes(32),
    };
    bytes.truncate(4 + random.below(29));
    bytes
}

/// Patterns that are not in the bodies by chance.
fn patterns(count: usize, bodies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let prose = PROSE.concat();
    let words = prose.split(|c: char| !c.is_ascii_alphabetic());
    let words: Vec<&str> = words.filter(|word| word.len() >= 4).collect();
    let mut random = Random::new(5);
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        let more = 2 * (count - chosen.len());
        let more: Vec<Vec<u8>> = (0..more).map(|_| pattern(&words, &mut random)).collect();
        let judge = AhoCorasick::new(&more).unwrap();
        let mut is_there = vec![false; more.len()];
        for body in bodies {
            for found in judge.find_overlapping_iter(body) {
                is_there[found.pattern()] = true;
            }
        }
        let new = more.into_iter().zip(is_there).filter(|(_, there)| !there).map(|(new, _)| new);
        chosen.extend(new.take(count - chosen.len()));
    }
    chosen.into_iter().collect()
}

/// The payloads with a pattern in each 256th of those that have room for it.
fn with_hits(payloads: &[Vec<u8>], patterns: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut random = Random::new(9);
    let mut payloads = payloads.to_vec();
    for payload in payloads.iter_mut().step_by(HIT_EVERY) {
        let pattern = &patterns[random.below(patterns.len())];
        if payload.len() >= pattern.len() {
            let at = random.below(payload.len() - pattern.len() + 1);
            payload[at..at + pattern.len()].copy_from_slice(pattern);
        }
    }
    payloads
}

/// Every second one without regard to case where `mixed`.
fn set(patterns: &[Vec<u8>], mixed: bool) -> (PatternSet, Duration) {
    let start = Instant::now();
    let mut list = PatternList::default();
    for (index, bytes) in patterns.iter().enumerate() {
        let ignore_case = mixed && index % 2 == 0;
        list.add(&PayloadPattern { bytes: bytes.clone().into(), ignore_case, at: None }).unwrap();
    }
    let set = PatternSet::new(&list).unwrap();
    (set, start.elapsed())
}

fn dfa(patterns: &[Vec<u8>]) -> (AhoCorasick, Duration) {
    let start = Instant::now();
    let dfa = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(patterns).unwrap();
    (dfa, start.elapsed())
}

/// GB/s, the median of the rounds behind the first, and what was counted in one.
fn rate(payloads: &[Vec<u8>], mut count: impl FnMut(&[u8]) -> usize) -> (f64, usize) {
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    let mut counted = 0;
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            counted = payloads.iter().map(|payload| count(black_box(payload))).sum();
            bytes as f64 / start.elapsed().as_nanos() as f64
        })
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[rounds.len() / 2], counted)
}

fn ours(set: &PatternSet, payloads: &[Vec<u8>]) -> (f64, usize) {
    let mut hits = Hits::new(set.count());
    rate(payloads, |payload| {
        set.scan(payload, &mut hits);
        hits.numbers().len()
    })
}

fn theirs(dfa: &AhoCorasick, payloads: &[Vec<u8>]) -> (f64, usize) {
    rate(payloads, |payload| dfa.find_iter(payload).count())
}

fn measure_real(label: &str, payloads: &[Vec<u8>], bodies: &[Vec<u8>], counts: &[usize]) {
    let bytes: usize = payloads.iter().map(Vec::len).sum();
    println!("\n{label}: {} payloads, {} MB", payloads.len(), bytes / 1_000_000);
    println!(
        "patterns     GB/s  mixed case      hits    MiB  built ms |  DFA GB/s  overlapping    MiB  \
         built ms"
    );
    for &count in counts {
        let patterns = patterns(count, bodies);
        let payloads = with_hits(payloads, &patterns);
        let (own, built) = set(&patterns, false);
        let (mixed, _) = set(&patterns, true);
        let (peer, peer_built) = dfa(&patterns);
        let (own_rate, hits) = ours(&own, &payloads);
        let (peer_rate, _) = theirs(&peer, &payloads);
        let (mixed_rate, _) = ours(&mixed, &payloads);
        let (overlapping, _) =
            rate(&payloads, |payload| peer.find_overlapping_iter(payload).count());
        println!(
            "{count:8} {own_rate:8.2} {mixed_rate:11.2} {hits:9} {:6.1} {:9.1} | {peer_rate:9.2} \
             {overlapping:12.2} {:6.1} {:9.1}",
            mib(own.memory_bytes()),
            built.as_secs_f64() * 1e3,
            mib(peer.memory_usage()),
            peer_built.as_secs_f64() * 1e3,
        );
    }
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Payloads of pieces, one after the other.
fn of_pieces(mut piece: impl FnMut(&mut Random) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut random = Random::new(11);
    let payload = |_| {
        let mut payload = Vec::new();
        while payload.len() < CHUNK_BYTES {
            payload.extend(piece(&mut random));
        }
        payload.truncate(CHUNK_BYTES);
        payload
    };
    (0..1000).map(payload).collect()
}

/// A name, patterns, and payloads that are bad for them.
type Case<'p> = (&'p str, &'p [Vec<u8>], Vec<Vec<u8>>);

fn measure_hostile(bodies: &[Vec<u8>]) {
    let mut random = Random::new(13);
    let any = patterns(10_000, bodies);
    let same_start: Vec<Vec<u8>> =
        (0..10_000).map(|_| [&b"GET /index.html?q="[..], &random.bytes(8)].concat()).collect();
    let letters: Vec<Vec<u8>> =
        (0..10_000).map(|_| (0..20).map(|_| b"ab"[random.below(2)]).collect()).collect();
    let shared: Vec<Vec<u8>> =
        (0..10_000u32).map(|n| [&b"abcd"[..], &n.to_be_bytes()[2..]].concat()).collect();
    let runs: Vec<Vec<u8>> = (4..=1024).map(|length| vec![b'a'; length]).collect();
    let pick = |list: &[Vec<u8>], random: &mut Random| list[random.below(list.len())].clone();
    let cut = |list: &[Vec<u8>], random: &mut Random, bytes: usize| {
        let mut piece = pick(list, random);
        piece.truncate(piece.len() - bytes);
        piece
    };
    let cases: [Case<'_>; 8] = [
        ("random bytes", &any, of_pieces(|random| random.bytes(CHUNK_BYTES))),
        ("all but the last byte of patterns", &any, of_pieces(|random| cut(&any, random, 1))),
        ("patterns", &any, of_pieces(|random| pick(&any, random))),
        ("one start: starts", &same_start, of_pieces(|random| cut(&same_start, random, 8))),
        ("one start: all but the last byte", &same_start, of_pieces(|r| cut(&same_start, r, 1))),
        ("four bytes shared: they, and more", &shared, of_pieces(|r| cut(&shared, r, 1))),
        ("two letters: any of them", &letters, of_pieces(|r| vec![b"ab"[r.below(2)]])),
        ("runs of a letter: the letter", &runs, of_pieces(|_| vec![b'a'; CHUNK_BYTES])),
    ];
    println!("\nhostile, {CHUNK_BYTES} bytes each          GB/s    MiB | DFA GB/s    MiB");
    for (label, patterns, payloads) in cases {
        let (own, _) = set(patterns, false);
        let (peer, _) = dfa(patterns);
        let (own_rate, _) = ours(&own, &payloads);
        let (peer_rate, _) = theirs(&peer, &payloads);
        println!(
            "{label:34} {own_rate:6.2} {:6.1} | {peer_rate:8.2} {:6.1}",
            mib(own.memory_bytes()),
            mib(peer.memory_usage()),
        );
    }
}

/// Frames of UDP with the payload of a chunk each.
fn frames(payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let frame = |payload: &Vec<u8>| {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 5, 0, 6]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    };
    payloads.iter().map(frame).collect()
}

fn dissected(bytes: &[u8]) -> DissectedFrame<'_> {
    DissectedFrame::new(bytes, bytes.len() as u32, LinkType::ETHERNET)
}

/// A rule for each pattern.
fn rules(patterns: &[Vec<u8>]) -> RuleSet {
    let line = |pattern: &Vec<u8>| {
        let hex: String = pattern.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("payload hex \"{hex}\" => count\n")
    };
    let text: String = patterns.iter().map(line).collect();
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap()
}

/// Every frame is asked about every rule, of one payload term each: by an engine, and by the
/// questions one after the other.
fn measure_rules(chunks: &[Vec<u8>]) {
    println!("\nrules of one payload term    engine ns/frame    one by one ns/frame");
    for count in [1, 2, 3, 4, 6, 10, 100, 1000] {
        let patterns = patterns(count, chunks);
        let frames = frames(&with_hits(&chunks[..2000], &patterns));
        let (set, compiler) = (rules(&patterns), Compiler::InProcess { optimise: true });
        let questions: Vec<Question> = set
            .rules
            .iter()
            .map(|rule| Question::new(&rule.matches, LinkType::ETHERNET, &compiler).unwrap())
            .collect();
        let mut engine = Engine::new(set, LinkType::ETHERNET, &compiler).unwrap();
        let (at_once, _) = rate(&frames, |bytes| {
            black_box(engine.judge(&dissected(bytes)));
            0
        });
        let (one_by_one, _) = rate(&frames, |bytes| {
            let dissected = dissected(bytes);
            questions.iter().filter(|question| question.holds(&dissected)).count()
        });
        let frame_bytes = (CHUNK_BYTES + 42) as f64;
        let (at_once, one_by_one) = (frame_bytes / at_once, frame_bytes / one_by_one);
        println!("{count:6} {at_once:36.0} {one_by_one:22.0}");
    }
}

/// Segments of 10,000 TCP flows in order, by a judge that looks at each alone and by one that
/// follows the flows; each rule looks for one pattern.
fn measure_segments(chunks: &[Vec<u8>]) {
    println!("\nrules   payload bytes   each alone ns/frame   followed ns/frame");
    for (count, bytes) in [(1, 100), (1, CHUNK_BYTES), (10, 100), (1000, 100), (1000, CHUNK_BYTES)]
    {
        let patterns = patterns(count, chunks);
        let (set, compiler) = (rules(&patterns), Compiler::InProcess { optimise: true });
        let mut live = Live::new(set, LinkType::ETHERNET, &compiler).unwrap();
        let mut frames = segments(chunks, bytes);
        let times = [Follows::Nothing, Follows::Flows].map(|follows| {
            let mut judge = live.judge(follows).unwrap();
            let round = |_| {
                let begun = Instant::now();
                for frame in &mut frames {
                    black_box(judge.judge(&dissected(frame)));
                    // The next round continues this one.
                    let sequence: [u8; 4] = frame[38..42].try_into().unwrap();
                    let next = u32::from_be_bytes(sequence).wrapping_add(bytes as u32);
                    frame[38..42].copy_from_slice(&next.to_be_bytes());
                }
                begun.elapsed().as_nanos() as f64
            };
            let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
            best / FLOWS as f64
        });
        println!("{count:5} {bytes:15} {:21.0} {:19.0}", times[0], times[1]);
    }
}

/// The first segment of each flow.
fn segments(chunks: &[Vec<u8>], bytes: usize) -> Vec<Vec<u8>> {
    let segment = |number: usize| {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
        frame.extend((40 + bytes as u16).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend((number as u16).to_be_bytes());
        frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame.extend(&chunks[number % chunks.len()][..bytes]);
        frame
    };
    (0..FLOWS).map(segment).collect()
}

fn main() {
    let bodies = bodies();
    let counts = [10, 100, 1000, 10_000];
    let chunks: Vec<Vec<u8>> =
        bodies.concat().chunks_exact(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
    measure_real("in chunks of 1,448 bytes", &chunks, &chunks, &counts);
    measure_real("as they are", &bodies, &bodies, &counts);
    measure_hostile(&chunks);
    measure_rules(&chunks);
    measure_segments(&chunks);
}
