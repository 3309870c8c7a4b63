//! A table of what was seen last, flows for one, that takes the same memory whatever comes.

use foldhash::quality::RandomState;
use std::hash::{BuildHasher, Hash};

/// Entries of a set. A key has one set, and is found by a look at its entries. Eight are enough
/// that the one displaced is among the oldest of the table, and few enough to be looked at.
const SET_ENTRIES: usize = 8;

/// The tag of an entry without a value, and the bit that the tags of all others have.
const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// Values by key, as many as there is room for. One more displaces the one of its set that was not
/// seen for longest. Without the seed no sender can fill one set.
#[derive(Clone, Debug)]
pub struct RecentTable<K, V> {
    /// A part of each key's hash, next to each other, so that a look at a set costs one cache line
    /// and not one for each entry.
    tags: Box<[u32]>,
    entries: Box<[Option<Entry<K, V>>]>,
    hasher: RandomState,
    /// Where [`sweep`](RecentTable::sweep) goes on.
    hand: usize,
}

#[derive(Clone, Debug)]
struct Entry<K, V> {
    key: K,
    seen: u64,
    value: V,
}

/// A value in the table.
#[derive(Debug)]
pub struct Entered<'t, V> {
    /// The value, to be changed in place.
    pub value: &'t mut V,
    /// When it was seen; it may be set to 0, so that the value is the first to go.
    pub seen: &'t mut u64,
    /// When it was seen before; none if it has just been entered.
    pub seen_before: Option<u64>,
}

/// A value that was displaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone<K, V> {
    /// The key of the value.
    pub key: K,
    /// When it was seen last.
    pub seen: u64,
    /// The value as it was.
    pub value: V,
}

impl<K: Copy + Eq + Hash, V> RecentTable<K, V> {
    /// Room for `values_max` values: a power of two, 8 at least.
    ///
    /// # Panics
    /// For another number.
    pub fn new(values_max: usize) -> RecentTable<K, V> {
        assert!(values_max.is_power_of_two() && values_max >= SET_ENTRIES, "{values_max} values");
        let (tags, entries) =
            (vec![FREE; values_max].into(), (0..values_max).map(|_| None).collect());
        RecentTable { tags, entries, hasher: RandomState::default(), hand: 0 }
    }

    /// The value of a key, if it is there; it is not seen by this.
    pub fn get(&mut self, key: &K) -> Option<Entered<'_, V>> {
        let (set, tag) = self.set(key);
        let at = self.find(key, set, tag)?;
        let entry = self.entries[at].as_mut()?;
        let seen_before = Some(entry.seen);
        Some(Entered { value: &mut entry.value, seen: &mut entry.seen, seen_before })
    }

    /// The value of a key, seen `now`, in whatever counts up. One that is not there is made by
    /// `fresh`, of what goes for it if the set is full.
    pub fn enter(
        &mut self,
        key: K,
        now: u64,
        fresh: impl FnOnce(Option<Gone<K, V>>) -> V,
    ) -> Entered<'_, V> {
        let (set, tag) = self.set(&key);
        let known = self.find(&key, set, tag);
        let at = known.unwrap_or_else(|| self.oldest(set));
        let slot = &mut self.entries[at];
        if known.is_none() {
            let gone = slot.take().map(|Entry { key, seen, value }| Gone { key, seen, value });
            *slot = Some(Entry { key, seen: now, value: fresh(gone) });
            self.tags[at] = tag;
        }
        let entry = slot.as_mut().expect("it was known, or has just been put there");
        let seen_before = known.map(|_| entry.seen);
        // What counts up may go back: a clock does.
        entry.seen = entry.seen.max(now);
        Entered { value: &mut entry.value, seen: &mut entry.seen, seen_before }
    }

    /// Shows the next `entries_max` entries in turn, at most all; removes those not to be kept.
    pub fn sweep(&mut self, entries_max: usize, mut keep: impl FnMut(&K, u64, &mut V) -> bool) {
        for _ in 0..entries_max.min(self.entries.len()) {
            let at = self.hand;
            self.hand = (at + 1) % self.entries.len();
            if self.tags[at] == FREE {
                continue;
            }
            let slot = &mut self.entries[at];
            let keeps = |entry: &mut Entry<K, V>| keep(&entry.key, entry.seen, &mut entry.value);
            if !slot.as_mut().is_some_and(keeps) {
                *slot = None;
                self.tags[at] = FREE;
            }
        }
    }

    /// Values that there is room for.
    pub fn values_max(&self) -> usize {
        self.entries.len()
    }

    /// Where the set of a key begins, and the key's tag.
    fn set(&self, key: &K) -> (usize, u32) {
        let (hash, sets) = (self.hasher.hash_one(key), self.entries.len() / SET_ENTRIES);
        (hash as usize % sets * SET_ENTRIES, (hash >> 32) as u32 | TAKEN)
    }

    fn find(&self, key: &K, set: usize, tag: u32) -> Option<usize> {
        let is_it = |at: &usize| {
            let is_there = |entry: &Entry<K, V>| entry.key == *key;
            self.tags[*at] == tag && self.entries[*at].as_ref().is_some_and(is_there)
        };
        (set..set + SET_ENTRIES).find(is_it)
    }

    /// The entry of a set that is to be used. A free one is older than any.
    fn oldest(&self, set: usize) -> usize {
        let age = |at: &usize| match self.tags[*at] {
            FREE => (0, 0),
            _ => (1, self.entries[*at].as_ref().map_or(0, |entry| entry.seen)),
        };
        (set..set + SET_ENTRIES).min_by_key(age).expect("a set has entries")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES_MAX: usize = 1 << 12;

    fn enter(table: &mut RecentTable<u64, u64>, key: u64, now: u64) -> (u64, Option<u64>) {
        let entered = table.enter(key, now, |_| 0);
        *entered.value += 1;
        (*entered.value, entered.seen_before)
    }

    #[test]
    fn it_is_bounded_and_the_oldest_go() {
        let mut table = RecentTable::new(VALUES_MAX);
        let count = 4 * VALUES_MAX as u64;
        let mut gone = 0;
        for key in 0..count {
            table.enter(key, key, |old: Option<Gone<u64, ()>>| gone += u64::from(old.is_some()));
        }
        let mut left = Vec::new();
        table.sweep(usize::MAX, |key, seen, ()| {
            assert_eq!(*key, seen);
            left.push(seen);
            true
        });
        assert_eq!(left.len() as u64, count - gone);
        assert!(left.len() <= VALUES_MAX);
        // That a set of 512 gets more than 8 of the last 256 happens once in half a million runs.
        let newest = left.iter().filter(|&&seen| seen >= count - VALUES_MAX as u64 / 16).count();
        assert_eq!(newest, VALUES_MAX / 16, "none of the newest is gone");
    }

    #[test]
    fn what_is_there_is_found_and_says_when_it_was_seen() {
        let mut table = RecentTable::new(8);
        assert!(table.get(&5).is_none());
        assert_eq!(enter(&mut table, 5, 10), (1, None));
        assert_eq!(enter(&mut table, 5, 30), (2, Some(10)));
        assert_eq!(enter(&mut table, 5, 20), (3, Some(30)), "time went back");
        let entered = table.get(&5).unwrap();
        assert_eq!((*entered.value, *entered.seen, entered.seen_before), (3, 30, Some(30)));
    }

    #[test]
    fn the_first_to_go_is_the_oldest_or_who_was_set_back() {
        let mut table = RecentTable::new(8);
        for key in 0..8 {
            enter(&mut table, key, 10 + key);
        }
        let mut gone = Vec::new();
        let mut more = |table: &mut RecentTable<u64, u64>, key| {
            table.enter(key, 100, |old| {
                gone.extend(old.map(|old| (old.key, old.seen, old.value)));
                0
            });
        };
        more(&mut table, 100);
        *table.get(&6).unwrap().seen = 0;
        more(&mut table, 101);
        more(&mut table, 102);
        assert_eq!(gone, [(0, 10, 1), (6, 0, 1), (1, 11, 1)]);
    }

    #[test]
    fn a_sweep_shows_each_entry_in_turn() {
        let mut table = RecentTable::new(64);
        for key in 0..20 {
            enter(&mut table, key, key);
        }
        let mut shown = Vec::new();
        for _ in 0..16 {
            table.sweep(4, |key, _, _| {
                shown.push(*key);
                key % 2 == 0
            });
        }
        shown.sort_unstable();
        let there = shown.len();
        shown.dedup();
        assert!(there == shown.len() && there <= 20);
        let mut left = 0;
        table.sweep(usize::MAX, |key, _, _| {
            assert_eq!(key % 2, 0);
            left += 1;
            true
        });
        assert_eq!(left, shown.iter().filter(|key| *key % 2 == 0).count());
    }
}
