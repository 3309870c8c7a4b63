//! Who has which index of a balancer's tables, so that what was counted is never another's.
//!
//! The program counts by index and sets nothing to 0. Each VIP and real that comes gets a serial
//! number that no other has, and what its index had counted before. One that goes keeps its index
//! until the change after that, when no CPU counts there any more; then its counts are added to
//! those of what is gone. So received = passed + the counts of all VIPs, of those that are gone
//! too, for ever; and frames forwarded by a VIP = those of its reals, of those that are gone too.
//! (Only where a change takes every index that there is does one go on at once. The sums hold then
//! as well.)

use super::abi::{GONE_BYTES, REAL_OWNER_BYTES, VIP_OWNER_BYTES};
use crate::abi::rules::{pair, parts};
use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_balance::config::NAME_CHARS_MAX;
use std::collections::HashMap;

const NAME_WORDS: usize = NAME_CHARS_MAX / 8;
/// COUNT_ALL of the header.
const COUNT_WORDS: usize = Count::ALL;

/// Reads what was counted at an index, whichever VIP or real had it.
pub(super) trait Counted {
    fn vip(&self, index: u32) -> [u64; Count::ALL];
    fn real(&self, index: u32) -> [u64; 2];
}

/// Whether an index is somebody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owned {
    /// Of none.
    #[default]
    None,
    /// In the tables.
    Live,
    /// No more, but frames under way may still be counted there.
    Leaving,
}

impl Owned {
    fn of(number: u64) -> Owned {
        match number {
            1 => Owned::Live,
            2 => Owned::Leaving,
            _ => Owned::None,
        }
    }
}

/// A VIP that has an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VipOwner {
    /// Its name.
    pub name: String,
    /// No other VIP or real of this balancer has or had it.
    pub serial: u64,
    /// Whether it has the index.
    pub state: Owned,
    /// What had been counted there before.
    pub before: [u64; Count::ALL],
    /// Frames and bytes of its reals that are gone.
    pub gone: [u64; 2],
}

/// A real that has an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealOwner {
    /// As of a VIP.
    pub serial: u64,
    /// Serial number of its VIP.
    pub vip: u64,
    /// Whether it has the index.
    pub state: Owned,
    /// Of its entry in the tables.
    pub entry: u32,
    /// Frames and bytes that had been counted there before.
    pub before: [u64; 2],
}

/// What is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// The last serial number that was given.
    pub serials: u64,
    /// How many VIPs.
    pub vips: u64,
    /// What they counted.
    pub counts: [u64; Count::ALL],
    /// Frames and bytes of their reals.
    pub reals: [u64; 2],
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// By index.
    pub vips: Vec<VipOwner>,
    /// By index.
    pub reals: Vec<RealOwner>,
    /// What is gone.
    pub gone: Gone,
}

impl Books {
    /// Of a balancer with room for these numbers, in whose tables there are none yet.
    pub(super) fn empty(vips: u32, reals: u32) -> Books {
        let vips = vec![VipOwner::default(); vips as usize];
        Books { vips, reals: vec![RealOwner::default(); reals as usize], gone: Gone::default() }
    }

    /// Those of tables that follow. No CPU counts any more at an index that is of none in the
    /// tables before.
    pub(super) fn next(&self, tables: &Tables, counted: &impl Counted) -> Books {
        let mut next = self.clone();
        let there = self.vips.iter().enumerate().filter(|(_, vip)| vip.state != Owned::None);
        let vip_at: HashMap<u64, usize> = there.map(|(at, vip)| (vip.serial, at)).collect();
        for index in 0..next.reals.len() as u32 {
            next.let_real_go(index, tables, counted, &vip_at);
        }
        for index in 0..next.vips.len() as u32 {
            next.turn_vip(index, tables, counted);
        }
        for index in 0..next.reals.len() as u32 {
            next.let_real_come(index, tables, counted);
        }
        next
    }

    /// True if those of these tables have the same indices. (A real's entry says so itself.)
    pub(super) fn has_vips_of(&self, tables: &Tables) -> bool {
        let mut names = (0..).zip(&self.vips).map(|(index, vip)| {
            let name = (vip.state == Owned::Live).then_some(&vip.name[..]);
            name == tables.vip_name(index)
        });
        names.all(|is_same| is_same)
    }

    /// `vip_at` are the indices of VIPs by their serial numbers.
    fn let_real_go(
        &mut self,
        index: u32,
        tables: &Tables,
        counted: &impl Counted,
        vip_at: &HashMap<u64, usize>,
    ) {
        let at = index as usize;
        let owner = self.reals[at];
        let now = tables.reals.get(at).filter(|_| tables.has_real(index));
        match (owner.state, now) {
            (Owned::None, _) => {}
            (Owned::Live, Some(entry)) if entry.serial == owner.entry => {}
            (Owned::Live, None) => self.reals[at].state = Owned::Leaving,
            _ => {
                let counts = since(&counted.real(index), &owner.before);
                let sum = match vip_at.get(&owner.vip) {
                    Some(at) => &mut self.vips[*at].gone,
                    None => &mut self.gone.reals,
                };
                add(sum, &counts);
                self.reals[at] = RealOwner::default();
            }
        }
    }

    fn turn_vip(&mut self, index: u32, tables: &Tables, counted: &impl Counted) {
        let (at, now) = (index as usize, tables.vip_name(index));
        match (self.vips[at].state, now) {
            (Owned::None, None) => return,
            (Owned::Live, Some(name)) if name == self.vips[at].name => return,
            (Owned::Live, None) => {
                self.vips[at].state = Owned::Leaving;
                return;
            }
            _ => {}
        }
        let counts = counted.vip(index);
        let old = std::mem::take(&mut self.vips[at]);
        if old.state != Owned::None {
            add(&mut self.gone.counts, &since(&counts, &old.before));
            add(&mut self.gone.reals, &old.gone);
            self.gone.vips += 1;
        }
        if let Some(name) = now {
            let (name, serial) = (name.to_owned(), self.serial());
            let (state, before, gone) = (Owned::Live, counts, [0; 2]);
            self.vips[at] = VipOwner { name, serial, state, before, gone };
        }
    }

    fn let_real_come(&mut self, index: u32, tables: &Tables, counted: &impl Counted) {
        let at = index as usize;
        let now = tables.reals.get(at).filter(|_| tables.has_real(index));
        let (Owned::None, Some(entry)) = (self.reals[at].state, now) else { return };
        let vip = self.vips.get(entry.vip as usize).map_or(0, |vip| vip.serial);
        let (serial, before) = (self.serial(), counted.real(index));
        let state = Owned::Live;
        self.reals[at] = RealOwner { serial, vip, state, entry: entry.serial, before };
    }

    fn serial(&mut self) -> u64 {
        self.gone.serials += 1;
        self.gone.serials
    }
}

/// What was counted since.
pub(super) fn since<const N: usize>(now: &[u64; N], before: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

/// Adds counts to others.
pub(super) fn add<const N: usize>(to: &mut [u64; N], more: &[u64; N]) {
    for (to, more) in to.iter_mut().zip(more) {
        *to = to.saturating_add(*more);
    }
}

fn counts_of(words: &[u64]) -> [u64; Count::ALL] {
    std::array::from_fn(|at| words.get(at).copied().unwrap_or(0))
}

impl VipOwner {
    /// `struct balance_vip_owner`.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + use<> {
        let mut name = [0; NAME_CHARS_MAX];
        for (to, byte) in name.iter_mut().zip(self.name.bytes()) {
            *to = byte;
        }
        let name: [u64; NAME_WORDS] =
            std::array::from_fn(|at| u64::from_ne_bytes(name.as_chunks().0[at]));
        let ends = [self.serial, self.state as u64];
        name.into_iter().chain(ends).chain(self.before).chain(self.gone)
    }

    pub(super) fn of_words(words: &[u64; VIP_OWNER_BYTES / 8]) -> VipOwner {
        let (name, rest) = words.split_at(NAME_WORDS);
        let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        VipOwner {
            // A name has letters and digits alone: anything else was written by others.
            name: bytes.escape_ascii().to_string(),
            serial: rest[0],
            state: Owned::of(rest[1]),
            before: counts_of(&rest[2..]),
            gone: [rest[2 + COUNT_WORDS], rest[3 + COUNT_WORDS]],
        }
    }
}

impl RealOwner {
    /// `struct balance_real_owner`.
    pub(super) fn words(&self) -> [u64; REAL_OWNER_BYTES / 8] {
        let state = pair(self.state as u32, self.entry);
        [self.serial, self.vip, state, self.before[0], self.before[1], 0, 0, 0]
    }

    pub(super) fn of_words(words: &[u64; REAL_OWNER_BYTES / 8]) -> RealOwner {
        let (state, entry) = parts(words[2]);
        let (state, before) = (Owned::of(state.into()), [words[3], words[4]]);
        RealOwner { serial: words[0], vip: words[1], state, entry, before }
    }
}

impl Gone {
    /// `struct balance_gone`.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        [self.serials, self.vips].into_iter().chain(self.counts).chain(self.reals)
    }

    pub(super) fn of_words(words: &[u64]) -> Gone {
        debug_assert_eq!(words.len(), GONE_BYTES / 8);
        let at = |at: usize| words.get(at).copied().unwrap_or(0);
        Gone {
            serials: at(0),
            vips: at(1),
            counts: counts_of(words.get(2..).unwrap_or_default()),
            reals: [at(2 + COUNT_WORDS), at(3 + COUNT_WORDS)],
        }
    }
}

#[cfg(test)]
mod tests;
