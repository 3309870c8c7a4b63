//! Patterns by a window of each: a filter, and what is compared behind it.

mod choice;

pub(super) use Outcome::Spent;

use super::Text;
use super::arena::Arena;
use super::hits::Hits;
use choice::Choice;
use ringside_sys::window_filter::{PLACES_MAX, WINDOW_BYTES, WindowFilter, hash, window};

/// Bits of the filter for each window, so that one place in a hundred is looked at in vain, and the
/// fewest and most: 32 KiB stay in the first-level cache, 256 KiB in the second.
const BITS_PER_WINDOW: usize = 64;
const BITS_LOG2: std::ops::RangeInclusive<u32> = 18..=21;

/// Work that is allowed for any text, in steps of a few nanoseconds.
const STEPS: usize = 64;

/// Steps of a comparison in addition to those for its bytes: the pattern lies elsewhere in memory.
const COMPARE_STEPS: usize = 2;

/// Bytes that are compared in one step, and without regard to case.
const STEP_BYTES: usize = 64;
const STEP_FOLDED_BYTES: usize = 8;

/// Whether the work was done, or the budget for it spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Spent,
}

/// The patterns of a window or more that may lie anywhere.
#[derive(Debug)]
pub(super) struct Windows {
    filter: WindowFilter,
    /// By the upper bits of a window's hash: where its entries begin. One more than there are.
    slots: Box<[u32]>,
    shift: u32,
    entries: Box<[Entry]>,
}

/// A pattern, and where its window is in it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    window: u32,
    number: u32,
    before: u16,
    ignores_case: bool,
}

impl Windows {
    /// Of numbers of the arena: the case-sensitive ones, and those that ignore case.
    pub(super) fn new(arena: &Arena, numbers: &[Vec<u32>; 2]) -> Windows {
        let all =
            || numbers.iter().zip([false, true]).flat_map(|(n, c)| n.iter().map(move |&n| (n, c)));
        let count = all().count();
        let choice = Choice::new(all().map(|(number, _)| arena.get(number)));
        let slots_log2 = count.next_power_of_two().ilog2() + 1;
        let shift = u32::BITS - slots_log2;
        let mut entries: Vec<Entry> = all()
            .map(|(number, ignores_case)| {
                let (before, window) = choice.best(arena.get(number));
                Entry { window, number, before, ignores_case }
            })
            .collect();
        entries.sort_unstable_by_key(|entry| (hash(entry.window), entry.number));
        let bits = (count * BITS_PER_WINDOW).next_power_of_two().ilog2();
        let mut filter = WindowFilter::new(bits.clamp(*BITS_LOG2.start(), *BITS_LOG2.end()));
        entries.iter().for_each(|entry| filter.insert(entry.window));
        let slots = (0..=1u32 << slots_log2)
            .map(|slot| {
                let is_before = |entry: &Entry| hash(entry.window) >> shift < slot;
                entries.partition_point(is_before) as u32
            })
            .collect();
        Windows { filter, slots, shift, entries: entries.into() }
    }

    /// Notes the patterns that end in the new part of a text. If that takes more than one step
    /// for each `bytes_per_step` bytes, some are not noted.
    pub(super) fn scan(
        &self,
        arena: &Arena,
        text: Text<'_>,
        bytes_per_step: usize,
        hits: &mut Hits,
    ) -> Outcome {
        if self.entries.is_empty() {
            return Outcome::Done;
        }
        let mut budget = STEPS + text.bytes.len() / bytes_per_step;
        let mut places = [0; PLACES_MAX];
        let mut from = 0;
        loop {
            let found = self.filter.find(text.bytes, from, &mut places);
            for &place in &places[..found.count] {
                match self.compare(arena, text, place as usize, budget, hits) {
                    Some(left) => budget = left,
                    None => return Spent,
                }
            }
            match found.next {
                Some(next) => from = next,
                None => return Outcome::Done,
            }
        }
    }

    /// Compares the patterns whose window may be at a place. What is left of the budget; none if it
    /// was not enough.
    fn compare(
        &self,
        arena: &Arena,
        text: Text<'_>,
        place: usize,
        budget: usize,
        hits: &mut Hits,
    ) -> Option<usize> {
        let window = window(*text.bytes.get(place..)?.first_chunk()?);
        let slot = (hash(window) >> self.shift) as usize;
        let entries = &self.entries[self.slots[slot] as usize..self.slots[slot + 1] as usize];
        let mut left = budget.checked_sub(1 + entries.len())?;
        for entry in entries.iter().filter(|entry| entry.window == window) {
            if hits.contains(entry.number) {
                continue;
            }
            let pattern = arena.get(entry.number);
            let step_bytes = if entry.ignores_case { STEP_FOLDED_BYTES } else { STEP_BYTES };
            left = left.checked_sub(COMPARE_STEPS + pattern.len() / step_bytes)?;
            let Some(start) = place.checked_sub(entry.before.into()) else { continue };
            let end = start + pattern.len();
            let Some(here) = text.bytes.get(start..end) else { continue };
            let is_here = match entry.ignores_case {
                true => here.eq_ignore_ascii_case(pattern),
                false => here == pattern,
            };
            if is_here && end > text.old {
                hits.add(entry.number);
            }
        }
        Some(left)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let tables = size_of_val(&*self.slots) + size_of_val(&*self.entries);
        self.filter.memory_bytes() + tables
    }
}

// Places are counted from the front of a pattern, in u16.
const _: () = assert!(crate::language::limits::PATTERN_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(WINDOW_BYTES == 4);
