//! Where the entry of a key is: open addressing over words of eight bytes.

/// A slot without an entry. Others hold the hash above, and the entry's number plus one below.
const FREE: u64 = 0;

/// Entries by 32 bits of their keys' hash. At most half of the slots are taken, so that a search
/// looks at one cache line in most cases. What is removed leaves no mark: what was moved on because
/// of it moves back.
#[derive(Clone, Debug)]
pub(super) struct Index {
    slots: Box<[u64]>,
}

impl Index {
    /// Bytes of a slot.
    pub const SLOT_BYTES: usize = size_of::<u64>();

    /// Slots for `entries`: a power of two, at least twice as many.
    pub const fn slots_for(entries: usize) -> usize {
        (2 * entries).next_power_of_two()
    }

    pub fn new(slots: usize) -> Index {
        Index { slots: vec![FREE; slots].into() }
    }

    /// All slots.
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// The slot where the search for this hash begins.
    #[inline]
    pub fn slot(&self, hash: u32) -> &u64 {
        &self.slots[hash as usize & (self.slots.len() - 1)]
    }

    /// The entry with this hash that `is_it`.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == FREE {
                return None;
            }
            if (slot >> 32) as u32 == hash && is_it(slot as u32 - 1) {
                return Some(slot as u32 - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry that is not there.
    pub fn insert(&mut self, hash: u32, entry: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = u64::from(hash) << 32 | (u64::from(entry) + 1);
    }

    /// Removes an entry that is there.
    pub fn remove(&mut self, hash: u32, entry: u32) {
        let mask = self.slots.len() - 1;
        let mut free = hash as usize & mask;
        while self.slots[free] as u32 != entry + 1 {
            free = (free + 1) & mask;
        }
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == FREE {
                break;
            }
            // A slot may move to the free place if that is no further from its home than it is.
            let home = (slot >> 32) as usize & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
        }
        self.slots[free] = FREE;
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.slots.fill(FREE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::Random;
    use std::collections::HashMap;

    #[test]
    fn it_finds_what_a_map_finds_whatever_comes_and_goes() {
        let mut random = Random::new(3);
        let (mut index, mut map) = (Index::new(Index::slots_for(100)), HashMap::new());
        for _ in 0..50_000 {
            let entry = random.below(100) as u32;
            // Few hashes, so that many meet; some at the end of the slots, so that they wrap.
            match map.remove(&entry) {
                Some(hash) => index.remove(hash, entry),
                None => {
                    let hash = (random.below(8) * 37) as u32 | 0xffff_ff00;
                    index.insert(hash, entry);
                    map.insert(entry, hash);
                }
            }
            for entry in 0..100 {
                let found = (0..8)
                    .map(|n| (n * 37) as u32 | 0xffff_ff00)
                    .find(|&hash| index.find(hash, |there| there == entry) == Some(entry));
                assert_eq!(found, map.get(&entry).copied());
            }
        }
    }
}
