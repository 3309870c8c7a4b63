//! Which wildcard rules come into question for a conversation, remembered.

use crate::table::Key;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Conversations that are remembered: three times the 10,000 that a busy link has at once, in the
/// second-level cache's reach of megabytes. A new one takes the place of another.
const CONVERSATIONS: usize = 32_768;
/// Rules that are remembered for one; those behind are looked up each time.
const CONTENDERS: usize = 6;

/// The first rules that the table finds, as places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contenders {
    places: [u32; CONTENDERS],
    count: u8,
    is_cut: bool,
}

impl Contenders {
    pub(super) fn places(&self) -> &[u32] {
        &self.places[..usize::from(self.count)]
    }

    /// True if there are more.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Adds a rule; false if there is no room, which is noted.
    pub(super) fn push(&mut self, place: u32) -> bool {
        match self.places.get_mut(usize::from(self.count)) {
            Some(free) => {
                *free = place;
                self.count += 1;
            }
            None => self.is_cut = true,
        }
        !self.is_cut
    }
}

/// The memory: by a hash of the key, the last one wins.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Box<[Option<(Key, Contenders)>]>,
    hasher: RandomState,
}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { slots: vec![None; CONVERSATIONS].into(), hasher: RandomState::default() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Contenders> {
        match &self.slots[self.slot(key)] {
            Some((known, contenders)) if known == key => Some(*contenders),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, key: &Key, contenders: Contenders) {
        self.slots[self.slot(key)] = Some((*key, contenders));
    }

    fn slot(&self, key: &Key) -> usize {
        self.hasher.hash_one(key) as usize % CONVERSATIONS
    }
}
