//! Exact rules: those of one conversation, found by one look into a hash table.
//!
//! A rule's words and where they are found lie in [`Memory`]; for most packets without a rule a
//! Bloom filter in front says so. One writer, the [`ExactEditor`], changes them under any
//! number of readers: a rule is written before anything leads to it, and what a reader may still be
//! looking at is used again only after [`ExactEditor::reclaim`].

use crate::key::Key;
use crate::memory::{BUCKET_WORDS, Control, FLOW_WORDS, Memory};
use crate::table::{Found, Full};
use foldhash::fast::RandomState;
use ringside_sys::words::Words64;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;

/// Words of a flow: the key, then these.
const FOUND_AT: usize = 5;
const NEXT_AT: usize = 6;
/// The end of a chain, and a place that is free.
const NONE: u64 = 0;
/// Factor between the two buckets of a key.
const SECOND_FACTOR: u32 = 0x5bd1_e995;
/// The bits of a hash that choose the word of the Bloom filter begin here.
const BLOOM_SHIFT: u32 = 12;
/// A counter that has come here stays: its bit is not cleared any more.
const STUCK: u8 = u8::MAX;

/// The rules as readers see them. Clones are the same rules.
#[derive(Clone, Debug)]
pub struct ExactTable {
    flows: Words64,
    buckets: Words64,
    bloom: Words64,
    seed: u64,
    bucket_mask: u64,
    bloom_mask: u64,
}

impl ExactTable {
    /// The rules that lie in `memory`, which an editor was made for.
    pub fn of(memory: &Memory) -> ExactTable {
        ExactTable {
            flows: memory.flows.clone(),
            buckets: memory.buckets.clone(),
            bloom: memory.bloom.clone(),
            seed: memory.get(Control::Seed),
            bucket_mask: memory.get(Control::BucketMask),
            bloom_mask: memory.get(Control::BloomMask),
        }
    }

    /// The hash of a key, which [`find`](ExactTable::find) wants.
    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        key.hash(self.seed)
    }

    /// The rules of a packet, by rising number.
    #[inline]
    pub fn find(&self, key: &Key, hash: u64) -> Chain<'_> {
        let word = &self.bloom[(hash >> BLOOM_SHIFT & self.bloom_mask) as usize];
        let bits = bloom_bits(hash);
        let place = match word.load(Ordering::Acquire) & bits == bits {
            true => self.place(key, hash),
            false => None,
        };
        Chain { flows: &self.flows, next: place.map_or(NONE, |(_, flow)| flow) }
    }

    /// The word of the buckets that leads to a key, and its first flow. The word is read once:
    /// where one key goes another may come at any time.
    fn place(&self, key: &Key, hash: u64) -> Option<(usize, u64)> {
        let tag = hash & !INDEX;
        let mut words = self.places(hash).into_iter().flat_map(|first| first..first + BUCKET_WORDS);
        words.find_map(|at| {
            let word = self.buckets[at].load(Ordering::Acquire);
            let flow = word & INDEX;
            let is_it = word & !INDEX == tag && flow != NONE && self.has_key(flow, key);
            is_it.then_some((at, flow))
        })
    }

    /// First words of the two buckets that a key may be in.
    fn places(&self, hash: u64) -> [usize; 2] {
        let first = hash & self.bucket_mask;
        let tag = (hash >> 32) as u32;
        let second = (first ^ u64::from(tag.wrapping_mul(SECOND_FACTOR))) & self.bucket_mask;
        [first, second].map(|bucket| bucket as usize * BUCKET_WORDS)
    }

    fn has_key(&self, flow: u64, key: &Key) -> bool {
        let at = flow as usize * FLOW_WORDS;
        key.words().iter().zip(&self.flows[at..]).all(|(a, b)| *a == b.load(Ordering::Relaxed))
    }
}

/// The half of a bucket's word that leads to a flow; the other half is of the hash.
const INDEX: u64 = u32::MAX as u64;

#[inline]
fn bloom_bits(hash: u64) -> u64 {
    let tag = hash >> 32;
    [0, 6, 12, 18].iter().fold(0, |bits, shift| bits | 1 << (tag >> shift & 63))
}

/// The exact rules of a packet.
#[derive(Debug)]
pub struct Chain<'t> {
    flows: &'t Words64,
    next: u64,
}

impl Iterator for Chain<'_> {
    type Item = Found;

    #[inline]
    fn next(&mut self) -> Option<Found> {
        if self.next == NONE {
            return None;
        }
        let at = self.next as usize * FLOW_WORDS;
        self.next = self.flows[at + NEXT_AT].load(Ordering::Acquire);
        Some(Found::of_word(self.flows[at + FOUND_AT].load(Ordering::Relaxed)))
    }
}

/// The rules as they are changed, by one at a time.
#[derive(Debug)]
pub struct ExactEditor {
    table: ExactTable,
    memory: Memory,
    /// How many keys have set each bit of the Bloom filter.
    counters: Vec<u8>,
    /// Flows that were ever used.
    used: u64,
    free: Vec<u64>,
    /// Given back since the last reclaim.
    retired: Vec<u64>,
    count: u64,
}

impl ExactEditor {
    /// No rules, in memory that is all 0.
    pub fn new(memory: &Memory) -> ExactEditor {
        // The same in all runs of a model, which go the same ways.
        let seed = if cfg!(feature = "loom") { 0 } else { RandomState::default().hash_one(0) };
        memory.set(Control::Seed, seed);
        memory.set(Control::BucketMask, memory.layout.buckets as u64 - 1);
        memory.set(Control::BloomMask, memory.layout.bloom as u64 - 1);
        ExactEditor {
            table: ExactTable::of(memory),
            counters: vec![0; memory.layout.bloom * 64],
            memory: memory.clone(),
            used: 1,
            free: Vec::new(),
            retired: Vec::new(),
            count: 0,
        }
    }

    /// What readers look at.
    pub fn table(&self) -> &ExactTable {
        &self.table
    }

    /// How many rules there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a rule for a conversation; its id is new there. Readers see it from its end on.
    ///
    /// # Errors
    /// There is no room; the rules are as they were.
    pub fn add(&mut self, key: &Key, found: Found) -> Result<(), Full> {
        self.add_noted(key, found, 0)
    }

    /// The same, with a note next to the rule, for readers of the memory that know its meaning.
    ///
    /// # Errors
    /// As of [`add`](Self::add).
    pub fn add_noted(&mut self, key: &Key, found: Found, note: u64) -> Result<(), Full> {
        let hash = self.table.hash(key);
        let place = self.table.place(key, hash);
        let free = match place {
            Some((at, _)) => at,
            None => self.free_place(hash).ok_or(Full::Exact)?,
        };
        let flow = self.take().ok_or(Full::Exact)?;
        let (before, after) = self.neighbours(place.map_or(NONE, |(_, flow)| flow), found.id);
        self.write(flow, key, [found.to_word(), after, note]);
        match before {
            Some(before) => self.lead(before, flow),
            None => {
                if place.is_none() {
                    self.note(hash);
                }
                self.table.buckets[free].store(hash & !INDEX | flow, Ordering::Release);
            }
        }
        self.set_count(self.count + 1);
        Ok(())
    }

    /// Removes the rule `id` of a conversation; false if there is none.
    pub fn remove(&mut self, key: &Key, id: u32) -> bool {
        let hash = self.table.hash(key);
        let Some((at, first)) = self.table.place(key, hash) else { return false };
        let (before, flow) = self.neighbours(first, id);
        if flow == NONE || self.found(flow).id != id {
            return false;
        }
        let next = self.next(flow);
        match (before, next) {
            (Some(before), next) => self.lead(before, next),
            (None, NONE) => {
                self.table.buckets[at].store(0, Ordering::Release);
                self.forget(hash);
            }
            (None, next) => {
                self.table.buckets[at].store(hash & !INDEX | next, Ordering::Release);
            }
        }
        self.retired.push(flow);
        self.set_count(self.count - 1);
        true
    }

    /// Makes what was removed free for new rules. No reader that began before the last change may
    /// still be at work.
    pub fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
    }

    /// Rules that were removed and not reclaimed.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// In the chain from `first` on: the last flow below `id`, and the one behind it.
    fn neighbours(&self, first: u64, id: u32) -> (Option<u64>, u64) {
        let (mut before, mut flow) = (None, first);
        while flow != NONE && self.found(flow).id < id {
            (before, flow) = (Some(flow), self.next(flow));
        }
        (before, flow)
    }

    /// A free word in the emptier of a key's buckets.
    fn free_place(&self, hash: u64) -> Option<usize> {
        let free = |first: usize| {
            let words = &self.table.buckets[first..first + BUCKET_WORDS];
            let mut free = (first..).zip(words).filter(|(_, w)| w.load(Ordering::Relaxed) == 0);
            let place = free.next().map(|(at, _)| at);
            (place.is_some(), free.count(), place)
        };
        let [first, second] = self.table.places(hash).map(free);
        first.max(second).2
    }

    fn take(&mut self) -> Option<u64> {
        let end = (self.table.flows.len() / FLOW_WORDS) as u64;
        self.free.pop().or_else(|| {
            let flow = (self.used < end).then_some(self.used)?;
            self.used += 1;
            Some(flow)
        })
    }

    fn write(&self, flow: u64, key: &Key, [found, next, note]: [u64; 3]) {
        let [a, b, c, d, e] = key.words();
        let words = [a, b, c, d, e, found, next, note];
        let at = flow as usize * FLOW_WORDS;
        for (place, word) in self.table.flows[at..].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    fn found(&self, flow: u64) -> Found {
        let at = flow as usize * FLOW_WORDS + FOUND_AT;
        Found::of_word(self.table.flows[at].load(Ordering::Relaxed))
    }

    fn next(&self, flow: u64) -> u64 {
        self.table.flows[flow as usize * FLOW_WORDS + NEXT_AT].load(Ordering::Relaxed)
    }

    fn lead(&self, flow: u64, next: u64) {
        self.table.flows[flow as usize * FLOW_WORDS + NEXT_AT].store(next, Ordering::Release);
    }

    /// Sets a key's bits in the Bloom filter.
    fn note(&mut self, hash: u64) {
        let word = (hash >> BLOOM_SHIFT & self.table.bloom_mask) as usize;
        let bits = bloom_bits(hash);
        for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
            let counter = &mut self.counters[word * 64 + bit];
            *counter = counter.saturating_add(1);
        }
        let before = self.table.bloom[word].load(Ordering::Relaxed);
        self.table.bloom[word].store(before | bits, Ordering::Release);
    }

    /// Clears those that no other key has set.
    fn forget(&mut self, hash: u64) {
        let word = (hash >> BLOOM_SHIFT & self.table.bloom_mask) as usize;
        let bits = bloom_bits(hash);
        let mut left = self.table.bloom[word].load(Ordering::Relaxed);
        for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
            let counter = &mut self.counters[word * 64 + bit];
            if *counter < STUCK {
                *counter -= 1;
            }
            if *counter == 0 {
                left &= !(1 << bit);
            }
        }
        self.table.bloom[word].store(left, Ordering::Release);
    }

    fn set_count(&mut self, count: u64) {
        self.count = count;
        self.memory.set(Control::Exact, count);
        self.memory.changed();
    }
}

#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
