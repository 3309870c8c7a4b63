//! The way that takes the same time for every payload.

use super::Text;
use super::arena::Arena;
use super::hits::Hits;
use super::list::PatternError;
use super::sorted::Sorted;
use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton as States;
use aho_corasick::{dfa::DFA, nfa::contiguous::NFA};

/// Notes of the automaton about patterns, one for each state and each pattern that its text ends
/// with: while it is built they take 8 bytes each.
const NOTES_MAX: usize = 32 << 20;

/// Largest table of all moves, in bytes. A larger one does not fit the cache, where it is no faster
/// than the compact form and a hundred times as large.
const TABLE_BYTES_MAX: usize = 2 << 20;

/// Bytes for which the automaton takes as long as one step of a few nanoseconds does, or twice as
/// long: a table that is in the cache, and the compact form, which has to look for each move.
const TABLE_BYTES_PER_STEP: usize = 8;
const COMPACT_BYTES_PER_STEP: usize = 2;

/// An Aho-Corasick automaton.
#[derive(Debug)]
pub(super) struct Automaton {
    form: Form,
    /// The numbers of its patterns.
    numbers: Box<[u32]>,
}

#[derive(Debug)]
enum Form {
    Table(DFA),
    Compact(NFA),
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
        let texts: Vec<&[u8]> = numbers.iter().map(|&number| arena.get(number)).collect();
        let depth = depth(&texts);
        let (states, notes) = states_and_notes(&texts, depth);
        let too_nested = PatternError::TooNested { depth, states };
        if notes > NOTES_MAX {
            return Err(too_nested);
        }
        let form = if table_bytes(&texts, states, ignore_case) <= TABLE_BYTES_MAX {
            let mut builder = DFA::builder();
            builder.ascii_case_insensitive(ignore_case).prefilter(false);
            builder.build(&texts).map(Form::Table)
        } else {
            let mut builder = NFA::builder();
            builder.ascii_case_insensitive(ignore_case).prefilter(false);
            builder.build(&texts).map(Form::Compact)
        };
        // What can still fail are numbers of states and patterns, far above our limits.
        let form = form.map_err(|_| too_nested)?;
        Ok(Some(Automaton { form, numbers: numbers.into() }))
    }

    /// Notes the patterns that end in the new part of a text. Nothing else may have noted patterns
    /// of this automaton.
    pub(super) fn scan(&self, text: Text<'_>, hits: &mut Hits) {
        match &self.form {
            Form::Table(states) => self.walk(states, text, hits),
            Form::Compact(states) => self.walk(states, text, hits),
        }
    }

    /// A state lists its patterns from the longest to the shortest, each of which is the end of
    /// those before it. So where one was noted, all behind it were, and the work is linear in the
    /// text and in the hits.
    fn walk(&self, states: &impl States, text: Text<'_>, hits: &mut Hits) {
        let Ok(mut state) = states.start_state(Anchored::No) else { return };
        for (at, &byte) in text.bytes.iter().enumerate() {
            state = states.next_state(Anchored::No, state, byte);
            if at >= text.old && states.is_match(state) {
                let patterns = (0..states.match_len(state))
                    .map(|index| states.match_pattern(state, index).as_usize());
                for pattern in patterns {
                    if !hits.add(self.numbers[pattern]) {
                        break;
                    }
                }
            }
        }
    }

    /// How many bytes of a text are worth one step of work that saves the automaton.
    pub(super) fn bytes_per_step(&self) -> usize {
        match &self.form {
            Form::Table(_) => TABLE_BYTES_PER_STEP,
            Form::Compact(_) => COMPACT_BYTES_PER_STEP,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let states = match &self.form {
            Form::Table(states) => states.memory_usage(),
            Form::Compact(states) => states.memory_usage(),
        };
        states + size_of_val(&*self.numbers)
    }
}

/// The most patterns that end with one another.
fn depth(texts: &[&[u8]]) -> usize {
    let backwards: Vec<Vec<u8>> =
        texts.iter().map(|text| text.iter().rev().copied().collect()).collect();
    let all = (0..backwards.len() as u32).collect();
    Sorted::new(all, |place| &backwards[place as usize]).depth()
}

/// The states, one for each different beginning of a pattern, and at most how many notes they have:
/// one for each pattern that the beginning ends with, none of which is longer.
fn states_and_notes(texts: &[&[u8]], depth: usize) -> (usize, usize) {
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    let (mut states, mut notes) = (0, 0);
    let mut last: &[u8] = &[];
    for text in sorted {
        let shared = last.iter().zip(text).take_while(|(a, b)| a == b).count();
        states += text.len() - shared;
        notes += (shared + 1..=text.len()).map(|bytes| bytes.min(depth)).sum::<usize>();
        last = text;
    }
    (states, notes)
}

/// Bytes of a table: a row for each state, a column for each byte that patterns have, rounded up to
/// a power of two.
fn table_bytes(texts: &[&[u8]], states: usize, ignore_case: bool) -> usize {
    let mut has = [false; 256];
    for &byte in texts.iter().copied().flatten() {
        has[usize::from(byte)] = true;
        has[usize::from(byte.to_ascii_uppercase())] |= ignore_case;
    }
    let columns = 1 + has.into_iter().filter(|has| *has).count();
    states * columns.next_power_of_two() * size_of::<u32>()
}
