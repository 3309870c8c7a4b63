//! The arrays that hold rules at work. One writer changes them. Those that judge packets read them:
//! in user space, or in the driver, where they are the values of BPF arrays.
//!
//! ```text
//! nodes    classes by port, protocol and address: pages of 256 entries of 32 bits
//! rows     bits of the rules that a class is within, with a summary; row 0: the rules that count
//! bits     by bit: the rule's id and slot
//! flows    exact rules, 64 bytes each; buckets lead there by hash, behind a Bloom filter
//! control  what readers must know of the whole
//! ```
//!
//! [`table`](crate::table) and [`exact`](crate::exact) say what the words mean.

use crate::key::{NO_PORT, NO_PROTOCOL};
use ringside_sys::SysError;
use ringside_sys::words::{Words32, Words64};
use std::sync::atomic::Ordering;

/// Bits of an address that a node decides. Models have tables that are as small as can be.
pub(crate) const NODE_BITS: u32 = if cfg!(feature = "loom") { 1 } else { 8 };
/// Entries of a node.
pub const NODE_ENTRIES: usize = 1 << NODE_BITS;
/// Bits of an address that a root decides.
pub(crate) const ROOT_BITS: u32 = 2 * NODE_BITS;
/// Where nodes are: classes by source port, by destination port, by protocol.
pub const SOURCE_PORTS_AT: usize = 0;
/// See [`SOURCE_PORTS_AT`].
pub const DESTINATION_PORTS_AT: usize = SOURCE_PORTS_AT + PORT_NODES;
/// See [`SOURCE_PORTS_AT`].
pub const PROTOCOLS_AT: usize = DESTINATION_PORTS_AT + PORT_NODES;
/// Roots of the trie of source addresses: IPv4, IPv6, no address.
pub const SOURCES_AT: usize = PROTOCOLS_AT + (NO_PROTOCOL as usize + 1).div_ceil(NODE_ENTRIES);
/// The same of destination addresses.
pub const DESTINATIONS_AT: usize = SOURCES_AT + ROOT_NODES;
/// Inner nodes of both tries.
pub const INNER_AT: usize = DESTINATIONS_AT + ROOT_NODES;
/// 65,536 ports, and the lack of one.
const PORT_NODES: usize = (NO_PORT as usize + 1).div_ceil(NODE_ENTRIES);
/// The first bits of an address of either version, and the lack of one.
const ROOT_NODES: usize = (2 << ROOT_BITS) / NODE_ENTRIES + 1;

/// Words of an exact rule.
pub const FLOW_WORDS: usize = 8;
/// Words of a bucket, each of which leads to an exact rule.
pub const BUCKET_WORDS: usize = 8;
/// Words of `control`; the last is for the owner of the memory.
pub const CONTROL_WORDS: usize = 8;

/// What the arrays have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Cubes of wildcard rules. A quarter more than are expected leaves room for those that come
    /// between others.
    pub rules: u32,
    /// Rows of all fields together. Each different prefix of a field needs one, and each different
    /// border of port ranges.
    pub classes: u32,
    /// Inner nodes of the two address tries, 1 KiB each.
    pub nodes: u32,
    /// Exact rules; one that is `bidir` counts twice.
    pub exact: u32,
}

impl Capacity {
    /// Room for either of two.
    #[must_use]
    pub fn max(self, other: Capacity) -> Capacity {
        Capacity {
            rules: self.rules.max(other.rules),
            classes: self.classes.max(other.classes),
            nodes: self.nodes.max(other.nodes),
            exact: self.exact.max(other.exact),
        }
    }
}

/// Words of each array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Nodes; each has [`NODE_ENTRIES`] words of 32 bits.
    pub nodes: usize,
    /// Words of a row.
    pub row_words: usize,
    /// Of those, in front, the words of its summary.
    pub summary_words: usize,
    /// Rows of bits, one for each class.
    pub rows: usize,
    /// Bits of a row, one for each rule.
    pub bits: usize,
    /// Exact rules, the first of which is none.
    pub flows: usize,
    /// Buckets, a power of two.
    pub buckets: usize,
    /// Words of the Bloom filter, a power of two.
    pub bloom: usize,
}

/// Bits of the Bloom filter for each exact key. A key's four bits lie in one word, so that a look
/// costs one access. With n keys a word has on average 64 n / bits = 4 keys at 16 bits a key; the
/// share of keys that are taken for known is the sum over k of Poisson(4, k) (1 - (1 - 1/64)^4k)^4,
/// 0.5 %.
const BLOOM_BITS_PER_KEY: usize = 16;

impl Layout {
    /// The layout for a capacity.
    pub fn of(capacity: &Capacity) -> Layout {
        let words = (capacity.rules as usize).div_ceil(64).max(1);
        let summary_words = words.div_ceil(64);
        let exact = capacity.exact as usize;
        Layout {
            nodes: INNER_AT + capacity.nodes as usize,
            row_words: summary_words + words,
            summary_words,
            rows: capacity.classes as usize + 1,
            bits: words * 64,
            flows: exact + 1,
            // At most half full, so that one of two buckets has room.
            buckets: (exact * 2).div_ceil(BUCKET_WORDS).next_power_of_two(),
            bloom: (exact * BLOOM_BITS_PER_KEY).div_ceil(64).next_power_of_two(),
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        let Layout { nodes, row_words, rows, bits, flows, buckets, bloom, .. } = *self;
        let words = rows * row_words + bits + flows * FLOW_WORDS + buckets * BUCKET_WORDS + bloom;
        nodes * NODE_ENTRIES * 4 + (words + CONTROL_WORDS) * 8
    }
}

/// The arrays. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Sizes of the arrays.
    pub layout: Layout,
    /// Nodes of the tries, whose entries are classes.
    pub nodes: Words32,
    /// Rows of bits, by class.
    pub rows: Words64,
    /// Id and slot of the rule of each bit.
    pub bits: Words64,
    /// Exact rules.
    pub flows: Words64,
    /// Buckets of the hash table of exact rules.
    pub buckets: Words64,
    /// Bloom filter of the exact rules.
    pub bloom: Words64,
    /// See [`Control`].
    pub control: Words64,
}

/// Words of `control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Raised after each change of wildcard rules: what a reader remembers with another number is
    /// out of date.
    Generation = 0,
    /// Seed of the hash of keys.
    Seed = 1,
    /// Buckets, less one.
    BucketMask = 2,
    /// Words of the Bloom filter, less one.
    BloomMask = 3,
    /// Number of exact rules.
    Exact = 4,
    /// Number of live bits of wildcard rules.
    Wildcards = 5,
    /// Raised after each change of any rule. A reader that finds the same number before and after
    /// its lookup saw at most one change in the middle: the rules before it, or after it.
    Changes = 6,
}

impl Memory {
    /// Arrays in this process's memory, all 0.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn heap(layout: Layout) -> Result<Memory, SysError> {
        Ok(Memory {
            layout,
            nodes: Words32::zeroed(layout.nodes * NODE_ENTRIES)?,
            rows: Words64::zeroed(layout.rows * layout.row_words)?,
            bits: Words64::zeroed(layout.bits)?,
            flows: Words64::zeroed(layout.flows * FLOW_WORDS)?,
            buckets: Words64::zeroed(layout.buckets * BUCKET_WORDS)?,
            bloom: Words64::zeroed(layout.bloom)?,
            control: Words64::zeroed(CONTROL_WORDS)?,
        })
    }

    /// A word of `control`.
    #[inline]
    pub fn get(&self, word: Control) -> u64 {
        self.control[word as usize].load(Ordering::Acquire)
    }

    /// Says that rules have changed.
    pub(crate) fn changed(&self) {
        self.set(Control::Changes, self.get(Control::Changes) + 1);
    }

    /// Sets a word; readers that see it also see what was written before.
    pub(crate) fn set(&self, word: Control, value: u64) {
        self.control[word as usize].store(value, Ordering::Release);
    }
}
