//! The Rust side of what the fast path of rules shares with `bpf/fast.h`, in `bpf/abi.h`.

use super::rules::Fate;

/// Entries of a page: one for each value of a byte.
pub const PAGE_ENTRIES: usize = 256;
/// Lengths of the prefixes of IPv4 that are looked for.
pub const LEVELS: [u32; 4] = [32, 24, 16, 8];
/// Places of a hash table behind its first at which a key may lie.
pub const PROBES_MAX: usize = 16;
/// No such page, no such table.
pub const NONE: u32 = u32::MAX;

const FATE_BITS: u32 = 3;
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a rule is named in the tables: the lowest of those that a frame meets decides about it.
/// There are far fewer ranks than fit.
pub fn entry(rank: u32, fate: Fate) -> u32 {
    (rank << FATE_BITS | fate as u32) + 1
}

/// The first place of a prefix in a table with this mask.
pub fn place(seed: u64, prefix: u32, mask: u32) -> u32 {
    let product = (seed ^ u64::from(prefix)).wrapping_mul(HASH_FACTOR);
    ((product ^ product >> 32) >> 16) as u32 & mask
}

/// A hash table of prefixes (`struct fast_table`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Index of its first word.
    pub first: u32,
    /// First places, less one; [`NONE`] if it is not there.
    pub mask: u32,
}

impl Table {
    /// No prefix of this length.
    pub const NONE: Table = Table { first: 0, mask: NONE };
}

/// Where the tables are, and what becomes of frames that are in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The fate of frames that no rule decides about; none if there are other rules.
    pub fallback: Option<Fate>,
    /// Ranks are slots.
    pub is_ordered: bool,
    /// Frames of IPv6 are for the general program.
    pub leaves_v6: bool,
    /// Page of the protocols above IPv4; the one behind it is of IPv6.
    pub protocols: u32,
    /// First of 256 pages, one for each upper byte of a port: of TCP by source and destination,
    /// then of UDP.
    pub ports: [u32; 4],
    /// Prefixes of source addresses, and of destinations, by length.
    pub tables: [[Table; LEVELS.len()]; 2],
    /// Of their hash.
    pub seed: u64,
}

/// `struct fast_config`: what the program is loaded with.
#[derive(Clone, Debug)]
pub(crate) struct Config<'c> {
    pub position: u32,
    pub metadata: u32,
    pub slots: u32,
    pub offenders: u32,
    pub stays: u32,
    pub layout: &'c Layout,
    pub source_seed: u64,
}

const CONFIG_BYTES: usize = 136;
/// Where `stays` lies.
const STAYS_AT: usize = 16;

impl Config<'_> {
    /// Reads `stays` from the bytes of a program.
    pub fn stays_in(bytes: &[u8]) -> bool {
        bytes.len() == CONFIG_BYTES && bytes[STAYS_AT..][..4] != [0; 4]
    }

    /// The bytes as the program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let layout = self.layout;
        let head = [
            self.position,
            self.metadata,
            self.slots,
            self.offenders,
            self.stays,
            layout.fallback.is_some().into(),
            layout.fallback.unwrap_or(Fate::Pass) as u32,
            layout.is_ordered.into(),
            layout.leaves_v6.into(),
            layout.protocols,
        ];
        let tables =
            layout.tables.as_flattened().iter().flat_map(|table| [table.first, table.mask]);
        let words = head.into_iter().chain(layout.ports).chain(tables);
        let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
        bytes.extend([layout.seed, self.source_seed].into_iter().flat_map(u64::to_ne_bytes));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_stay_says_so() {
        let layout = Layout {
            fallback: None,
            is_ordered: true,
            leaves_v6: true,
            protocols: NONE,
            ports: [NONE; 4],
            tables: [[Table::NONE; LEVELS.len()]; 2],
            seed: 1,
        };
        for stays in [0, 1] {
            let config = Config {
                position: 1,
                metadata: 2,
                slots: 3,
                offenders: 4,
                stays,
                layout: &layout,
                source_seed: 5,
            };
            let bytes = config.to_bytes();
            assert_eq!(bytes.len(), CONFIG_BYTES);
            assert_eq!(Config::stays_in(&bytes), stays == 1);
        }
        assert!(!Config::stays_in(&[1; CONFIG_BYTES - 1]));
    }

    #[test]
    fn the_first_of_two_rules_is_the_lower_number() {
        assert!(entry(0, Fate::Pass) > 0);
        assert!(entry(0, Fate::Drop) < entry(1, Fate::Pass));
        assert!(entry(1 << 20, Fate::Drop) < u32::MAX);
    }
}
