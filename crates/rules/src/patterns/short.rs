//! Patterns that are shorter than a window.

use super::Text;
use super::arena::Arena;
use super::automaton::Automaton;
use super::hits::Hits;
use super::list::PatternError;
use super::search::Search;
use crate::language::PayloadPattern;

/// Patterns that are looked for one by one: each ends at its first find, and few bytes are found
/// soon or passed at many times the automaton's speed.
const SEARCHES_MAX: usize = 16;

#[derive(Debug)]
pub(super) enum Short {
    /// Number and length of each.
    Few(Box<[(u32, usize, Search)]>),
    Many(Box<[Option<Automaton>; 2]>),
}

impl Short {
    /// Of numbers of the arena: the case-sensitive ones, and those that ignore case.
    pub(super) fn new(arena: &Arena, numbers: &[Vec<u32>; 2]) -> Result<Short, PatternError> {
        let [exact, folded] = numbers;
        if exact.len() + folded.len() > SEARCHES_MAX {
            let automata =
                [Automaton::new(arena, exact, false)?, Automaton::new(arena, folded, true)?];
            return Ok(Short::Many(automata.into()));
        }
        let search = |number: u32, ignore_case: bool| {
            let bytes = arena.get(number);
            let pattern = PayloadPattern { bytes: bytes.into(), ignore_case, at: None };
            (number, bytes.len(), Search::new(&pattern))
        };
        let exact = exact.iter().map(|&number| search(number, false));
        let folded = folded.iter().map(|&number| search(number, true));
        Ok(Short::Few(exact.chain(folded).collect()))
    }

    pub(super) fn scan(&self, text: Text<'_>, hits: &mut Hits) {
        match self {
            Short::Few(searches) => {
                for (number, length, search) in searches {
                    // What begins here ends behind what is old.
                    let from = (text.old + 1).saturating_sub(*length);
                    let new = text.bytes.get(from..).unwrap_or_default();
                    if search.finds(new) {
                        hits.add(*number);
                    }
                }
            }
            Short::Many(automata) => {
                automata.iter().flatten().for_each(|automaton| automaton.scan(text, hits));
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Short::Few(searches) => size_of_val(&**searches),
            Short::Many(automata) => automata.iter().flatten().map(Automaton::memory_bytes).sum(),
        }
    }
}
