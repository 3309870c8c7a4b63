use super::*;
use crate::language::PayloadPattern;
use crate::language::limits::PATTERN_BYTES_MAX;
use aho_corasick::AhoCorasick;
use proptest::prelude::*;
use ringside_testkit::Random;
use std::collections::BTreeSet;

mod hostile;

fn pattern(bytes: &[u8], ignore_case: bool, at: Option<u32>) -> PayloadPattern {
    PayloadPattern { bytes: bytes.into(), ignore_case, at }
}

/// A set and its list, and each pattern's number.
struct Made {
    set: PatternSet,
    patterns: Vec<(PayloadPattern, u32)>,
}

fn make(patterns: impl IntoIterator<Item = PayloadPattern>) -> Made {
    let mut list = PatternList::default();
    let patterns: Vec<_> = patterns
        .into_iter()
        .map(|pattern| {
            let number = list.add(&pattern).unwrap();
            (pattern, number)
        })
        .collect();
    let set = PatternSet::new(&list).unwrap();
    assert_eq!(set.count(), list.count());
    Made { set, patterns }
}

impl Made {
    /// The patterns that end behind `old`, place by place.
    fn naive(&self, text: &[u8], old: usize) -> BTreeSet<u32> {
        let is_new = |(pattern, _): &&(PayloadPattern, u32)| {
            let bytes = &pattern.bytes;
            text.windows(bytes.len()).enumerate().any(|(start, here)| {
                let is_here = match pattern.ignore_case {
                    true => here.eq_ignore_ascii_case(bytes),
                    false => *here == **bytes,
                };
                let is_its_place = pattern.at.is_none_or(|at| at as usize == start);
                is_here && is_its_place && start + bytes.len() > old
            })
        };
        self.patterns.iter().filter(is_new).map(|(_, number)| *number).collect()
    }

    /// What a scan tells, each number once.
    fn scanned(&self, text: &[u8]) -> BTreeSet<u32> {
        let mut hits = Hits::new(self.set.count());
        self.set.scan(text, &mut hits);
        found(&hits, self.set.count())
    }

    /// The same by the automata alone, for patterns that they know.
    fn by_automata(&self, text: &[u8]) -> BTreeSet<u32> {
        let mut hits = Hits::new(self.set.count());
        self.set.look_by_automata(&[Text { bytes: text, old: 0, position: 0 }], &mut hits);
        found(&hits, self.set.count())
    }

    fn is_of_automata(&self, number: u32) -> bool {
        let (pattern, _) = self.patterns.iter().find(|(_, other)| *other == number).unwrap();
        pattern.at.is_none() && pattern.bytes.len() >= WINDOW_BYTES
    }
}

/// A flow whose segments are scanned.
#[derive(Default)]
struct Flow {
    stream: Stream,
    seam: Seam,
    hits: Hits,
}

impl Flow {
    fn scan(&mut self, set: &PatternSet, segment: &[u8]) {
        self.stream.take_in(segment, set.longest(), &mut self.seam);
        set.scan_next(&self.seam, segment, &mut self.hits);
    }
}

fn found(hits: &Hits, count: usize) -> BTreeSet<u32> {
    let found: BTreeSet<u32> = hits.numbers().iter().copied().collect();
    assert_eq!(found.len(), hits.numbers().len(), "a number was noted twice");
    assert!((0..count as u32).all(|number| hits.contains(number) == found.contains(&number)));
    found
}

/// Bytes of a few letters, some of which are others' capitals.
fn letters(random: &mut Random, count: usize, length: usize) -> Vec<u8> {
    (0..length).map(|_| b"aAb\0B@`c"[random.below(count)]).collect()
}

fn random_patterns(random: &mut Random, alphabet: usize, count: usize) -> Vec<PayloadPattern> {
    (0..count)
        .map(|_| {
            let length_max = [3, 8, 40][random.below(3)];
            let length = 1 + random.below(length_max);
            let at = [None, None, None, Some(random.below(30) as u32)][random.below(4)];
            pattern(&letters(random, alphabet, length), random.below(2) == 0, at)
        })
        .collect()
}

proptest! {
    #[test]
    fn finds_what_is_there(
        seed: u64,
        alphabet in 1usize..=8,
        count in 0usize..150,
        length in 0usize..400,
    ) {
        let mut random = Random::new(seed);
        let made = make(random_patterns(&mut random, alphabet, count));
        for _ in 0..3 {
            let text = letters(&mut random, alphabet, length);
            let expected = made.naive(&text, 0);
            prop_assert_eq!(&made.scanned(&text), &expected);
            let of_automata = |number: &u32| made.is_of_automata(*number);
            let expected: BTreeSet<u32> = expected.into_iter().filter(of_automata).collect();
            prop_assert_eq!(&made.by_automata(&text), &expected);
        }
    }

    /// Wherever a flow is cut, each segment tells what ends in it.
    #[test]
    fn a_cut_flow_tells_the_same(
        seed: u64,
        alphabet in 1usize..=8,
        count in 0usize..100,
        cuts in prop::collection::vec(0usize..90, 0..12),
    ) {
        let mut random = Random::new(seed);
        let made = make(random_patterns(&mut random, alphabet, count));
        let text = letters(&mut random, alphabet, 90);
        let mut cuts = cuts;
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut flow = Flow::default();
        let mut all = BTreeSet::new();
        for ends in cuts.windows(2) {
            flow.scan(&made.set, &text[ends[0]..ends[1]]);
            let now = found(&flow.hits, made.set.count());
            prop_assert_eq!(&now, &made.naive(&text[..ends[1]], ends[0]));
            prop_assert!(flow.stream.kept() < made.set.longest().max(1));
            all.extend(now);
        }
        prop_assert_eq!(flow.stream.position(), 90);
        prop_assert_eq!(all, made.naive(&text, 0));
    }

    #[test]
    fn aho_corasick_tells_the_same(
        seed: u64,
        alphabet in 1usize..=8,
        count in 1usize..400,
        ignore_case: bool,
    ) {
        let mut random = Random::new(seed);
        let patterns: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let length = 1 + random.below(24);
                letters(&mut random, alphabet, length)
            })
            .collect();
        let judge =
            AhoCorasick::builder().ascii_case_insensitive(ignore_case).build(&patterns).unwrap();
        let made = make(patterns.iter().map(|bytes| pattern(bytes, ignore_case, None)));
        let text = letters(&mut random, alphabet, 2000);
        let expected: BTreeSet<u32> = judge
            .find_overlapping_iter(&text)
            .map(|found| made.patterns[found.pattern().as_usize()].1)
            .collect();
        prop_assert_eq!(made.scanned(&text), expected);
    }
}

/// Both ends of what a pattern may be, in every place of a text and of a flow.
#[test]
fn the_shortest_and_the_longest_are_found_everywhere() {
    for length in [1, 2, 3, 4, 5, 63, 64, 65, PATTERN_BYTES_MAX] {
        let bytes: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
        let made = make([true, false].map(|ignore_case| pattern(&bytes, ignore_case, None)));
        let text_bytes = length + 150;
        for at in (0..=text_bytes - length).step_by(7) {
            let mut text = vec![b'.'; text_bytes];
            text[at..at + length].copy_from_slice(&bytes);
            assert_eq!(made.scanned(&text), BTreeSet::from([0, 1]), "{length} at {at}");
            text[at..at + length].make_ascii_uppercase();
            assert_eq!(made.scanned(&text), BTreeSet::from([0]), "{length} at {at}");
            // Two cuts, of which one or both are within the pattern if it has room for them.
            let mut flow = Flow::default();
            let mut times = 0;
            for segment in [&text[..at + length / 2], &text[at + length / 2..]] {
                for segment in segment.chunks(length.div_ceil(3).max(40)) {
                    flow.scan(&made.set, segment);
                    times += flow.hits.numbers().len();
                }
            }
            assert_eq!(times, 1, "{length} at {at}");
        }
    }
}

#[test]
fn a_gap_in_a_flow_joins_nothing() {
    let made = make([pattern(b"needle", false, None), pattern(b"eye", false, Some(20))]);
    let mut flow = Flow::default();
    flow.scan(&made.set, b"....need");
    flow.stream.skip(12);
    flow.scan(&made.set, b"le");
    assert!(flow.hits.numbers().is_empty());
    // The place counts what is missing too.
    assert_eq!(flow.stream.position(), 22);
    let mut flow = Flow::default();
    flow.scan(&made.set, b"....need");
    flow.stream.skip(12);
    flow.scan(&made.set, b"eye");
    assert_eq!(flow.hits.numbers(), [1]);
    flow.stream.restart();
    flow.scan(&made.set, b"....need");
    flow.scan(&made.set, b"le");
    assert_eq!(flow.hits.numbers(), [0]);
}

/// What lies across a border is no longer on either side than it must be, and nothing that lies on
/// one side alone is in there whole.
#[test]
fn a_seam_is_as_wide_as_a_pattern_across_it() {
    let (mut stream, mut seam) = (Stream::new(), Seam::default());
    stream.take_in(b"abcdefgh", 5, &mut seam);
    assert!(seam.is_empty());
    stream.take_in(b"12", 5, &mut seam);
    assert_eq!(
        (seam.around(5), seam.around(2), seam.around(1)),
        (&b"efgh12"[..], &b"h1"[..], &b""[..])
    );
    stream.take_in(b"ABCDEFGH", 5, &mut seam);
    assert_eq!((seam.around(9), seam.around(3)), (&b"gh12ABCD"[..], &b"12AB"[..]));
}

#[test]
fn the_same_pattern_has_one_number() {
    let mut list = PatternList::default();
    assert_eq!(list.add(&pattern(b"Host", false, None)), Ok(0));
    assert_eq!(list.add(&pattern(b"Host", true, None)), Ok(1));
    assert_eq!(list.add(&pattern(b"hOST", true, None)), Ok(1));
    assert_eq!(list.add(&pattern(b"Host", false, Some(0))), Ok(2));
    assert_eq!(list.add(&pattern(b"1.2.3", true, None)), Ok(3));
    assert_eq!(list.add(&pattern(b"1.2.3", false, None)), Ok(3));
    assert_eq!(list.count(), 4);
}

#[test]
fn a_list_has_limits() {
    let mut list = PatternList::default();
    assert_eq!(list.add(&pattern(b"", false, None)), Err(PatternError::Length { bytes: 0 }));
    let long = vec![0; PATTERN_BYTES_MAX + 1];
    let error = Err(PatternError::Length { bytes: long.len() });
    assert_eq!(list.add(&pattern(&long, false, None)), error);
    for n in 0..PATTERNS_MAX as u32 {
        assert_eq!(list.add(&pattern(&n.to_le_bytes(), false, None)), Ok(n));
    }
    assert_eq!(list.add(&pattern(b"other", false, None)), Err(PatternError::TooMany));
    assert_eq!(list.add(&pattern(&[7, 0, 0, 0], false, None)), Ok(7));
    let mut list = PatternList::default();
    let room = PATTERN_BYTES_SUM_MAX / PATTERN_BYTES_MAX;
    for n in 0..=room {
        let mut bytes = vec![b'x'; PATTERN_BYTES_MAX];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        assert_eq!(list.add(&pattern(&bytes, false, None)).is_ok(), n < room);
    }
}

#[test]
fn findings_answer_for_the_numbers_of_their_set() {
    let mut list = PatternList::default();
    let number = |list: &mut PatternList, bytes| list.add(&pattern(bytes, false, None)).unwrap();
    let (first, second) = (number(&mut list, b"first"), number(&mut list, b"second"));
    let mut findings = Findings::new(PatternSet::new(&list).unwrap().into());
    let later = number(&mut list, b"later");
    for text in [b"first, later", b"later second"] {
        findings.forget();
        let has = |bytes: &[u8]| text.windows(bytes.len()).any(|here| here == bytes);
        use ringside_wire::Level::{Inner, Outer};
        let seam = Seam::default();
        assert_eq!(findings.contain(first, Outer, &seam, text), Some(has(b"first")));
        assert_eq!(findings.contain(second, Outer, &seam, text), Some(has(b"second")));
        assert_eq!(findings.contain(second, Inner, &seam, b"a second one"), Some(true));
        assert_eq!(findings.contain(later, Outer, &seam, text), None);
    }
}
