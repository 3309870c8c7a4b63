//! A table of what was seen last, flows for one, that takes the same memory whatever comes.

mod index;

use foldhash::quality::RandomState;
use index::Index;
use std::hash::{BuildHasher, Hash};
use std::mem::MaybeUninit;

/// Values among which the one that was not seen for longest goes, when the table is full. They lie
/// side by side, and the next time the next ones are looked at. So what goes is among the oldest
/// eighth in half of the cases, at the price of a few cache lines.
const VICTIMS: usize = 8;

/// No place, at the end of the list of those that are free. The index has room for fewer.
const NONE: u32 = u32::MAX;

/// Values by key, as many as there is room for. One more displaces one that was not seen for long.
/// Without the seed of the hash no sender can choose keys that fall on each other.
///
/// A value keeps its place until it is removed, so that more of it can be kept elsewhere by the
/// number of its place. What a caller who knows the next keys can have fetched ahead is what a hash
/// leads to: the [`slot`](RecentTable::slot) of the index, and the place that this
/// [names](RecentTable::likely).
#[derive(Clone, Debug)]
pub struct RecentTable<K, V> {
    index: Index,
    /// Those that were ever taken; memory for all is reserved.
    places: Vec<Place<K, V>>,
    /// The first of the free ones among them, of which each names the next.
    free: u32,
    values: usize,
    values_max: usize,
    hasher: RandomState,
    /// Where [`sweep`](RecentTable::sweep) goes on.
    hand: usize,
    /// Where the next value that must go is looked for.
    victims: usize,
}

/// Places without contents yet.
pub type Unused<K, V> = [MaybeUninit<Place<K, V>>];

/// A place of the table.
#[derive(Clone, Debug)]
pub enum Place<K, V> {
    /// With a value.
    Taken(Entry<K, V>),
    /// Without, and the place that is free after this one.
    Free(u32),
}

/// A value with its key. It begins with a line of the cache, and its fields lie in this order.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Entry<K, V> {
    key: K,
    /// When it was seen last, in whatever counts up; 0 for one that is to be the first to go.
    pub seen: u64,
    /// The value.
    pub value: V,
    hash: u32,
}

/// A value in the table.
#[derive(Debug)]
pub struct Entered<'t, V> {
    /// The value, to be changed in place.
    pub value: &'t mut V,
    /// When it was seen; it may be set to 0, so that the value goes before others.
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

impl<K, V> Entry<K, V> {
    /// The key of the value.
    #[inline]
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K, V> RecentTable<K, V> {
    /// Bytes of one place, without its part of the index.
    pub const PLACE_BYTES: usize = size_of::<Place<K, V>>();

    /// Bytes that a table takes.
    pub const fn bytes(values_max: usize) -> usize {
        values_max * Self::PLACE_BYTES + Index::slots_for(values_max) * Index::SLOT_BYTES
    }

    /// The most values for which a table, and `elsewhere_bytes` more for each, fit into `bytes`: by
    /// the size of the index, a power of two, that leaves the most room.
    pub fn values_in(bytes: usize, elsewhere_bytes: usize) -> usize {
        let values = |slots: usize| {
            let left = bytes.saturating_sub(slots * Index::SLOT_BYTES);
            (left / (Self::PLACE_BYTES + elsewhere_bytes)).min(slots / 2)
        };
        let most = (4..31).map(|power| values(1 << power)).max();
        most.expect("there are powers")
    }
}

impl<K: Copy + Eq + Hash, V> RecentTable<K, V> {
    /// Room for `values_max` values.
    ///
    /// # Panics
    /// For none, or more than 2^29.
    pub fn new(values_max: usize) -> RecentTable<K, V> {
        assert!((1..=1 << 29).contains(&values_max), "{values_max} values");
        RecentTable {
            index: Index::new(Index::slots_for(values_max)),
            places: Vec::with_capacity(values_max),
            free: NONE,
            values: 0,
            values_max,
            hasher: RandomState::default(),
            hand: 0,
            victims: 0,
        }
    }

    /// The value of a key, if it is there; it is not seen by this.
    pub fn get(&mut self, key: &K) -> Option<Entered<'_, V>> {
        let at = self.find(key, self.hash(key))?;
        let Entry { value, seen, .. } = self.at_mut(at);
        Some(Entered { value, seen_before: Some(*seen), seen })
    }

    /// The value of a key, seen `now`, in whatever counts up. One that is not there is made by
    /// `fresh`, of what goes for it if the table is full.
    pub fn enter(
        &mut self,
        key: K,
        now: u64,
        fresh: impl FnOnce(Option<Gone<K, V>>) -> V,
    ) -> Entered<'_, V> {
        let hash = self.hash(&key);
        let known = self.find(&key, hash);
        let at = known.unwrap_or_else(|| {
            let gone = self.must_go().map(|oldest| self.remove(oldest));
            self.put(key, hash, now, fresh(gone))
        });
        let Entry { value, seen, .. } = self.at_mut(at);
        let seen_before = known.map(|_| *seen);
        // What counts up may go back: a clock does.
        *seen = (*seen).max(now);
        Entered { value, seen, seen_before }
    }

    /// Shows the values of the next `places_max` places in turn, at most all; removes those not to
    /// be kept.
    pub fn sweep(&mut self, places_max: usize, mut keep: impl FnMut(&K, u64, &mut V) -> bool) {
        for _ in 0..places_max.min(self.values_max) {
            let at = self.hand;
            self.hand = (at + 1) % self.values_max;
            let Some(Place::Taken(entry)) = self.places.get_mut(at) else { continue };
            if !keep(&entry.key, entry.seen, &mut entry.value) {
                self.remove(at);
            }
        }
    }

    /// Values that there is room for.
    pub fn values_max(&self) -> usize {
        self.values_max
    }

    /// Values that are there.
    pub fn values(&self) -> usize {
        self.values
    }

    /// The hash of a key, by which it is found.
    #[inline]
    pub fn hash(&self, key: &K) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// What a search for a hash looks at first.
    #[inline]
    pub fn slot(&self, hash: u32) -> &u64 {
        self.index.slot(hash)
    }

    /// What it looks at next: most likely the place of the key with this hash.
    #[inline]
    pub fn likely(&self, hash: u32) -> Option<&Place<K, V>> {
        self.index.find(hash, |_| true).map(|at| &self.places[at as usize])
    }

    /// The place of a key, whose hash this is.
    #[inline]
    pub fn find(&self, key: &K, hash: u32) -> Option<usize> {
        let is_it = |at: u32| match &self.places[at as usize] {
            Place::Taken(entry) => entry.key == *key,
            Place::Free(_) => false,
        };
        self.index.find(hash, is_it).map(|at| at as usize)
    }

    /// True if there is a value at a place.
    pub fn is_taken(&self, at: usize) -> bool {
        matches!(self.places.get(at), Some(Place::Taken(_)))
    }

    /// The value at a place.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn at(&self, at: usize) -> &Entry<K, V> {
        match &self.places[at] {
            Place::Taken(entry) => entry,
            Place::Free(_) => panic!("no value at place {at}"),
        }
    }

    /// The value at a place, to be changed.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn at_mut(&mut self, at: usize) -> &mut Entry<K, V> {
        match &mut self.places[at] {
            Place::Taken(entry) => entry,
            Place::Free(_) => panic!("no value at place {at}"),
        }
    }

    /// The value that has to go before another is put into a table that is full.
    #[inline]
    pub fn must_go(&mut self) -> Option<usize> {
        if self.values < self.values_max {
            return None;
        }
        let places = (self.victims..self.victims + VICTIMS).map(|at| at % self.values_max);
        let oldest = places.min_by_key(|&at| self.at(at).seen);
        self.victims = (self.victims + VICTIMS) % self.values_max;
        oldest
    }

    /// Puts a value, seen `now`, under a key that is not there; its place.
    ///
    /// # Panics
    /// There is no room.
    #[inline]
    pub fn put(&mut self, key: K, hash: u32, now: u64, value: V) -> usize {
        assert!(self.values < self.values_max, "{} values are all there is room for", self.values);
        self.values += 1;
        let place = Place::Taken(Entry { key, seen: now, value, hash });
        let at = match self.places.get(self.free as usize) {
            Some(&Place::Free(next)) => {
                let at = std::mem::replace(&mut self.free, next) as usize;
                self.places[at] = place;
                at
            }
            _ => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.index.insert(hash, at as u32);
        at
    }

    /// Removes the value at a place.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn remove(&mut self, at: usize) -> Gone<K, V> {
        let Place::Taken(entry) = std::mem::replace(&mut self.places[at], Place::Free(self.free))
        else {
            panic!("no value at place {at}")
        };
        self.free = at as u32;
        self.values -= 1;
        self.index.remove(entry.hash, at as u32);
        Gone { key: entry.key, seen: entry.seen, value: entry.value }
    }

    /// All values with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Entry<K, V>)> {
        self.places.iter().enumerate().filter_map(|(at, place)| match place {
            Place::Taken(entry) => Some((at, entry)),
            Place::Free(_) => None,
        })
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.index.clear();
        self.places.clear();
        (self.free, self.values, self.hand, self.victims) = (NONE, 0, 0, 0);
    }

    /// Its memory that has no contents yet, and the index: for advice to the kernel.
    pub fn memory(&mut self) -> (&Unused<K, V>, &[u64]) {
        (self.places.spare_capacity_mut(), self.index.slots())
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
        assert_eq!((left.len(), gone), (VALUES_MAX, count - VALUES_MAX as u64));
        // Whatever was seen at once lies side by side here, and the oldest of eight goes.
        let newest = left.iter().filter(|&&seen| seen >= count - VALUES_MAX as u64 / 2).count();
        assert_eq!(newest, VALUES_MAX / 2, "none of the newest is gone");
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

    #[test]
    fn a_value_keeps_its_place_which_its_hash_leads_to() {
        let mut table = RecentTable::new(50);
        let mut places = std::collections::BTreeMap::new();
        let mut random = ringside_testkit::Random::new(5);
        for now in 0..10_000 {
            let key = random.below(80) as u64;
            let hash = table.hash(&key);
            assert_eq!(table.find(&key, hash), places.get(&key).copied());
            match places.remove(&key) {
                Some(at) if random.below(3) == 0 => {
                    assert_eq!(table.remove(at).key, key);
                }
                Some(at) => {
                    assert_eq!((*table.at(at).key(), table.at(at).value), (key, 3 * key));
                    assert!(matches!(table.likely(hash), Some(Place::Taken(_))));
                    places.insert(key, at);
                }
                None => {
                    if let Some(oldest) = table.must_go() {
                        assert_eq!(places.len(), 50);
                        places.remove(&table.remove(oldest).key);
                    }
                    places.insert(key, table.put(key, hash, now, 3 * key));
                }
            }
            assert_eq!(table.values(), places.len());
        }
        let all: std::collections::BTreeMap<_, _> =
            table.iter().map(|(at, entry)| (*entry.key(), at)).collect();
        assert_eq!(all, places);
        table.clear();
        assert_eq!(
            (table.values(), table.iter().count(), table.find(&1, table.hash(&1))),
            (0, 0, None)
        );
    }

    #[test]
    fn it_fits_into_the_memory_that_it_was_asked_for() {
        type Table = RecentTable<u64, u64>;
        for bytes in [1_000, 5_000_000, 1 << 28] {
            let values = Table::values_in(bytes, 16);
            let taken = Table::bytes(values) + 16 * values;
            assert!(taken <= bytes && taken > bytes / 2, "{taken} of {bytes}");
            let mut table = Table::new(values);
            let (places, slots) = table.memory();
            let reserved = size_of_val(places) + size_of_val(slots);
            assert!((Table::bytes(values)..=bytes).contains(&reserved));
        }
    }
}
