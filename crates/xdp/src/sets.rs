//! Address sets as a driver has them: sorted spans behind a Bloom filter (`bpf/sets.h`).
//!
//! The filter knows *granules*: the first 24, 16 or 8 bits of an address of IPv4, the first 48, 32
//! or 16 of IPv6. Each span is in it by the finest of which it touches few.

use ringside_ebpf::abi::rules::SetEntry;
use ringside_ebpf::rules::Sizes;
use ringside_rules::language::{AddressFile, AddressSet, AddressSpan, Addresses};
use ringside_sys::words::Words64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetId(pub u32);

/// Bits of a filter for each granule. The four bits of a granule lie in one word, so that a look
/// costs one access: 0.5 % of the granules that are not there seem to be (see
/// `ringside_rules::memory`).
const BLOOM_BITS_PER_GRANULE: usize = 16;
/// Words of one filter: 8 MB, in the reach of a third-level cache. Sets of more than four million
/// granules are looked through more often instead.
const BLOOM_WORDS_MAX: usize = 1 << 20;
/// Granules of one kind that a span may touch; there are no more of the coarsest.
const GRANULES_MAX: u64 = 16;
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// One version of IP: the bits of an address that a granule leaves out, by kind, of its upper 64
/// bits (of IPv4, its 32), and what distinguishes its granules from others.
struct Kind {
    shifts: [u32; 3],
    salt: u64,
    flags_at: u32,
}

const V4: Kind = Kind { shifts: [8, 16, 24], salt: 4, flags_at: 0 };
const V6: Kind = Kind { shifts: [16, 32, 48], salt: 16, flags_at: 8 };

/// A set, ready to be written.
#[derive(Debug)]
pub(crate) struct Set {
    v4: Vec<u64>,
    v6: Vec<[u64; 4]>,
    granules: u32,
    bloom: Vec<u64>,
    key: SetKey,
}

/// What a set was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SetKey {
    listed: AddressSet,
    files: Box<[Arc<AddressFile>]>,
}

impl SetKey {
    /// Files are compared by where they are: each is read once.
    fn is(&self, addresses: &Addresses) -> bool {
        let mut files = self.files.iter().zip(&addresses.files);
        self.files.len() == addresses.files.len()
            && files.all(|(a, b)| Arc::ptr_eq(a, b))
            && self.listed == addresses.listed
    }
}

/// All sets of some rules, before there are arrays for them.
#[derive(Debug, Default)]
pub(crate) struct SetList {
    sets: Vec<Set>,
}

impl SetList {
    /// The number of a set, which is made if it is new.
    pub fn number(&mut self, addresses: &Addresses) -> SetId {
        let known = self.find(addresses);
        known.unwrap_or_else(|| {
            self.sets.push(Set::of(addresses));
            SetId(self.sets.len() as u32 - 1)
        })
    }

    /// The number of a set that is known.
    pub fn find(&self, addresses: &Addresses) -> Option<SetId> {
        let at = self.sets.iter().position(|set| set.key.is(addresses))?;
        Some(SetId(at as u32))
    }

    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Words of all filters.
    pub fn bloom_words(&self) -> usize {
        self.sets.iter().map(|set| set.bloom.len()).sum()
    }

    /// Spans of all sets.
    pub fn spans(&self) -> (usize, usize) {
        let sum = |count: fn(&Set) -> usize| self.sets.iter().map(count).sum();
        (sum(|set| set.v4.len()), sum(|set| set.v6.len()))
    }

    /// True if arrays of these sizes have room for them.
    pub fn fit(&self, sizes: &Sizes) -> bool {
        let (v4, v6) = self.spans();
        self.len() <= sizes.sets
            && self.bloom_words() <= sizes.set_blooms
            && v4 <= sizes.spans_v4
            && v6 <= sizes.spans_v6
    }

    /// Writes the sets to arrays that have room for them, and forgets what was written.
    pub fn write(&mut self, arrays: &SetArrays) {
        let mut next = SetEntry::default();
        for (index, set) in self.sets.iter_mut().enumerate() {
            let entry = SetEntry {
                v4: (next.v4.0, set.v4.len() as u32),
                v6: (next.v6.0, set.v6.len() as u32),
                bloom: (next.bloom.0, set.bloom.len() as u32 - 1),
                granules: set.granules,
            };
            store(&arrays.v4, entry.v4.0 as usize, &set.v4);
            store(&arrays.v6, entry.v6.0 as usize * 4, set.v6.as_flattened());
            store(&arrays.blooms, entry.bloom.0 as usize, &set.bloom);
            let words = entry.to_words();
            store(&arrays.entries, index * words.len(), &words);
            next.v4.0 += entry.v4.1;
            next.v6.0 += entry.v6.1;
            next.bloom.0 += set.bloom.len() as u32;
            (set.v4, set.v6, set.bloom) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
}

/// Where sets go.
#[derive(Debug)]
pub(crate) struct SetArrays {
    pub entries: Words64,
    pub blooms: Words64,
    pub v4: Words64,
    pub v6: Words64,
}

fn store(array: &Words64, at: usize, words: &[u64]) {
    for (to, word) in array[at..].iter().zip(words) {
        to.store(*word, Ordering::Relaxed);
    }
}

impl Set {
    fn of(addresses: &Addresses) -> Set {
        let all = merged(addresses);
        let v4 = all
            .v4
            .iter()
            .map(|span| u64::from(span.first().to_bits()) << 32 | u64::from(span.last().to_bits()));
        let v6 = all.v6.iter().map(|span| {
            let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
            let ([a, b], [c, d]) = (halves(span.first().to_bits()), halves(span.last().to_bits()));
            [a, b, c, d]
        });
        let (v4, v6): (Vec<u64>, Vec<[u64; 4]>) = (v4.collect(), v6.collect());
        let spans_v4 = || v4.iter().map(|span| (&V4, span >> 32, *span & u64::from(u32::MAX)));
        let spans_v6 = || v6.iter().map(|span| (&V6, span[0], span[2]));
        let count = granules_of(spans_v4().chain(spans_v6())).count();
        let words = (count * BLOOM_BITS_PER_GRANULE).div_ceil(64).next_power_of_two();
        let mut bloom = vec![0; words.clamp(1, BLOOM_WORDS_MAX)];
        let mut granules = 0;
        for Granule { bits, salt, flag } in granules_of(spans_v4().chain(spans_v6())) {
            note(&mut bloom, bits, salt);
            granules |= flag;
        }
        let key = SetKey { listed: addresses.listed.clone(), files: addresses.files.clone() };
        Set { v4, v6, granules, bloom, key }
    }
}

/// What a rule names, as one set.
fn merged(addresses: &Addresses) -> AddressSet {
    let sets = || {
        let files = addresses.files.iter().map(|file| &file.addresses);
        files.chain(std::iter::once(&addresses.listed))
    };
    let v4 = sets().flat_map(|set| set.v4.iter().map(|span| AddressSpan::V4(*span)));
    let v6 = sets().flat_map(|set| set.v6.iter().map(|span| AddressSpan::V6(*span)));
    AddressSet::new(v4.chain(v6))
}

struct Granule {
    bits: u64,
    salt: u64,
    flag: u32,
}

/// The granules of spans, each given by the upper parts of its ends.
fn granules_of<'s>(
    spans: impl Iterator<Item = (&'s Kind, u64, u64)>,
) -> impl Iterator<Item = Granule> {
    spans.flat_map(|(kind, first, last)| {
        let touched = |shift: u32| (last >> shift) - (first >> shift) + 1;
        let fits = kind.shifts.iter().position(|shift| touched(*shift) <= GRANULES_MAX);
        let level = fits.unwrap_or(kind.shifts.len() - 1);
        let shift = kind.shifts[level];
        let (salt, flag) = (kind.salt + level as u64, 1 << (kind.flags_at + level as u32));
        (first >> shift..=last >> shift).map(move |bits| Granule { bits, salt, flag })
    })
}

/// Sets the bits of a granule, where `may_have` of `bpf/sets.h` looks for them.
fn note(bloom: &mut [u64], bits: u64, salt: u64) {
    let product = (salt ^ bits).wrapping_mul(HASH_FACTOR);
    let hash = product ^ product >> 32;
    let tag = hash >> 32;
    let word = (hash >> 12) as u32 as usize & (bloom.len() - 1);
    bloom[word] |= [0, 6, 12, 18].iter().fold(0, |bits, at| bits | 1 << (tag >> at & 63));
}
