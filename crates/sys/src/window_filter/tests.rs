use super::*;
use proptest::prelude::*;
use ringside_testkit::Random;

/// Every place, by calls until the text is read.
fn all(text: &[u8], find: impl Fn(&[u8], usize, &mut [u32; PLACES_MAX]) -> Found) -> Vec<u32> {
    let (mut from, mut all) = (0, Vec::new());
    let mut places = [0; PLACES_MAX];
    loop {
        let found = find(text, from, &mut places);
        all.extend(&places[..found.count]);
        match found.next {
            Some(next) => assert!(next > from),
            None => return all,
        }
        from = found.next.unwrap();
    }
}

/// Place by place, without blocks.
fn expected(filter: &WindowFilter, text: &[u8]) -> Vec<u32> {
    let is_in = |bytes: &[u8]| {
        let bit = hash(window(bytes.try_into().unwrap())) >> filter.shift;
        filter.words[bit as usize / 32] >> (bit % 32) & 1 == 1
    };
    let windows = text.windows(WINDOW_BYTES).enumerate();
    windows.filter(|(_, bytes)| is_in(bytes)).map(|(at, _)| at as u32).collect()
}

proptest! {
    #[test]
    fn both_ways_find_what_is_there(
        seed: u64,
        letters in 1usize..6,
        count in 0usize..60,
        bits_log2 in 10u32..20,
        length in 0usize..700,
    ) {
        let mut random = Random::new(seed);
        let mut letter = || b"aB\0\xffz"[random.below(letters.min(5))];
        let mut filter = WindowFilter::new(bits_log2);
        for _ in 0..count {
            filter.insert(window([letter(), letter(), letter(), letter()]));
        }
        let text: Vec<u8> = (0..length).map(|_| letter()).collect();
        let expected = expected(&filter, &text);
        prop_assert_eq!(&all(&text, |t, f, p| filter.find_portably(t, f, p)), &expected);
        prop_assert_eq!(&all(&text, |t, f, p| filter.find(t, f, p)), &expected);
    }
}

#[test]
fn a_full_table_gives_every_place_and_no_other() {
    let mut filter = WindowFilter::new(15);
    filter.words.fill(u32::MAX);
    for length in (0..200).chain([1448, 9000]) {
        let text = vec![7; length];
        let expected: Vec<u32> = (0..length.saturating_sub(3) as u32).collect();
        assert_eq!(all(&text, |t, f, p| filter.find(t, f, p)), expected, "{length}");
        assert_eq!(all(&text, |t, f, p| filter.find_portably(t, f, p)), expected, "{length}");
    }
    assert_eq!(filter.find(b"abcd", 9, &mut [0; PLACES_MAX]), Found { count: 0, next: None });
}

#[test]
fn letters_of_either_case_are_the_same() {
    let mut filter = WindowFilter::new(20);
    filter.insert(window(*b"HoSt"));
    assert_eq!(all(b"..host..HOST.h0st", |t, f, p| filter.find(t, f, p)), [2, 8]);
    assert_eq!(filter.memory_bytes(), 1 << 17);
    // Sizes that there are not.
    assert_eq!(WindowFilter::new(0).memory_bytes(), 1 << 12);
    assert_eq!(WindowFilter::new(99).memory_bytes(), 1 << 21);
}
