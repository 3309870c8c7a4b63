//! Keys and parts while they are collected: most as one word each, which is ordered as they are.

use crate::key::{Key, Kind};

/// Bits of the largest value that is not of IPv6: an address of Ethernet.
const VALUE_BITS: u32 = 48;
/// Bits of the number of a part.
pub(crate) const PART_BITS: u32 = 10;
/// Kinds take what is left of a word.
const KIND_BITS: u32 = 64 - VALUE_BITS - PART_BITS;

const _: () = assert!((Kind::Port as u32) < 1 << KIND_BITS, "kinds are numbered so");

/// Kind and value as one word; none of IPv6.
#[inline]
pub(crate) fn packed(key: &Key) -> Option<u64> {
    let word = (key.kind as u64) << VALUE_BITS | key.value as u64;
    (key.kind != Kind::Ipv6).then_some(word)
}

fn unpacked(word: u64) -> Key {
    let kind = Kind::of_number((word >> VALUE_BITS) as u8);
    let value = u128::from(word & ((1 << VALUE_BITS) - 1));
    Key { kind: kind.expect("made of a key"), value }
}

/// The keys of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartKeys {
    words: Vec<u64>,
    /// Values of IPv6.
    long: Vec<u128>,
}

impl PartKeys {
    #[inline]
    pub(crate) fn push(&mut self, key: &Key) {
        match packed(key) {
            Some(word) => self.words.push(word),
            None => self.long.push(key.value),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len() + self.long.len()
    }

    /// Puts them in order, each once.
    pub(crate) fn order(&mut self) {
        self.words.sort_unstable();
        self.words.dedup();
        self.long.sort_unstable();
        self.long.dedup();
    }

    /// All of them, in order if they were put in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> {
        let middle = self.words.partition_point(|&word| word >> VALUE_BITS < Kind::Ipv6 as u64);
        let (before, behind) = self.words.split_at(middle);
        let long = self.long.iter().map(|&value| Key { kind: Kind::Ipv6, value });
        let words = [before, behind].map(|words| words.iter().copied().map(unpacked));
        let [before, behind] = words;
        before.chain(long).chain(behind)
    }
}

/// Numbers of parts, rising.
pub(crate) type PartNumbers<'p> = dyn Iterator<Item = u16> + 'p;

/// Which parts of a segment have which keys.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    words: Vec<u64>,
    /// Those of IPv6.
    long: Vec<(u128, u16)>,
}

impl Postings {
    pub(crate) fn len(&self) -> usize {
        self.words.len() + self.long.len()
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: u16, keys: &PartKeys) {
        let posting = |&word: &u64| word << PART_BITS | u64::from(part);
        self.words.extend(keys.words.iter().map(posting));
        self.long.extend(keys.long.iter().map(|&value| (value, part)));
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.long.clear();
    }

    /// Shows the keys in order, each with its parts, which rise, and how many they are.
    pub(crate) fn for_each(&mut self, see: &mut dyn FnMut(Key, &mut PartNumbers<'_>, usize)) {
        self.words.sort_unstable();
        self.long.sort_unstable();
        let kind = |&word: &u64| word >> (VALUE_BITS + PART_BITS);
        let middle = self.words.partition_point(|word| kind(word) < Kind::Ipv6 as u64);
        let (before, behind) = self.words.split_at(middle);
        see_words(before, see);
        for of_key in self.long.chunk_by(|(one, _), (other, _)| one == other) {
            let key = Key { kind: Kind::Ipv6, value: of_key[0].0 };
            see(key, &mut of_key.iter().map(|&(_, part)| part), of_key.len());
        }
        see_words(behind, see);
    }
}

fn see_words(words: &[u64], see: &mut dyn FnMut(Key, &mut PartNumbers<'_>, usize)) {
    for of_key in words.chunk_by(|one, other| one >> PART_BITS == other >> PART_BITS) {
        let mut parts = of_key.iter().map(|word| (word & ((1 << PART_BITS) - 1)) as u16);
        see(unpacked(of_key[0] >> PART_BITS), &mut parts, of_key.len());
    }
}
