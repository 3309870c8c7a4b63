//! Patterns in real payloads and in anybody's bytes, against the `aho-corasick` crate and a search
//! byte by byte.

use crate::common::captures;
use aho_corasick::AhoCorasick;
use ringside_inspect::DissectedFrame;
use ringside_rules::language::PayloadPattern;
use ringside_rules::patterns::{Hits, PatternList, PatternSet, Seam, Stream};
use ringside_testkit::{Random, fuzz};
use ringside_wire::Level;
use std::collections::BTreeSet;

fn pattern(bytes: &[u8], ignore_case: bool, at: Option<u32>) -> PayloadPattern {
    PayloadPattern { bytes: bytes.into(), ignore_case, at }
}

fn hit_numbers(hits: &Hits) -> BTreeSet<u32> {
    hits.numbers().iter().copied().collect()
}

/// Transport payloads of real captures.
fn payloads(test: &str) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for file in captures(test) {
        for frame in &file.frames {
            let dissected = DissectedFrame::new(&frame.bytes, frame.wire_bytes, file.link_type);
            let range = dissected.layers().transport_payload(Level::Outer);
            let payload = range.and_then(|range| frame.bytes.get(range)).unwrap_or_default();
            payloads.push(payload.to_vec());
        }
    }
    payloads
}

/// Pieces of the payloads themselves, so that there are finds of all kinds: in many payloads and in
/// one, of text and of zeros.
#[test]
fn aho_corasick_finds_the_same_in_real_payloads() {
    let payloads = payloads("patterns in real payloads");
    if payloads.is_empty() {
        return;
    }
    let mut random = Random::new(1);
    for (count, length_max, ignore_case) in
        [(10, 32, false), (300, 6, true), (1000, 24, true), (5000, 40, false)]
    {
        let mut patterns = BTreeSet::new();
        while patterns.len() < count {
            let payload = &payloads[random.below(payloads.len())];
            let length = 1 + random.below(length_max);
            if payload.len() > length {
                let at = random.below(payload.len() - length);
                patterns.insert(payload[at..at + length].to_vec());
            }
        }
        let mut list = PatternList::default();
        let numbers: Vec<u32> = patterns
            .iter()
            .map(|bytes| list.add(&pattern(bytes, ignore_case, None)).unwrap())
            .collect();
        let set = PatternSet::new(&list).unwrap();
        let judge =
            AhoCorasick::builder().ascii_case_insensitive(ignore_case).build(&patterns).unwrap();
        let (mut hits, mut found) = (Hits::new(set.count()), 0);
        for payload in payloads.iter().step_by(1 + count / 100) {
            set.scan(payload, &mut hits);
            let overlapping = judge.find_overlapping_iter(payload);
            let expected: BTreeSet<u32> =
                overlapping.map(|found| numbers[found.pattern().as_usize()]).collect();
            assert_eq!(hit_numbers(&hits), expected);
            found += expected.len();
        }
        assert!(found > 100, "{found} finds are too few to tell");
    }
}

/// Patterns as they stand at the front of an input, and the rest of it: a number of bytes, what is
/// asked, the bytes; up to a length of 0.
fn read(mut input: &[u8]) -> (Vec<PayloadPattern>, &[u8]) {
    let mut patterns = Vec::new();
    while let [length, how, rest @ ..] = input {
        let length = usize::from(*length);
        if length == 0 || rest.len() < length || patterns.len() == 64 {
            return (patterns, rest);
        }
        let (bytes, rest) = rest.split_at(length);
        let at = (how & 2 != 0).then_some(u32::from(how >> 2));
        patterns.push(pattern(bytes, how & 1 != 0, at));
        input = rest;
    }
    (patterns, input)
}

/// True if the pattern ends in `text` behind `old`.
fn ends(pattern: &PayloadPattern, text: &[u8], old: usize) -> bool {
    let length = pattern.bytes.len();
    text.windows(length).enumerate().any(|(start, here)| {
        let is_here = *here == *pattern.bytes
            || pattern.ignore_case && here.eq_ignore_ascii_case(&pattern.bytes);
        is_here && start + length > old && pattern.at.is_none_or(|at| at as usize == start)
    })
}

fn try_one(input: &[u8]) {
    let (patterns, text) = read(input);
    let text = &text[..text.len().min(4096)];
    let mut list = PatternList::default();
    let numbered: Vec<(u32, PayloadPattern)> =
        patterns.into_iter().map(|pattern| (list.add(&pattern).unwrap(), pattern)).collect();
    let set = PatternSet::new(&list).unwrap();
    let expected = |text: &[u8], old: usize| -> BTreeSet<u32> {
        let found = numbered.iter().filter(|(_, pattern)| ends(pattern, text, old));
        found.map(|(number, _)| *number).collect()
    };
    let mut hits = Hits::default();
    set.scan(text, &mut hits);
    assert_eq!(hit_numbers(&hits), expected(text, 0));
    // The cuts are of the input too.
    let (mut stream, mut seam, mut from) = (Stream::new(), Seam::default(), 0);
    for cut in input.iter().take(4).map(|&byte| usize::from(byte)).chain([text.len()]) {
        let to = (from + cut).min(text.len());
        stream.take_in(&text[from..to], set.longest(), &mut seam);
        set.scan_next(&seam, &text[from..to], &mut hits);
        assert_eq!(hit_numbers(&hits), expected(&text[..to], from));
        from = to;
    }
}

#[test]
fn any_patterns_in_any_bytes() {
    let mut random = Random::new(2);
    let mut seeds = Vec::new();
    let mut texts = payloads("fuzzing of patterns");
    texts.retain(|text| text.len() > 40);
    texts.push(b"GET /index.html HTTP/1.1\r\nHost: www.example.com\r\n\r\n".repeat(9));
    texts.extend([vec![0; 600], b"aAab".repeat(300)]);
    for text in texts.iter().step_by(1 + texts.len() / 200).chain(texts.iter().rev().take(3)) {
        let mut seed = Vec::new();
        for _ in 0..random.below(12) {
            let length = 1 + random.below(24);
            let at = random.below(text.len() - length);
            let how = [0, 1, 2 | ((at as u8 & 0x3f) << 2)][random.below(3)];
            seed.extend([length as u8, how]);
            seed.extend(&text[at..at + length]);
        }
        seed.extend([0, 0]);
        seed.extend(text);
        seeds.push(seed);
    }
    fuzz("patterns", 3_000, &seeds, try_one);
}
