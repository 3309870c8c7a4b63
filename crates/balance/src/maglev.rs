//! Lookup tables by Maglev's hashing (Eisenbud et al., NSDI 2016, section 3.4), with weights.
//!
//! Each real has a permutation of the slots, made of its address alone, and the reals take turns:
//! at its turn a real takes the first slot of its permutation that is free. A real of half the
//! greatest weight has every second turn, and so on. The table depends on nothing but addresses,
//! weights and the number of slots: not on the order of the reals in a file, nor on the machine.

use crate::hash::{SEED_OFFSET, SEED_SKIP, hash};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Least slots of a table: 251 reals of equal weight have one each.
pub const SLOTS_MIN: u32 = 251;
/// Most slots of a table: 4 MiB, which a VIP of thousands of reals needs.
pub const SLOTS_MAX: u32 = 1_048_573;
/// Slots of a table unless the configuration says otherwise: of 100 reals each has 655, so that a
/// share is within 0.2 % of its weight.
pub const SLOTS_DEFAULT: u32 = 65_537;
/// The greatest weight.
pub const WEIGHT_MAX: u32 = 65_535;

/// No real: in a slot of a table without any.
pub const NONE: u32 = u32::MAX;

/// A real, as a table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// What it is, everywhere and always: words of its address.
    pub key: [u64; 2],
    /// Its part of the sum of all weights; with 0 it has no slot. At most [`WEIGHT_MAX`].
    pub weight: u32,
}

/// A real while the table is filled.
struct Turns {
    index: u32,
    weight: u64,
    slot: u32,
    skip: u32,
    taken: u64,
}

/// Which of `reals` has each of `slots` slots, by its index; [`NONE`] in all of them if no real has
/// a weight. `slots` is a prime, so that every permutation meets every slot. Takes the time of some
/// `slots` * ln(`slots`) steps.
///
/// # Panics
/// `slots` is no prime within [`SLOTS_MIN`] and [`SLOTS_MAX`].
pub fn table(reals: &[Weighted], slots: u32) -> Vec<u32> {
    assert!((SLOTS_MIN..=SLOTS_MAX).contains(&slots) && is_prime(slots), "{slots} slots");
    let mut table = vec![NONE; slots as usize];
    let mut order: Vec<(Weighted, u32)> = reals.iter().copied().zip(0..).collect();
    order.retain(|(real, _)| real.weight > 0);
    order.sort_by_key(|(real, index)| (real.key, *index));
    let weight_max = order.iter().map(|(real, _)| u64::from(real.weight)).max().unwrap_or(1);
    let mut turns: Vec<Turns> =
        order.iter().map(|&(real, index)| turns(real, index, slots)).collect();
    // A real's k-th turn is in the round in which k greatest weights have been earned.
    let round = |real: &Turns| ((real.taken + 1) * weight_max).div_ceil(real.weight);
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        turns.iter().enumerate().map(|(rank, real)| Reverse((round(real), rank))).collect();
    let mut free = slots;
    while free > 0 {
        let Some(Reverse((_, rank))) = heap.pop() else { break };
        let real = &mut turns[rank];
        while table[real.slot as usize] != NONE {
            real.go_on(slots);
        }
        table[real.slot as usize] = real.index;
        real.go_on(slots);
        real.taken += 1;
        free -= 1;
        heap.push(Reverse((round(real), rank)));
    }
    table
}

fn turns(real: Weighted, index: u32, slots: u32) -> Turns {
    let slot = (hash(SEED_OFFSET, &real.key) % u64::from(slots)) as u32;
    let skip = (hash(SEED_SKIP, &real.key) % u64::from(slots - 1)) as u32 + 1;
    Turns { index, weight: real.weight.min(WEIGHT_MAX).into(), slot, skip, taken: 0 }
}

impl Turns {
    /// The next slot of the permutation; both are below 2^20, so that nothing overflows.
    fn go_on(&mut self, slots: u32) {
        self.slot = (self.slot + self.skip) % slots;
    }
}

/// True if `number` is a prime.
pub fn is_prime(number: u32) -> bool {
    let divides = |divisor: &u32| number.is_multiple_of(*divisor);
    number > 1 && !(2..).take_while(|divisor| divisor * divisor <= number).any(|d| divides(&d))
}

/// The least prime from `number` on, within the limits of a table.
pub fn prime_from(number: u32) -> u32 {
    let number = number.clamp(SLOTS_MIN, SLOTS_MAX);
    (number..=SLOTS_MAX).find(|number| is_prime(*number)).unwrap_or(SLOTS_MAX)
}

#[cfg(test)]
mod tests;
