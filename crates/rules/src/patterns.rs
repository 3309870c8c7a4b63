//! Many payload patterns, looked for at once.
//!
//! A [`PatternList`] gives each pattern a number, a [`PatternSet`] is made of it, and
//! [`PatternSet::scan`] finds which of them are in a payload, as [`Hits`]. [`Stream`] carries what
//! is needed from segment to segment of a flow, and makes a [`Seam`] of what lies around the border
//! between two, so that patterns are found wherever they are cut.
//! [`Sought`] and [`Seams`] are of the two payloads that a frame may have. [`Findings`] keeps what
//! is known of one frame, for the rules that ask about it.
//!
//! Of each pattern one *window* of four bytes is chosen, in the hope that it is rare. A bit table
//! of the windows ([`window_filter`](ringside_sys::window_filter)) rejects nearly every place of a
//! payload; at the few others the patterns with this window are compared. A sender who knows the
//! rules can send payloads that are full of such places. So there is a budget, in proportion to the
//! payload: once it is spent, an Aho-Corasick automaton reads the payload instead, in linear time
//! whatever it is. Patterns that are shorter than a window, and those at a fixed place, are few or
//! cheap, and are looked for apart.

mod arena;
mod automaton;
mod findings;
mod fixed;
mod hits;
mod levels;
mod list;
mod search;
mod short;
mod sorted;
mod stream;
mod windows;

pub use findings::Findings;
pub use hits::Hits;
pub use levels::{Seams, Sought};
pub use list::{PatternError, PatternList};
pub(crate) use search::Search;
pub use stream::{Seam, Stream};

use arena::Arena;
use automaton::Automaton;
use fixed::Fixed;
use ringside_sys::window_filter::WINDOW_BYTES;
use short::Short;
use windows::{Outcome, Spent, Windows};

/// Patterns of one set: each rule of a large set has one.
pub const PATTERNS_MAX: usize = 65_536;

/// Bytes of all patterns of a set: 32 for each, which is the length of a host name or of a header.
/// They bound the states of the automaton, 20 to 40 bytes each.
pub const PATTERN_BYTES_SUM_MAX: usize = 32 * PATTERNS_MAX;

/// Many patterns, ready to be looked for.
#[derive(Debug)]
pub struct PatternSet {
    arena: Arena,
    /// Those anywhere, of a window or more.
    windows: Windows,
    /// The same once more: the case-sensitive ones, and those that ignore case.
    automata: [Option<Automaton>; 2],
    short: Short,
    fixed: Fixed,
    longest: usize,
}

/// A text, and what of it is new: a match counts if it ends in there.
#[derive(Clone, Copy)]
struct Text<'t> {
    bytes: &'t [u8],
    /// Bytes at the front that were there before.
    old: usize,
    /// Bytes of the flow before the text.
    position: u64,
}

impl PatternSet {
    /// Makes a set of the patterns of a list.
    ///
    /// # Errors
    /// The patterns are such that the automaton would take more memory than is stated.
    pub fn new(list: &PatternList) -> Result<PatternSet, PatternError> {
        let patterns = list.in_order();
        let arena = Arena::new(&patterns);
        let anywhere = |ignore_case: bool, is_long: bool| -> Vec<u32> {
            (0..)
                .zip(&patterns)
                .filter(|(_, p)| p.at.is_none() && p.ignore_case == ignore_case)
                .filter(|(_, p)| (p.bytes.len() >= WINDOW_BYTES) == is_long)
                .map(|(number, _)| number)
                .collect()
        };
        let long = [false, true].map(|ignore_case| anywhere(ignore_case, true));
        let short = [false, true].map(|ignore_case| anywhere(ignore_case, false));
        let [exact, folded] = &long;
        let automata =
            [Automaton::new(&arena, exact, false)?, Automaton::new(&arena, folded, true)?];
        Ok(PatternSet {
            windows: Windows::new(&arena, &long),
            automata,
            short: Short::new(&arena, &short)?,
            fixed: Fixed::new(&arena, &patterns),
            longest: patterns.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or(0),
            arena,
        })
    }

    /// How many patterns there are; they are numbered from 0.
    pub fn count(&self) -> usize {
        self.arena.count()
    }

    /// Memory, in bytes: at most 5 MiB, 128 bytes a pattern and 40 for each of its bytes; and 4 for
    /// each time that a pattern is the end of another's beginning.
    pub fn memory_bytes(&self) -> usize {
        let automata = self.automata.iter().flatten().map(Automaton::memory_bytes).sum::<usize>();
        let others = self.short.memory_bytes() + self.fixed.memory_bytes();
        self.arena.memory_bytes() + self.windows.memory_bytes() + automata + others
    }

    /// Finds which patterns are in `payload`; `hits` is cleared first. Allocates nothing, if `hits`
    /// was made for this set.
    pub fn scan(&self, payload: &[u8], hits: &mut Hits) {
        self.look(&[Text { bytes: payload, old: 0, position: 0 }], hits);
    }

    /// Finds which patterns are in `payload` or lie across the border before it, which
    /// [`Stream::take_in`] made: those that end in this segment of a flow, wherever they begin. A
    /// fixed place counts from the flow's first byte.
    pub fn scan_next(&self, seam: &Seam, payload: &[u8], hits: &mut Hits) {
        let texts = [seam.text(), seam.next(payload)];
        self.look(&texts[usize::from(seam.is_empty())..], hits);
    }

    /// Bytes of the longest pattern; 0 without any.
    pub fn longest(&self) -> usize {
        self.longest
    }

    fn look(&self, texts: &[Text<'_>], hits: &mut Hits) {
        hits.begin(self.count());
        let mut scans = texts.iter().map(|text| self.look_by_windows(*text, hits));
        if scans.any(|outcome| outcome == Spent) {
            self.look_by_automata(texts, hits);
        }
        for text in texts {
            self.short.scan(*text, hits);
            self.fixed.scan(&self.arena, *text, hits);
        }
    }

    /// Stops where an automaton would be done sooner.
    fn look_by_windows(&self, text: Text<'_>, hits: &mut Hits) -> Outcome {
        let bytes_per_step = self.automata.iter().flatten().map(Automaton::bytes_per_step).min();
        self.windows.scan(&self.arena, text, bytes_per_step.unwrap_or(1), hits)
    }

    /// Forgets what was found, on whose completeness the automata rely.
    fn look_by_automata(&self, texts: &[Text<'_>], hits: &mut Hits) {
        hits.clear();
        for text in texts {
            self.automata.iter().flatten().for_each(|automaton| automaton.scan(*text, hits));
        }
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
