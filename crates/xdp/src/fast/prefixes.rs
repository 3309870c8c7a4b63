//! Prefixes of IPv4 in hash tables, one for each of four lengths and each side. A prefix of another
//! length is in them as all longer ones that make it up.
//!
//! The words of a table lie in the order of their first places, each at that or as soon behind it
//! as there is room. So the way from the first place is short for all, and most keys cost one line
//! of memory.

use ringside_ebpf::abi::fast::{LEVELS, PROBES_MAX, Table, place};

/// Keys of all tables: 64 MB at most.
const KEYS_MAX: usize = 1 << 21;
/// How often a table is doubled in which a key has no place.
const DOUBLINGS_MAX: u32 = 3;

/// The first bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub bits: u32,
    pub length: u32,
}

impl Prefix {
    /// Adds the fewest prefixes that make up the addresses from `first` to `last`.
    pub fn split(first: u32, last: u32, to: &mut Vec<Prefix>) {
        let (mut at, last) = (u64::from(first), u64::from(last));
        while at <= last {
            // The longest run that begins here with a border and does not pass the end.
            let host_bits = at.trailing_zeros().min(32).min((last - at + 1).ilog2());
            to.push(Prefix { bits: at as u32, length: 32 - host_bits });
            at += 1 << host_bits;
        }
    }

    /// The table that it is in, and how many keys it takes there.
    fn level(self) -> (usize, usize) {
        let level = LEVELS.iter().rposition(|length| *length >= self.length).unwrap_or_default();
        (level, 1 << (LEVELS[level] - self.length))
    }

    pub fn keys(self) -> usize {
        self.level().1
    }
}

/// The prefixes of all rules, with their entries, by side and length.
#[derive(Default)]
pub(super) struct Prefixes {
    lists: [[Vec<(u32, u32)>; LEVELS.len()]; 2],
    count: usize,
}

impl Prefixes {
    /// True if there is room for as many keys more.
    pub fn has_room(&self, keys: usize) -> bool {
        self.count + keys <= KEYS_MAX
    }

    pub fn add(&mut self, side: usize, prefix: Prefix, entry: u32) {
        let (level, keys) = prefix.level();
        let host_bits = 32 - LEVELS[level];
        let key = |at: usize| (prefix.bits + ((at as u32) << host_bits), entry);
        self.lists[side][level].extend((0..keys).map(key));
        self.count += keys;
    }

    /// All tables, one behind the other, and where each is; none if a key finds no place.
    pub fn placed(self, seed: u64) -> Option<(Vec<u64>, [[Table; LEVELS.len()]; 2])> {
        let mut words = Vec::new();
        let mut tables = [[Table::NONE; LEVELS.len()]; 2];
        for (mut list, table) in
            self.lists.into_iter().flatten().zip(tables.as_flattened_mut().iter_mut())
        {
            if list.is_empty() {
                continue;
            }
            list.sort_unstable();
            // The first rule that names a prefix decides.
            list.dedup_by_key(|(prefix, _)| *prefix);
            let (part, mask) = table_of(&list, seed)?;
            *table = Table { first: words.len() as u32, mask };
            words.extend(part);
        }
        Some((words, tables))
    }
}

/// The words of a table, and its mask. At most half of its places are taken.
fn table_of(list: &[(u32, u32)], seed: u64) -> Option<(Vec<u64>, u32)> {
    let places = (2 * list.len()).next_power_of_two();
    (0..=DOUBLINGS_MAX).find_map(|doublings| {
        let mask = (places << doublings) as u32 - 1;
        let mut words: Vec<(u32, u64)> = list
            .iter()
            .map(|(prefix, entry)| {
                (place(seed, *prefix, mask), u64::from(*prefix) << 32 | u64::from(*entry))
            })
            .collect();
        words.sort_unstable();
        let mut table = vec![0; mask as usize + PROBES_MAX];
        let mut free = 0;
        for (first, word) in words {
            let at = free.max(first as usize);
            if at - first as usize >= PROBES_MAX {
                return None;
            }
            table[at] = word;
            free = at + 1;
        }
        Some((table, mask))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the program looks.
    fn find(words: &[u64], table: Table, seed: u64, prefix: u32) -> Option<u32> {
        let first = (table.first + place(seed, prefix, table.mask)) as usize;
        let words = words[first..first + PROBES_MAX].iter().take_while(|word| **word != 0);
        words.copied().find(|word| (word >> 32) as u32 == prefix).map(|word| word as u32)
    }

    fn first_rule(
        words: &[u64],
        tables: &[Table; LEVELS.len()],
        seed: u64,
        address: u32,
    ) -> Option<u32> {
        let found = tables.iter().zip(LEVELS).filter(|(table, _)| **table != Table::NONE);
        let found = found.filter_map(|(table, length)| {
            find(words, *table, seed, address & u32::MAX << (32 - length))
        });
        found.min()
    }

    proptest! {
        #[test]
        fn spans_are_found_as_they_were_added(
            spans in prop::collection::vec((any::<u32>(), 0u32..100_000), 1..20),
            seed in any::<u64>(),
        ) {
            let mut prefixes = Prefixes::default();
            let spans: Vec<(u32, u32)> =
                spans.iter().map(|(first, more)| (*first, first.saturating_add(*more))).collect();
            for (entry, (first, last)) in (1..).zip(&spans) {
                let mut list = Vec::new();
                Prefix::split(*first, *last, &mut list);
                list.into_iter().for_each(|prefix| prefixes.add(0, prefix, entry));
            }
            let (words, [sources, destinations]) = prefixes.placed(seed).unwrap();
            prop_assert_eq!(destinations, [Table::NONE; LEVELS.len()]);
            let ends = spans.iter().flat_map(|(first, last)| {
                [first.wrapping_sub(1), *first, first.midpoint(*last), *last, last.wrapping_add(1)]
            });
            for address in ends {
                let is_in = |(first, last): &(u32, u32)| (*first..=*last).contains(&address);
                let expected = spans.iter().position(is_in).map(|at| at as u32 + 1);
                prop_assert_eq!(first_rule(&words, &sources, seed, address), expected);
            }
        }
    }

    #[test]
    fn all_addresses_are_prefixes_too() {
        let mut list = Vec::new();
        Prefix::split(0, u32::MAX, &mut list);
        assert_eq!(list, [Prefix { bits: 0, length: 0 }]);
        assert_eq!((list[0].level(), list[0].keys()), ((3, 256), 256));
        let one = Prefix { bits: 1, length: 32 };
        assert_eq!(one.level(), (0, 1));
        let (part, keys) = Prefix { bits: 0, length: 17 }.level();
        assert_eq!((LEVELS[part], keys), (24, 128));
    }

    #[test]
    fn a_hundred_thousand_addresses_have_places_in_a_few_megabytes() {
        for step in [1u32, 256, 257, 65_536 / 2] {
            let list: Vec<(u32, u32)> =
                (0..100_000u32).map(|at| (at.wrapping_mul(step), 1)).collect();
            let mut list = list;
            list.sort_unstable();
            list.dedup();
            let (words, _) = table_of(&list, 0x1234_5678_9abc_def0).unwrap();
            assert!(words.len() <= 1 << 20, "{step}: {}", words.len());
        }
    }
}
