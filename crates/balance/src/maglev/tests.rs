use super::*;
use crate::hash::address_words;
use proptest::prelude::*;
use ringside_testkit::{Random, by_run};
use std::net::Ipv4Addr;

fn real(number: u32, weight: u32) -> Weighted {
    let address = Ipv4Addr::from_bits(0x0a00_0000 + number);
    Weighted { key: address_words(address.into()), weight }
}

fn shares(table: &[u32], reals: usize) -> Vec<u32> {
    let mut shares = vec![0; reals];
    table.iter().for_each(|real| shares[*real as usize] += 1);
    shares
}

/// Every share is within 1 % of what the weight says; of few slots, within two of them.
fn assert_shares(reals: &[Weighted], slots: u32) {
    let table = table(reals, slots);
    let sum: u64 = reals.iter().map(|real| u64::from(real.weight)).sum();
    for (real, share) in reals.iter().zip(shares(&table, reals.len())) {
        let expected = u64::from(slots) as f64 * f64::from(real.weight) / sum as f64;
        let allowed = (expected / 100.0).max(2.0);
        assert!((f64::from(share) - expected).abs() <= allowed, "{real:?}: {share}, {expected}");
    }
}

#[test]
fn shares_are_within_one_percent_of_the_weight() {
    let equal: Vec<_> = (0..100).map(|number| real(number, 1)).collect();
    assert_shares(&equal, SLOTS_DEFAULT);
    let rising: Vec<_> = (0..100).map(|number| real(number, number + 1)).collect();
    assert_shares(&rising, SLOTS_DEFAULT);
    assert_shares(&rising, SLOTS_MAX);
    let apart = [real(1, 1), real(2, WEIGHT_MAX), real(3, 40_000), real(4, 0)];
    assert_shares(&apart, SLOTS_DEFAULT);
    let many: Vec<_> = (0..5_000).map(|number| real(number, 1 + number % 7)).collect();
    assert_shares(&many, SLOTS_MAX);
}

#[test]
fn removing_one_of_100_reals_moves_its_share_and_at_most_2_percent() {
    let reals: Vec<_> = (0..100).map(|number| real(number * 7, 1)).collect();
    let before = table(&reals, SLOTS_DEFAULT);
    let share = |removed: u32| before.iter().filter(|real| **real == removed).count();
    for removed in 0..100 {
        let mut without = reals.clone();
        without[removed].weight = 0;
        let after = table(&without, SLOTS_DEFAULT);
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        let allowed = share(removed as u32) + SLOTS_DEFAULT as usize / 50;
        assert!(moved <= allowed, "real {removed}: {moved} of {SLOTS_DEFAULT} moved, {allowed}");
    }
}

#[test]
fn the_order_of_the_reals_changes_nothing() {
    let mut random = Random::new(3);
    let reals: Vec<_> = (0..50).map(|number| real(number, 1 + number % 5)).collect();
    let keys = |reals: &[Weighted]| -> Vec<[u64; 2]> {
        table(reals, 4_093).iter().map(|index| reals[*index as usize].key).collect()
    };
    let expected = keys(&reals);
    for _ in 0..20 {
        let mut shuffled = reals.clone();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.below(at + 1));
        }
        assert_eq!(keys(&shuffled), expected);
    }
}

/// A change of these numbers would have instances of different versions disagree. They were
/// computed by a second implementation, which goes round by round with accumulators.
#[test]
fn a_table_is_the_one_that_it_always_was() {
    let reals: Vec<_> = (0..10).map(|number| real(number, 1 + number)).collect();
    let words: Vec<u64> = table(&reals, 1_021).iter().map(|index| u64::from(*index)).collect();
    assert_eq!(hash(0, &words), 0x0cb8_cc9a_0963_a030);
    assert_eq!(words[..12], [9, 7, 2, 8, 4, 8, 4, 9, 3, 6, 0, 7]);
}

#[test]
fn without_weights_there_is_no_real() {
    assert!(table(&[], 251).iter().all(|real| *real == NONE));
    assert!(table(&[real(1, 0)], 251).iter().all(|real| *real == NONE));
    assert!(table(&[real(1, 0), real(2, 1)], 251).iter().all(|real| *real == 1));
}

#[test]
fn a_table_of_the_most_reals_is_made_in_time() {
    let reals: Vec<_> = (0..65_536).map(|number| real(number, 1 + number % 65_535)).collect();
    assert_eq!(table(&reals, SLOTS_MAX).len(), SLOTS_MAX as usize);
}

#[test]
fn primes_are_found() {
    let primes: Vec<u32> = (0..30).filter(|number| is_prime(*number)).collect();
    assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    assert!([SLOTS_MIN, SLOTS_DEFAULT, SLOTS_MAX].into_iter().all(is_prime));
    assert_eq!([0, 65_530, u32::MAX].map(prime_from), [SLOTS_MIN, 65_537, SLOTS_MAX]);
}

/// A real that comes takes slots; the others keep the rest, but for a few. How many these are
/// depends on the addresses: of 6,000 sets of 20 reals the median was 0.7 %, the most 4.0 %.
#[test]
fn a_real_that_comes_takes_little_from_others_to_others() {
    let mut random = Random::new(8);
    let mut exchanged: Vec<usize> = (0..by_run(60, 3_000))
        .map(|_| {
            let seed = random.below(1_000_000) as u32;
            let reals: Vec<_> = (0..20).map(|number| real(seed + number, 1)).collect();
            let (before, after) = (table(&reals[..19], 16_381), table(&reals, 16_381));
            before.iter().zip(&after).filter(|(a, b)| a != b && **b != 19).count()
        })
        .collect();
    exchanged.sort_unstable();
    assert!(exchanged[exchanged.len() / 2] < 16_381 / 100, "{exchanged:?}");
    assert!(exchanged[exchanged.len() - 1] < 16_381 * 6 / 100, "{exchanged:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_slot_has_a_real_with_a_weight(
        weights in proptest::collection::vec(0..=WEIGHT_MAX, 1..40), slots in 251u32..3_000,
    ) {
        let slots = prime_from(slots);
        let reals = (0..).zip(&weights).map(|(number, weight)| real(number, *weight));
        let reals: Vec<_> = reals.collect();
        let table = table(&reals, slots);
        let has_weight = |index: &u32| *index != NONE && reals[*index as usize].weight > 0;
        if weights.iter().any(|weight| *weight > 0) {
            prop_assert!(table.iter().all(has_weight));
        } else {
            prop_assert!(table.iter().all(|index| *index == NONE));
        }
    }
}
