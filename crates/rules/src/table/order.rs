//! Which bit a rule gets: in a word whose rules have neighbouring numbers, so that readers that go
//! through the words in order meet lower numbers first.
//!
//! Words are shelves: all numbers of one are below all of the next, within one there is no order.
//! Shelves are filled in part only, so that numbers in between find room. Where they do not, the
//! whole must be laid out anew; nothing is moved while readers look.

use super::{Bit, Full, Number};
use std::collections::BTreeMap;

/// Bits of a word.
const SHELF: u32 = u64::BITS;
/// Bits of a word that are taken while there is a choice: a quarter is left for numbers between.
const SHELF_FILLED: u32 = 48;

/// Numbers and bits of the rules.
#[derive(Debug)]
pub(super) struct Order {
    bits: BTreeMap<Number, Bit>,
    /// By shelf: bits of rules, and bits that are not free again yet.
    taken: Vec<u64>,
}

impl Order {
    pub(super) fn new(shelves: usize) -> Order {
        Order { bits: BTreeMap::new(), taken: vec![0; shelves] }
    }

    pub(super) fn rules(&self) -> usize {
        self.bits.len()
    }

    /// Takes a bit for a number that has none.
    pub(super) fn take(&mut self, number: Number) -> Result<Bit, Full> {
        let before = self.bits.range(..number).next_back().map(|(_, &bit)| shelf(bit));
        let after = self.bits.range(number..).next().map(|(_, &bit)| shelf(bit));
        let first = before.unwrap_or(0);
        let last = after.unwrap_or(self.taken.len().saturating_sub(1));
        let find = |most: u32| (first..=last).find(|&at| self.taken[at].count_ones() < most);
        let chosen = find(SHELF_FILLED).or_else(|| find(SHELF)).ok_or_else(|| {
            let is_full = self.taken.iter().all(|bits| *bits == u64::MAX);
            if is_full { Full::Rules } else { Full::Order }
        })?;
        let free = self.taken[chosen].trailing_ones();
        self.taken[chosen] |= 1 << free;
        let bit = Bit(chosen as u32 * SHELF + free);
        self.bits.insert(number, bit);
        Ok(bit)
    }

    /// Forgets a number; its bit stays taken.
    pub(super) fn remove(&mut self, number: Number) -> Option<Bit> {
        self.bits.remove(&number)
    }

    pub(super) fn free(&mut self, bit: Bit) {
        self.taken[shelf(bit)] &= !(1 << (bit.0 % SHELF));
    }
}

fn shelf(bit: Bit) -> usize {
    (bit.0 / SHELF) as usize
}
