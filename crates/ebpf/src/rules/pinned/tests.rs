use super::*;
use crate::abi::rules::{Config, pair};

const CPUS: usize = 1;
const SLOTS: usize = 3;
/// Words of texts: eight pieces.
const TEXTS: usize = 8 * TEXT_BYTES / size_of::<u64>();

/// Tables with these words in them; what is missing is 0.
fn tables(words: &[u64]) -> Tables {
    let [totals, counts, offenders] = Counters::words(CPUS, SLOTS, 2);
    let mut words = words.iter();
    let mut filled = |count| {
        let table = Words64::zeroed(count).unwrap();
        for (to, word) in table.iter().zip(words.by_ref()) {
            to.store(*word, Ordering::Relaxed);
        }
        table
    };
    let (titles, texts, control) = (filled(SLOTS), filled(TEXTS), filled(CONTROL_DEFAULT + 1));
    let (totals, counts, offenders) = (filled(totals), filled(counts), filled(offenders));
    let counters = Counters { cpus: CPUS, slots: SLOTS, totals, counts, offenders };
    Tables { control, counters, titles, texts }
}

/// Two rules, the second behind the first, and a dry run whose default is to drop.
fn two_rules() -> Vec<u64> {
    let (first, second) = ("7: src ip 192.0.2.7 => drop", "8: udp => pass");
    let mut words = vec![pair(0, first.len() as u32), 0, pair(2, second.len() as u32)];
    for text in [first, second] {
        let bytes = text.len().next_multiple_of(TEXT_BYTES);
        let text = format!("{text:\0<bytes$}");
        let word = |piece: &[u8]| u64::from_ne_bytes(piece.try_into().unwrap());
        words.extend(text.as_bytes().chunks(size_of::<u64>()).map(word));
    }
    words.resize(SLOTS + TEXTS + CONTROL_DEFAULT, 0);
    words.push(pair(Fate::Drop as u32, 1));
    words
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn what_was_written_is_read() {
    let tables = tables(&two_rules());
    let texts: Vec<String> = tables.rules().map(|(text, _)| text).collect();
    assert_eq!(texts, ["7: src ip 192.0.2.7 => drop", "8: udp => pass"]);
    assert_eq!((tables.is_dry(), tables.default_fate()), (true, Fate::Drop));
}

#[test]
fn whatever_another_program_wrote_there_is_read_within_its_bounds() {
    let all_texts = TEXTS * size_of::<u64>();
    // Each rule says that its text is all there is.
    let greedy = [vec![pair(0, all_texts as u32); SLOTS], vec![u64::MAX; 90]].concat();
    let seeds = [bytes_of(&two_rules()), bytes_of(&greedy)];
    ringside_testkit::fuzz("pinned-tables", 20_000, &seeds, |input| {
        let (words, _) = input.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let tables = tables(&words);
        let texts: Vec<String> = tables.rules().map(|(text, _)| text).collect();
        assert!(texts.iter().all(|text| !text.is_empty()));
        // A byte that is no text is shown as a sign of three.
        let bytes: usize = texts.iter().map(String::len).sum();
        assert!(bytes <= 3 * TEXTS_READ_TIMES * all_texts, "{bytes}");
        let totals = tables.counters.totals();
        let Totals { passed, dropped, unjudged, .. } = totals;
        assert!(totals.seen() >= passed.max(dropped).max(unjudged));
        assert!(tables.counters.offenders().count() <= 2);
        assert_eq!(tables.is_dry(), tables.control_word() > u64::from(u32::MAX));
    });
}

#[test]
fn only_constants_of_the_right_length_say_that_rules_stay() {
    let seeds = [vec![0; 72], vec![1; 72], vec![1; 71]];
    ringside_testkit::fuzz("pinned-constants", 200_000, &seeds, |bytes| {
        let word = bytes.get(52..56).filter(|_| bytes.len() == 72);
        assert_eq!(Config::stays_in(bytes), word.is_some_and(|word| word != [0; 4]));
    });
}
