//! Texts in order, of which all that a text begins with are found by one search.

use std::cmp::Ordering;

/// The place of no other number.
const NONE: u32 = u32::MAX;

/// Texts in order. Each knows the longest of the others that it begins with, so that from the last
/// one that is not behind a text, all texts at its front are reached.
#[derive(Debug)]
pub(super) struct Sorted {
    /// As numbers of an arena.
    numbers: Box<[u32]>,
    /// As places in `numbers`.
    shorter: Box<[u32]>,
}

impl Sorted {
    /// Puts texts in order; none stands there twice.
    pub(super) fn new<'t>(mut numbers: Vec<u32>, get: impl Fn(u32) -> &'t [u8]) -> Sorted {
        numbers.sort_unstable_by_key(|&number| get(number));
        let mut shorter = Vec::with_capacity(numbers.len());
        for (place, &number) in numbers.iter().enumerate() {
            // Whatever this one begins with, the one before it begins with too, or is it.
            let mut before = place.checked_sub(1).map_or(NONE, |before| before as u32);
            while before != NONE && !get(number).starts_with(get(numbers[before as usize])) {
                before = shorter[before as usize];
            }
            shorter.push(before);
        }
        Sorted { numbers: numbers.into(), shorter: shorter.into() }
    }

    /// Calls `report` for all that lie at the front of `text`, from the longest to the shortest.
    /// `compare` says how a text of the arena stands to the front of `text` of its length.
    pub(super) fn at_front_of<'t>(
        &self,
        get: impl Fn(u32) -> &'t [u8],
        compare: impl Fn(&[u8]) -> Ordering,
        mut report: impl FnMut(u32),
    ) {
        let behind = self.numbers.partition_point(|&number| compare(get(number)).is_le());
        let mut place = behind.checked_sub(1).map_or(NONE, |last| last as u32);
        let mut is_there = false;
        while place != NONE {
            let number = self.numbers[place as usize];
            // Behind one that lies there, all that it begins with do.
            is_there = is_there || compare(get(number)).is_eq();
            if is_there {
                report(number);
            }
            place = self.shorter[place as usize];
        }
    }

    /// The longest row of texts each of which begins with the one before it.
    pub(super) fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.shorter.len());
        for &shorter in &self.shorter {
            depths.push(1 + depths.get(shorter as usize).copied().unwrap_or(0));
        }
        depths.into_iter().max().unwrap_or(0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.numbers) + size_of_val(&*self.shorter)
    }
}
