//! An index of what frames bear: addresses with ports, addresses alone, server ids.
//!
//! Open addressing, read by the program in the driver as well. Every key lies within a bounded
//! number of places from where its hash says; the builder tries seeds until that holds.

use crate::hash::{SEED_KEYS, hash};

/// Places that are looked at for a key.
pub const PROBES_MAX: usize = 16;
/// Entries for each key, at least: most look-ups need one place.
const ENTRIES_PER_KEY: usize = 4;
/// The smallest index.
const ENTRIES_MIN: usize = 64;
/// Seeds that are tried before the index is made twice as large. One in many thousand fails.
const SEEDS: u64 = 16;

/// Addresses and a port: what the bits above the kind say.
pub const KIND_VIP: u64 = 1;
/// An address of any VIP.
pub const KIND_ADDRESS: u64 = 2;
/// A server id of a VIP.
pub const KIND_SERVER: u64 = 3;

/// What is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Words of the masked address; of a server id, that and the VIP.
    pub words: [u64; 2],
    /// The kind in the lowest byte, above it what belongs to the kind.
    pub what: u64,
}

impl Key {
    /// A VIP: masked address, its version and bits of prefix, port (0: any) and protocol.
    pub fn vip(words: [u64; 2], version: u8, bits: u8, port: u16, protocol: u8) -> Key {
        let what = KIND_VIP | u64::from(bits) << 8 | u64::from(protocol) << 16;
        Key { words, what: what | u64::from(version) << 24 | u64::from(port) << 32 }
    }

    /// A masked address.
    pub fn address(words: [u64; 2], version: u8, bits: u8) -> Key {
        Key { words, what: KIND_ADDRESS | u64::from(bits) << 8 | u64::from(version) << 24 }
    }

    /// A server's id in a configuration of QUIC-LB.
    pub fn server(vip: u32, rotation: u8, number: u64) -> Key {
        Key { words: [number, vip.into()], what: KIND_SERVER | u64::from(rotation) << 8 }
    }
}

/// An entry; with `value` 0 it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEntry {
    /// What was put there.
    pub key: Key,
    /// The number that belongs to it, and 1.
    pub value: u64,
}

/// The index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Of the hash.
    pub seed: u64,
    /// A power of two.
    pub entries: Vec<KeyEntry>,
}

impl Keys {
    /// An index of `keys` with their numbers; of equal keys the first counts.
    pub fn new(keys: &[(Key, u32)]) -> Keys {
        let mut count = (keys.len() * ENTRIES_PER_KEY).next_power_of_two().max(ENTRIES_MIN);
        loop {
            for seed in (0..SEEDS).map(|number| SEED_KEYS + number) {
                let mut index = Keys { seed, entries: vec![KeyEntry::default(); count] };
                if keys.iter().all(|(key, number)| index.add(*key, *number)) {
                    return index;
                }
            }
            // Ends at the latest when no two keys share a run of places.
            count *= 2;
        }
    }

    /// The number of a key.
    pub fn get(&self, key: &Key) -> Option<u32> {
        for at in self.places(key) {
            let entry = &self.entries[at];
            if entry.value == 0 {
                return None;
            }
            if entry.key == *key {
                return Some((entry.value - 1) as u32);
            }
        }
        None
    }

    fn add(&mut self, key: Key, number: u32) -> bool {
        for at in self.places(&key) {
            let entry = &mut self.entries[at];
            if entry.value != 0 && entry.key == key {
                return true;
            }
            if entry.value == 0 {
                *entry = KeyEntry { key, value: u64::from(number) + 1 };
                return true;
            }
        }
        false
    }

    fn places(&self, key: &Key) -> impl Iterator<Item = usize> + use<> {
        let [high, low] = key.words;
        let first = hash(self.seed, &[high, low, key.what]) as usize;
        let mask = self.entries.len() - 1;
        (0..PROBES_MAX).map(move |step| first.wrapping_add(step) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::Random;
    use std::collections::BTreeMap;

    #[test]
    fn every_key_is_found_and_no_other() {
        let mut random = Random::new(5);
        for count in [0, 1, 3, 100, 5_000, 80_000] {
            let mut all = BTreeMap::new();
            while all.len() < count {
                // Few different words, so that keys differ in one part alone.
                let words = [random.below(300) as u64, random.below(300) as u64];
                let key = Key::vip(words, 4, random.below(33) as u8, random.below(9) as u16, 6);
                all.insert(key, all.len() as u32);
            }
            let list: Vec<(Key, u32)> = all.iter().map(|(key, number)| (*key, *number)).collect();
            let keys = Keys::new(&list);
            assert!(list.iter().all(|(key, number)| keys.get(key) == Some(*number)));
            for _ in 0..1_000 {
                let words = [random.below(300) as u64, random.below(300) as u64];
                let key = Key::vip(words, 4, random.below(33) as u8, random.below(9) as u16, 6);
                assert_eq!(keys.get(&key), all.get(&key).copied());
            }
        }
    }

    #[test]
    fn kinds_are_apart_and_the_first_of_equal_keys_counts() {
        let words = [1, 2];
        let list = [
            (Key::vip(words, 4, 32, 80, 6), 1),
            (Key::vip(words, 4, 32, 80, 17), 2),
            (Key::vip(words, 6, 32, 80, 6), 3),
            (Key::address(words, 4, 32), 4),
            (Key::server(2, 0, 1), 5),
            (Key::address(words, 4, 32), 6),
        ];
        let keys = Keys::new(&list);
        let found: Vec<_> = list.iter().map(|(key, _)| keys.get(key)).collect();
        assert_eq!(found, [1, 2, 3, 4, 5, 4].map(Some));
    }
}
