//! What a program has tested on all ways to one of its instructions.

use crate::fields::{Field, Known, Place};
use crate::key::Condition;

/// Tests that are remembered: more than any one way through an ordinary expression has. What is
/// not remembered makes a plan prune less.
const FACTS_MAX: usize = 32;
/// Values that a test of one field may have let through, from several ways that meet.
const VALUES_MAX: usize = 8;

/// Bytes that a program loads, and the bits of them that it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) place: Place,
    pub(crate) bytes: u32,
    pub(crate) mask: u32,
}

impl Load {
    pub(crate) fn is_whole(&self) -> bool {
        self.mask == u32::MAX >> (32 - 8 * self.bytes)
    }
}

/// A test that held.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    load: Load,
    allowed: Allowed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    /// The number is one of these.
    Values(Vec<u32>),
    /// The number lies between these, both included.
    Range(u32, u32),
}

impl Allowed {
    fn is_same_kind(&self, other: &Allowed) -> bool {
        matches!(
            (self, other),
            (Allowed::Values(_), Allowed::Values(_)) | (Allowed::Range(..), Allowed::Range(..))
        )
    }
}

/// All that is known at one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(Vec<Fact>);

impl Facts {
    /// Of a load, the number is `value`. False if that cannot be.
    pub(crate) fn equal(&mut self, load: Load, value: u32) -> bool {
        match self.values(load) {
            Some(values) if !values.contains(&value) => false,
            Some(values) => {
                *values = vec![value];
                true
            }
            None => {
                self.add(Fact { load, allowed: Allowed::Values(vec![value]) });
                value & !load.mask == 0
            }
        }
    }

    /// Of a load, the number is anything but `value`. False if that cannot be.
    pub(crate) fn unequal(&mut self, load: Load, value: u32) -> bool {
        let Some(values) = self.values(load) else { return true };
        values.retain(|&one| one != value);
        !values.is_empty()
    }

    /// Of a load, the number lies between these. False if that cannot be.
    pub(crate) fn within(&mut self, load: Load, low: u32, high: u32) -> bool {
        let mut facts = self.0.iter_mut().filter(|fact| fact.load == load);
        let known = facts.find_map(|fact| match &mut fact.allowed {
            Allowed::Range(low, high) => Some((low, high)),
            Allowed::Values(_) => None,
        });
        let Some((known_low, known_high)) = known else {
            self.add(Fact { load, allowed: Allowed::Range(low, high) });
            return low <= high;
        };
        (*known_low, *known_high) = ((*known_low).max(low), (*known_high).min(high));
        known_low <= known_high
    }

    fn values(&mut self, load: Load) -> Option<&mut Vec<u32>> {
        self.0.iter_mut().filter(|fact| fact.load == load).find_map(|fact| {
            match &mut fact.allowed {
                Allowed::Values(values) => Some(values),
                Allowed::Range(..) => None,
            }
        })
    }

    fn add(&mut self, fact: Fact) {
        if self.0.len() < FACTS_MAX {
            self.0.push(fact);
        }
    }

    /// Keeps what is also known on another way.
    pub(crate) fn meet(&mut self, other: &Facts) {
        self.0.retain_mut(|fact| {
            let is_same = |o: &&Fact| o.load == fact.load && o.allowed.is_same_kind(&fact.allowed);
            let Some(other) = other.0.iter().find(is_same) else { return false };
            match (&mut fact.allowed, &other.allowed) {
                (Allowed::Values(values), Allowed::Values(others)) => {
                    values.extend_from_slice(others);
                    values.sort_unstable();
                    values.dedup();
                    values.len() <= VALUES_MAX
                }
                (Allowed::Range(low, high), Allowed::Range(other_low, other_high)) => {
                    (*low, *high) = ((*low).min(*other_low), (*high).max(*other_high));
                    true
                }
                _ => false,
            }
        });
    }

    /// What is known of `field`; none if that is nothing.
    pub(crate) fn condition(&self, field: &Field) -> Option<Condition> {
        let (mut mask, mut bits, mut low, mut high) = (0, 0, 0, field.mask);
        for Fact { load, allowed } in &self.0 {
            let Some(shift) = shift(load, field) else { continue };
            match *allowed {
                Allowed::Values(ref values) => {
                    let &[value] = &values[..] else { continue };
                    mask |= u128::from(load.mask) << shift & field.mask;
                    bits |= u128::from(value) << shift & field.mask;
                }
                Allowed::Range(from, to) if load.bytes == field.bytes && is_plain(field) => {
                    (low, high) = (from.into(), to.into());
                }
                Allowed::Range(..) => {}
            }
        }
        let is_nothing = mask == 0 && low == 0 && high == field.mask;
        // Above the field all bits are 0: else no value would be the largest that can hold.
        let mask = mask | !field.mask;
        (!is_nothing).then_some(Condition { kind: field.kind, mask, bits, low, high })
    }
}

/// All bits of the field's bytes belong to it.
fn is_plain(field: &Field) -> bool {
    field.mask == u128::MAX >> (128 - 8 * field.bytes)
}

/// How many bits of `field` lie behind a load that lies in it.
pub(crate) fn shift(load: &Load, field: &Field) -> Option<u32> {
    let from = load.place.offset.checked_sub(field.place.offset)?;
    let behind = field.bytes.checked_sub(from.checked_add(load.bytes)?)?;
    (load.place.behind == field.place.behind).then_some(8 * behind)
}

impl Known for Facts {
    fn is_one_of(&self, place: Place, bytes: u32, mask: u32, values: &[u32]) -> bool {
        self.0.iter().any(|Fact { load, allowed }| {
            let Allowed::Values(allowed) = allowed else { return false };
            let is_there = (load.place, load.bytes) == (place, bytes) && load.mask & mask == mask;
            is_there && allowed.iter().all(|value| values.contains(&(value & mask)))
        })
    }
}
