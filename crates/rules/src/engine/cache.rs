//! Which wildcard rules come into question for a conversation, remembered.

use crate::key::Key;

/// Conversations that are remembered: three times the 10,000 that a busy link has at once, so that
/// one of the two places of each is free; 64 bytes each, in the reach of the second-level cache.
const CONVERSATIONS: usize = if cfg!(feature = "loom") { 2 } else { 32_768 };
/// Rules that are remembered for one; where there are more, all are looked up each time.
const CONTENDERS: usize = 4;

/// The rules that the table finds, as slots, as far as they matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contenders {
    slots: [u32; CONTENDERS],
    /// One more than there is room for: they are not remembered.
    count: u8,
}

impl Contenders {
    pub(super) fn of(slots: &[u32]) -> Contenders {
        let mut contenders = Contenders::default();
        let count = slots.len().min(CONTENDERS);
        contenders.slots[..count].copy_from_slice(&slots[..count]);
        contenders.count = slots.len().min(CONTENDERS + 1) as u8;
        contenders
    }

    /// All of them; none if they are too many to be remembered.
    #[inline]
    pub(super) fn slots(&self) -> Option<&[u32]> {
        self.slots.get(..usize::from(self.count))
    }
}

/// One conversation: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    key: Key,
    contenders: Contenders,
    /// Of the table when it was looked up, its low bits; 0: nothing is here.
    generation: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

/// The memory. A conversation has two places by its hash.
#[derive(Debug)]
pub(super) struct Cache {
    lines: Box<[Line]>,
    /// Which of two places that are taken was overwritten last.
    turn: usize,
}

impl Cache {
    pub(super) fn new() -> Cache {
        let nothing = Line { key: Key::NOT_IP, contenders: Contenders::default(), generation: 0 };
        Cache { lines: vec![nothing; CONVERSATIONS].into(), turn: 0 }
    }

    /// What was remembered at this generation of the table.
    #[inline]
    pub(super) fn get(&self, key: &Key, hash: u64, generation: u64) -> Option<Contenders> {
        let generation = mark(generation);
        let here = |place: usize| {
            let line = &self.lines[place];
            (line.key == *key && line.generation == generation).then_some(line.contenders)
        };
        let [first, second] = places(hash);
        here(first).or_else(|| here(second))
    }

    pub(super) fn put(&mut self, key: &Key, hash: u64, generation: u64, contenders: Contenders) {
        let places = places(hash);
        let generation = mark(generation);
        let is_free = |&&place: &&usize| {
            let line = &self.lines[place];
            line.generation != generation || line.key == *key
        };
        let place = places.iter().find(is_free).copied().unwrap_or_else(|| {
            self.turn ^= 1;
            places[self.turn]
        });
        self.lines[place] = Line { key: *key, contenders, generation };
    }
}

/// The generation as lines keep it. What a line remembers of one 4 billion changes ago is gone by
/// then: each change of the table has every conversation looked up anew.
#[inline]
fn mark(generation: u64) -> u32 {
    (generation as u32) | 1 << 31
}

#[inline]
fn places(hash: u64) -> [usize; 2] {
    [hash as usize % CONVERSATIONS, (hash >> 40) as usize % CONVERSATIONS]
}
