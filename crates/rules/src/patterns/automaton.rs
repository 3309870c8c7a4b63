//! The way that takes the same time for every payload.

use super::Text;
use super::arena::Arena;
use super::hits::Hits;
use super::list::PatternError;
use super::sorted::Sorted;
use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton as _;
use aho_corasick::nfa::contiguous::NFA;

/// Notes of the automaton about patterns, one for each state and each pattern that its text ends
/// with: while it is built they take 8 bytes each, so 256 MiB.
const NOTES_MAX: usize = 32 << 20;

/// An Aho-Corasick automaton. Its compact form: a full table of states is no faster where it does
/// not fit the cache, and takes a hundred times the memory.
#[derive(Debug)]
pub(super) struct Automaton {
    nfa: NFA,
    /// The numbers of its patterns.
    numbers: Box<[u32]>,
}

impl Automaton {
    /// An automaton of some patterns of the arena; none if there are none.
    pub(super) fn new(
        arena: &Arena,
        numbers: &[u32],
        ignore_case: bool,
    ) -> Result<Option<Automaton>, PatternError> {
        if numbers.is_empty() {
            return Ok(None);
        }
        let texts = || numbers.iter().map(|&number| arena.get(number));
        let bytes = texts().map(<[u8]>::len).sum();
        let backwards: Vec<Vec<u8>> =
            texts().map(|text| text.iter().rev().copied().collect()).collect();
        let all = (0..backwards.len() as u32).collect();
        let depth = Sorted::new(all, |place| &backwards[place as usize]).depth();
        let too_nested = PatternError::TooNested { depth, bytes };
        if depth * bytes > NOTES_MAX {
            return Err(too_nested);
        }
        // What is left to fail are numbers of states and patterns, far above our limits.
        let nfa = NFA::builder()
            .ascii_case_insensitive(ignore_case)
            .prefilter(false)
            .build(texts())
            .map_err(|_| too_nested)?;
        Ok(Some(Automaton { nfa, numbers: numbers.into() }))
    }

    /// Notes the patterns that end in the new part of a text.
    ///
    /// A state tells its patterns from the longest to the shortest, each of which is the end of
    /// those before it. So where one was noted, all behind it were, and the work is linear in the
    /// text and in the hits. This holds as long as nobody else notes patterns of this automaton.
    pub(super) fn scan(&self, text: Text<'_>, hits: &mut Hits) {
        let Ok(mut state) = self.nfa.start_state(Anchored::No) else { return };
        for (at, &byte) in text.bytes.iter().enumerate() {
            state = self.nfa.next_state(Anchored::No, state, byte);
            if at >= text.old && self.nfa.is_match(state) {
                let patterns = (0..self.nfa.match_len(state))
                    .map(|index| self.nfa.match_pattern(state, index).as_usize());
                for pattern in patterns {
                    if !hits.add(self.numbers[pattern]) {
                        break;
                    }
                }
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nfa.memory_usage() + size_of_val(&*self.numbers)
    }
}
