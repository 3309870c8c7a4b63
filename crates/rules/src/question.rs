//! A match, made ready to be asked: what it means, frame by frame.

mod application;
mod term;

use crate::language::{Expression, Match, PayloadPattern, Term};
use crate::patterns::{Findings, PatternList, Seams, Search, Sought};
use ringside_core::LinkType;
use ringside_filter::{Compiler, FilterError, Prepared, compile};
use ringside_inspect::DissectedFrame;
use ringside_wire::Level;

/// What a [`Match`] asks of frames of one link type. This is the meaning of rules: every other
/// place that judges frames by them must come to the same answer.
///
/// Asking allocates nothing, and takes time linear in the frame for each term.
#[derive(Debug)]
pub struct Question {
    expression: Ready,
    bidirectional: bool,
    sought: Sought,
}

/// What is known of a frame's payloads in addition to their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// Which patterns are in them, of a set made of the list that the question was given.
    pub findings: Option<&'k Findings>,
    /// What came before them in their flows.
    pub seams: &'k Seams,
}

impl Known<'_> {
    /// The frame alone.
    pub const NOTHING: Known<'static> = Known { findings: None, seams: Seams::NONE };
}

/// An expression whose terms are ready.
#[derive(Debug)]
enum Ready {
    Term(Term),
    /// And its number, if it is one of many patterns that are looked for at once.
    Payload(Box<Search>, Option<u32>),
    Filter(Prepared),
    Not(Box<Ready>),
    And(Box<[Ready]>),
    Or(Box<[Ready]>),
    Inner(Box<Ready>),
}

/// How a question is meant.
#[derive(Clone, Copy)]
struct Asked<'k> {
    level: Level,
    /// Source and destination are exchanged in every term in which they differ. So no second
    /// expression is needed, with its filters compiled again, for the way back.
    exchanged: bool,
    known: Known<'k>,
}

/// What makes a question ready.
struct Making<'m> {
    link: LinkType,
    compiler: &'m Compiler,
    patterns: Option<&'m mut PatternList>,
    sought: Sought,
}

impl Question {
    /// Makes a match ready; `compiler` compiles its filters, for frames of `link`.
    ///
    /// # Errors
    /// A filter is refused; the error names it.
    pub fn new(
        matches: &Match,
        link: LinkType,
        compiler: &Compiler,
    ) -> Result<Question, FilterError> {
        Question::made(
            matches,
            Making { link, compiler, patterns: None, sought: Sought::default() },
        )
    }

    /// As [`new`](Question::new), and adds its payload patterns to a list, so that they can be
    /// looked for together with those of others. A pattern without room in the list is looked for
    /// alone.
    ///
    /// # Errors
    /// A filter is refused; the error names it.
    pub fn listed(
        matches: &Match,
        link: LinkType,
        compiler: &Compiler,
        patterns: &mut PatternList,
    ) -> Result<Question, FilterError> {
        let (patterns, sought) = (Some(patterns), Sought::default());
        Question::made(matches, Making { link, compiler, patterns, sought })
    }

    fn made(matches: &Match, mut making: Making<'_>) -> Result<Question, FilterError> {
        let expression = making.ready(&matches.expression, Level::Outer)?;
        let (bidirectional, sought) = (matches.bidirectional, making.sought);
        Ok(Question { expression, bidirectional, sought })
    }

    /// What it looks for in payloads, so that the caller can follow their flows.
    pub fn sought(&self) -> Sought {
        self.sought
    }

    /// True if the frame matches, looked at alone.
    pub fn holds(&self, dissected: &DissectedFrame<'_>) -> bool {
        self.holds_with(dissected, Known::NOTHING)
    }

    /// True if the frame matches, with what is known of its payloads: a pattern also counts if it
    /// ends in this frame's payload and begins before it in the flow.
    pub fn holds_with(&self, dissected: &DissectedFrame<'_>, known: Known<'_>) -> bool {
        let asked = Asked { level: Level::Outer, exchanged: false, known };
        holds(&self.expression, dissected, asked)
            || self.bidirectional
                && holds(&self.expression, dissected, Asked { exchanged: true, ..asked })
    }
}

impl Making<'_> {
    fn ready(&mut self, expression: &Expression, level: Level) -> Result<Ready, FilterError> {
        Ok(match expression {
            Expression::Term(Term::Filter(text)) => {
                // Only accepted or not is asked: how much to keep is not the filter's to say.
                let filter = compile(text, self.link, 0, self.compiler)?;
                Ready::Filter(Prepared::new(&filter.program)?)
            }
            Expression::Term(Term::Payload(pattern)) => {
                self.sought.add(pattern, level);
                Ready::Payload(Box::new(Search::new(pattern)), self.number(pattern))
            }
            Expression::Term(term) => Ready::Term(term.clone()),
            Expression::Not(inner) => Ready::Not(Box::new(self.ready(inner, level)?)),
            Expression::And(parts) => Ready::And(self.all(parts, level)?),
            Expression::Or(parts) => Ready::Or(self.all(parts, level)?),
            Expression::Inner(inner) => Ready::Inner(Box::new(self.ready(inner, Level::Inner)?)),
        })
    }

    fn all(&mut self, parts: &[Expression], level: Level) -> Result<Box<[Ready]>, FilterError> {
        parts.iter().map(|part| self.ready(part, level)).collect()
    }

    /// The number of a pattern that may lie anywhere; one at a fixed place is compared as fast.
    fn number(&mut self, pattern: &PayloadPattern) -> Option<u32> {
        let patterns = self.patterns.as_mut().filter(|_| pattern.at.is_none())?;
        patterns.add(pattern).ok()
    }
}

fn holds(expression: &Ready, dissected: &DissectedFrame<'_>, asked: Asked<'_>) -> bool {
    match expression {
        Ready::Term(term) => term::holds(term, dissected, asked),
        Ready::Payload(search, number) => {
            let Some(payload) = dissected.payload(asked.level) else { return false };
            let seam = asked.known.seams.at(asked.level);
            let found = number.zip(asked.known.findings);
            let found = found.and_then(|(n, known)| known.contain(n, asked.level, seam, payload));
            found.unwrap_or_else(|| search.finds(payload) || search.finds_across(seam))
        }
        Ready::Filter(filter) => filter.accepts(dissected.bytes(), dissected.wire_bytes()),
        Ready::Not(inner) => !holds(inner, dissected, asked),
        Ready::And(parts) => parts.iter().all(|part| holds(part, dissected, asked)),
        Ready::Or(parts) => parts.iter().any(|part| holds(part, dissected, asked)),
        Ready::Inner(inner) => {
            let asked = Asked { level: Level::Inner, ..asked };
            dissected.layers().is_tunnelled() && holds(inner, dissected, asked)
        }
    }
}
