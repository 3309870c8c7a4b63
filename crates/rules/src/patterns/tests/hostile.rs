//! Rules and payloads that are made to cost time or memory.

use super::*;

/// What `PatternSet::memory_bytes` promises.
fn memory_bytes_max(made: &Made) -> usize {
    let bytes: usize = made.patterns.iter().map(|(pattern, _)| pattern.bytes.len()).sum();
    (1 << 20) + 2 * (2 << 20) + 128 * made.patterns.len() + 40 * bytes
}

/// True if the filter's budget was not enough for the text.
fn is_spent(made: &Made, text: &[u8]) -> bool {
    let mut hits = Hits::new(made.set.count());
    let text = Text { bytes: text, old: 0, position: 0 };
    made.set.look_by_windows(text, &mut hits) == Spent
}

#[track_caller]
fn check(made: &Made, text: &[u8], spent: bool) {
    assert_eq!(is_spent(made, text), spent);
    assert_eq!(made.scanned(text), made.naive(text, 0));
    let (mut flow, mut all) = (Flow::default(), BTreeSet::new());
    for segment in text.chunks(700) {
        flow.scan(&made.set, segment);
        all.extend(found(&flow.hits, made.set.count()));
    }
    assert_eq!(all, made.naive(text, 0));
    assert!(made.set.memory_bytes() <= memory_bytes_max(made), "{}", made.set.memory_bytes());
}

#[test]
fn one_byte_over_and_over() {
    let runs = |step: usize| (1..=PATTERN_BYTES_MAX).step_by(step).map(|n| vec![b'a'; n]);
    let made = make(runs(1).map(|bytes| pattern(&bytes, false, None)));
    check(&made, &[b'a'; 1448], true);
    check(&made, &[b'a'; 500], true);
    check(&made, &[b'b'; 1448], false);
    let made = make(runs(9).map(|bytes| pattern(&bytes, bytes.len() % 2 == 0, None)));
    check(&made, &[b'a'; 1448], true);
    check(&made, &[b'A'; 1448], true);
    // Among others, so that the automaton is compact.
    let random = &mut Random::new(5);
    let others: Vec<Vec<u8>> = (0..2000).map(|_| random.bytes(9)).collect();
    let made = make(runs(1).chain(others).map(|bytes| pattern(&bytes, false, None)));
    check(&made, &[b'a'; 1448], true);
    let fixed = make(runs(3).map(|bytes| pattern(&bytes, false, Some(5))));
    check(&fixed, &[b'a'; 800], false);
}

#[test]
fn patterns_that_share_their_bytes() {
    let random = &mut Random::new(3);
    let starts: Vec<Vec<u8>> =
        (0..2000u32).map(|n| [&b"GET /index.html?"[..], &n.to_be_bytes()].concat()).collect();
    let made = make(starts.iter().map(|bytes| pattern(bytes, false, None)));
    check(&made, &b"GET /index.html?".repeat(90), false);
    let nearly: Vec<u8> = (0..72).flat_map(|_| starts[random.below(2000)][..19].to_vec()).collect();
    check(&made, &nearly, false);
    let whole: Vec<u8> = (0..72).flat_map(|_| starts[random.below(2000)].clone()).collect();
    check(&made, &whole, false);
    // Windows that all patterns have.
    let letters: Vec<Vec<u8>> = (0..2000).map(|_| letters(random, 2, 20)).collect();
    let made = make(letters.iter().map(|bytes| pattern(bytes, true, None)));
    let text: Vec<u8> = letters.iter().take(72).flatten().copied().collect();
    check(&made, &text, true);
}

/// A large set of random patterns keeps its promise about memory.
#[test]
fn memory_is_bounded() {
    let random = &mut Random::new(4);
    for (count, length) in [(1, 1), (17, 3), (3000, 2), (3000, 3), (3000, 4), (20_000, 20)] {
        let made = make((0..count).map(|n| {
            let at = (n % 5 == 0).then(|| random.below(1 << 20) as u32);
            pattern(&random.bytes(length), n % 2 == 0, at)
        }));
        let (memory, bound) = (made.set.memory_bytes(), memory_bytes_max(&made));
        assert!(memory <= bound, "{count} of {length}: {memory} bytes of {bound}");
    }
}

/// Patterns of which each ends all the others' beginnings would make an automaton of gigabytes.
#[test]
fn too_many_ends_of_one_another_are_refused() {
    let mut list = PatternList::default();
    for length in 4..=PATTERN_BYTES_MAX {
        list.add(&pattern(&vec![b'a'; length], false, None)).unwrap();
    }
    assert!(PatternSet::new(&list).is_ok());
    for start in 0..255 {
        let mut bytes = vec![b'a'; PATTERN_BYTES_MAX];
        bytes[0] = b'a' ^ (start + 1);
        list.add(&pattern(&bytes, false, None)).unwrap();
    }
    let error = PatternSet::new(&list).unwrap_err();
    assert!(matches!(error, PatternError::TooNested { depth: 1021, .. }), "{error}");
}
