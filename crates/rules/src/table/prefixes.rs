//! A field of IP addresses: a trie from address to class.
//!
//! The first node has 65,536 entries, the others 256: an IPv4 address is found in one to three
//! steps, an IPv6 address in one to fifteen. An entry is a class, or leads to a node. Each entry
//! holds the class of the longest prefix that covers it, whose row has the bits of all prefixes
//! around it as well.

use super::rows::{Books, Class, ClassSet};
use super::{Bit, Full};
use crate::memory::{NODE_BITS, NODE_ENTRIES, ROOT_BITS};
use ringside_sys::words::{AtomicU32, Words32};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPrefix {
    /// What kind of address.
    pub space: Space,
    /// The address, its first bit the highest; 0 beyond `length`.
    pub bits: u128,
    /// How many bits are given.
    pub length: u8,
}

/// Kinds of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// IPv4, in the highest 32 bits.
    V4,
    /// IPv6.
    V6,
    /// No IP address at all: of this there is one.
    None,
}

impl AddressPrefix {
    /// The prefixes of all packets.
    pub const ANY: [AddressPrefix; 3] = {
        const fn all(space: Space) -> AddressPrefix {
            AddressPrefix { space, bits: 0, length: 0 }
        }
        [all(Space::V4), all(Space::V6), all(Space::None)]
    };

    /// True if an address, or the lack of one, begins with these bits.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        let (space, bits) = bits_of(address);
        space == self.space && (self.bits..=self.last()).contains(&bits)
    }

    /// The nodes of the trie on the way to it, each by its space and depth, and first bits. They
    /// tell how many nodes many prefixes need.
    pub fn nodes(&self) -> impl Iterator<Item = ((Space, u8), u128)> + use<> {
        let AddressPrefix { space, bits, length } = *self;
        let depths = (ROOT_BITS..).step_by(NODE_BITS as usize).map(|depth| depth as u8);
        depths
            .take_while(move |&depth| depth < length)
            .map(move |depth| ((space, depth), bits >> (128 - u32::from(depth))))
    }

    /// The highest address, bits beyond the space's set.
    fn last(&self) -> u128 {
        self.bits | u128::MAX.checked_shr(self.length.into()).unwrap_or(0)
    }
}

/// An address as the trie reads it.
pub(super) fn bits_of(address: Option<IpAddr>) -> (Space, u128) {
    match address {
        Some(IpAddr::V4(address)) => (Space::V4, u128::from(address.to_bits()) << 96),
        Some(IpAddr::V6(address)) => (Space::V6, address.to_bits()),
        None => (Space::None, 0),
    }
}

const ROOT_ENTRIES: usize = 1 << ROOT_BITS;
/// An entry that leads to a node has this bit; the rest is its number.
const IS_NODE: u32 = 1 << 31;
/// Where the roots begin; that of `Space::None` has one entry.
const ROOTS: [usize; 3] = [0, ROOT_ENTRIES, 2 * ROOT_ENTRIES];

/// Classes by address: what readers look at.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    nodes: Words32,
    /// Where its roots begin.
    roots: usize,
    /// Its nodes other than the roots.
    inner: Range<usize>,
}

impl Trie {
    /// A trie whose roots begin at a node, with these other nodes.
    pub(super) fn new(nodes: &Words32, roots: usize, inner: Range<usize>) -> Trie {
        Trie { nodes: nodes.clone(), roots: roots * NODE_ENTRIES, inner }
    }

    /// The class of an address, as its bits.
    #[inline]
    pub(super) fn class(&self, space: Space, bits: u128) -> Class {
        let first = match space {
            Space::None => 0,
            _ => (bits >> (128 - ROOT_BITS)) as usize,
        };
        let mut entry = self.nodes[self.root(space) + first].load(Ordering::Acquire);
        let mut rest = bits << ROOT_BITS;
        while entry & IS_NODE != 0 {
            let at = node_at(entry & !IS_NODE) + (rest >> (128 - NODE_BITS)) as usize;
            entry = self.nodes[at].load(Ordering::Acquire);
            rest <<= NODE_BITS;
        }
        Class(entry)
    }

    fn root(&self, space: Space) -> usize {
        self.roots + ROOTS[space as usize]
    }

    /// The root in which the entries of a prefix begin.
    fn root_position(&self, prefix: AddressPrefix) -> TriePosition {
        TriePosition { node: self.root(prefix.space), depth: 0, width: ROOT_BITS }
    }

    fn entries(&self, node: usize) -> &[AtomicU32] {
        &self.nodes[node..node + NODE_ENTRIES]
    }

    /// Nodes on the way to a prefix that are not there.
    fn missing(&self, prefix: AddressPrefix) -> u32 {
        let length = u32::from(prefix.length);
        let mut missing = length.saturating_sub(ROOT_BITS).div_ceil(NODE_BITS);
        let TriePosition { mut node, mut depth, mut width } = self.root_position(prefix);
        while missing > 0 {
            let entry = self.entry(node + ((prefix.bits << depth) >> (128 - width)) as usize);
            if entry & IS_NODE == 0 {
                break;
            }
            (node, depth, width) = (node_at(entry & !IS_NODE), depth + width, NODE_BITS);
            missing -= 1;
        }
        missing
    }

    fn entry(&self, at: usize) -> u32 {
        self.nodes[at].load(Ordering::Relaxed)
    }
}

/// Which prefixes and nodes there are. The writer's.
#[derive(Debug)]
pub(super) struct Prefixes {
    /// Nodes that were ever given out.
    used: u32,
    free: Vec<u32>,
    /// Given back since the last reclaim.
    retired: Vec<u32>,
    /// By space, first bits and length: outer prefixes come before those within.
    known: BTreeMap<AddressPrefix, Known>,
    /// Length of the prefix of each class of this field.
    lengths: BTreeMap<Class, u8>,
    /// The classes of each space, in the order of their rows: a rule for every address, as most
    /// rules are on one side, changes them all.
    spaces: [ClassSet; 3],
}

#[derive(Clone, Copy, Debug)]
struct Known {
    class: Class,
    users: u32,
}

/// A node of the trie, on the way to a prefix.
struct TriePosition {
    /// First entry of the node.
    node: usize,
    /// Bits above the node.
    depth: u32,
    /// Bits that it decides.
    width: u32,
}

impl Prefixes {
    /// All addresses of a space fall into one class.
    pub(super) fn new(books: &mut Books<'_>, trie: &Trie) -> Result<Prefixes, Full> {
        let mut field = Prefixes {
            used: 0,
            free: Vec::new(),
            retired: Vec::new(),
            known: BTreeMap::new(),
            lengths: BTreeMap::new(),
            spaces: Default::default(),
        };
        for prefix in AddressPrefix::ANY {
            let class = books.take(None)?;
            field.known.insert(prefix, Known { class, users: 1 });
            field.lengths.insert(class, 0);
            field.spaces[prefix.space as usize].insert(class);
            let root = trie.root(prefix.space);
            let end = if prefix.space == Space::None { root + 1 } else { root + ROOT_ENTRIES };
            for entry in &trie.nodes[root..end] {
                entry.store(class.0, Ordering::Release);
            }
        }
        Ok(field)
    }

    /// Has the rule `bit` accept the addresses of `prefix`.
    pub(super) fn add(
        &mut self,
        books: &mut Books<'_>,
        trie: &Trie,
        prefix: AddressPrefix,
        bit: Bit,
    ) -> Result<(), Full> {
        match self.known.get_mut(&prefix) {
            Some(known) => known.users += 1,
            None => self.open(books, trie, prefix)?,
        }
        match prefix.length {
            0 => books.rows.set_all(self.space(prefix), bit),
            _ => books.rows.set_all(self.within(prefix), bit),
        }
        Ok(())
    }

    /// Takes away what [`add`](Prefixes::add) did, if it did.
    pub(super) fn remove(
        &mut self,
        books: &mut Books<'_>,
        trie: &Trie,
        prefix: AddressPrefix,
        bit: Bit,
    ) {
        let Some(&Known { class, users }) = self.known.get(&prefix) else { return };
        if !books.rows.has(class, bit) {
            return;
        }
        match prefix.length {
            0 => books.rows.clear_all(self.space(prefix), bit),
            _ => books.rows.clear_all(self.within(prefix), bit),
        }
        self.known.insert(prefix, Known { class, users: users - 1 });
        if users == 1 {
            self.close(books, trie, prefix, class);
        }
    }

    /// Frees what was retired: no reader is in it any more.
    pub(super) fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
    }

    /// All classes of the space of a prefix, in the order of their rows.
    fn space(&self, prefix: AddressPrefix) -> impl Iterator<Item = Class> {
        self.spaces[prefix.space as usize].iter()
    }

    /// The classes of the known prefixes from `prefix` on that lie within it.
    fn within(&self, prefix: AddressPrefix) -> impl Iterator<Item = Class> {
        let end = AddressPrefix { bits: prefix.last(), length: u8::MAX, ..prefix };
        self.known
            .range(prefix..=end)
            .filter(move |(inner, _)| inner.length >= prefix.length)
            .map(|(_, known)| known.class)
    }

    /// The class of the longest known prefix around `prefix`, itself aside.
    fn around(&self, prefix: AddressPrefix) -> Class {
        let shorter = (0..prefix.length).rev().find_map(|length| {
            let bits = prefix.bits & !u128::MAX.checked_shr(length.into()).unwrap_or(0);
            self.known.get(&AddressPrefix { bits, length, ..prefix })
        });
        shorter.expect("every address is known").class
    }

    /// Makes a class for a new prefix, and leads what has no longer prefix there.
    fn open(
        &mut self,
        books: &mut Books<'_>,
        trie: &Trie,
        prefix: AddressPrefix,
    ) -> Result<(), Full> {
        let free = self.free.len() + (trie.inner.len() - self.used as usize);
        if trie.missing(prefix) as usize > free {
            return Err(Full::Nodes);
        }
        let class = books.take(Some(self.around(prefix)))?;
        self.known.insert(prefix, Known { class, users: 1 });
        self.lengths.insert(class, prefix.length);
        self.spaces[prefix.space as usize].insert(class);
        self.descend(trie, prefix, trie.root_position(prefix), &mut |lengths, old| {
            if lengths[&old] < prefix.length { class } else { old }
        });
        Ok(())
    }

    fn close(&mut self, books: &mut Books<'_>, trie: &Trie, prefix: AddressPrefix, class: Class) {
        let heir = self.around(prefix);
        self.known.remove(&prefix);
        let replace = &mut |_: &BTreeMap<Class, u8>, old| if old == class { heir } else { old };
        self.descend(trie, prefix, trie.root_position(prefix), replace);
        self.lengths.remove(&class);
        self.spaces[prefix.space as usize].remove(class);
        books.classes.retire(class);
    }

    /// Replaces the classes of a prefix's entries from a node on. Nodes are made on the way where
    /// the prefix ends deeper, and taken out where all their entries have come to be one class.
    fn descend(
        &mut self,
        trie: &Trie,
        prefix: AddressPrefix,
        position: TriePosition,
        replace: &mut impl FnMut(&BTreeMap<Class, u8>, Class) -> Class,
    ) {
        let length = u32::from(prefix.length);
        let TriePosition { node, depth, width } = position;
        let index = ((prefix.bits << depth) >> (128 - width)) as usize;
        if prefix.space == Space::None {
            return;
        }
        if length <= depth + width {
            let count = 1 << (depth + width - length);
            for at in node + index..node + index + count {
                self.replace_below(trie, at, replace);
            }
            return;
        }
        let at = node + index;
        let node = self.node_below(trie, at);
        let below = TriePosition { node, depth: depth + width, width: NODE_BITS };
        self.descend(trie, prefix, below, replace);
        self.fold(trie, at);
    }

    /// Replaces the classes of an entry, or of all entries of the node that it leads to.
    fn replace_below(
        &mut self,
        trie: &Trie,
        at: usize,
        replace: &mut impl FnMut(&BTreeMap<Class, u8>, Class) -> Class,
    ) {
        let entry = trie.entry(at);
        if entry & IS_NODE == 0 {
            let class = replace(&self.lengths, Class(entry));
            trie.nodes[at].store(class.0, Ordering::Release);
            return;
        }
        let node = node_at(entry & !IS_NODE);
        for below in node..node + NODE_ENTRIES {
            self.replace_below(trie, below, replace);
        }
        self.fold(trie, at);
    }

    /// The first entry of the node that an entry leads to, which is made if there is none.
    fn node_below(&mut self, trie: &Trie, at: usize) -> usize {
        let entry = trie.entry(at);
        if entry & IS_NODE != 0 {
            return node_at(entry & !IS_NODE);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            trie.inner.start as u32 + self.used - 1
        });
        let node = node_at(number);
        for below in trie.entries(node) {
            below.store(entry, Ordering::Relaxed);
        }
        trie.nodes[at].store(IS_NODE | number, Ordering::Release);
        node
    }

    /// Takes a node out whose entries are all one class.
    fn fold(&mut self, trie: &Trie, at: usize) {
        let entry = trie.entry(at);
        let node = node_at(entry & !IS_NODE);
        let entries = trie.entries(node);
        let first = entries[0].load(Ordering::Relaxed);
        let is_one = |below: &AtomicU32| below.load(Ordering::Relaxed) == first;
        if first & IS_NODE == 0 && entries.iter().all(is_one) {
            trie.nodes[at].store(first, Ordering::Release);
            self.retired.push(entry & !IS_NODE);
        }
    }
}

fn node_at(number: u32) -> usize {
    number as usize * NODE_ENTRIES
}
