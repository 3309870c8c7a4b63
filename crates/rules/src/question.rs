//! A match, made ready to be asked: what it means, frame by frame.

mod application;
mod payload;
mod term;

use crate::language::{Expression, Match, Term};
use crate::sight::Sight;
use payload::Search;
use ringside_core::LinkType;
use ringside_filter::{Compiler, FilterError, Prepared, compile};
use ringside_wire::Level;

/// What a [`Match`] asks of frames of one link type. This is the meaning of rules: every other
/// place that judges frames by them must come to the same answer.
///
/// Asking allocates nothing, and takes time linear in the frame for each term.
#[derive(Debug)]
pub struct Question {
    expression: Ready,
    bidirectional: bool,
}

/// An expression whose terms are ready.
#[derive(Debug)]
enum Ready {
    Term(Term),
    Payload(Box<Search>),
    Filter(Prepared),
    Not(Box<Ready>),
    And(Box<[Ready]>),
    Or(Box<[Ready]>),
    Inner(Box<Ready>),
}

/// How a question is meant.
#[derive(Clone, Copy)]
struct Asked {
    level: Level,
    /// Source and destination are exchanged in every term that tells them apart. So no second
    /// expression is needed, with its filters compiled again, for the way back.
    exchanged: bool,
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
        let expression = ready(&matches.expression, link, compiler)?;
        Ok(Question { expression, bidirectional: matches.bidirectional })
    }

    /// True if the frame is meant.
    pub fn holds(&self, sight: &Sight<'_>) -> bool {
        let asked = Asked { level: Level::Outer, exchanged: false };
        holds(&self.expression, sight, asked)
            || self.bidirectional
                && holds(&self.expression, sight, Asked { exchanged: true, ..asked })
    }
}

fn ready(
    expression: &Expression,
    link: LinkType,
    compiler: &Compiler,
) -> Result<Ready, FilterError> {
    let all = |parts: &[Expression]| -> Result<Box<[Ready]>, FilterError> {
        parts.iter().map(|part| ready(part, link, compiler)).collect()
    };
    let boxed = |inner: &Expression| ready(inner, link, compiler).map(Box::new);
    Ok(match expression {
        Expression::Term(Term::Filter(text)) => {
            // Only accepted or not is asked: how much to keep is not the filter's to say.
            Ready::Filter(Prepared::new(&compile(text, link, 0, compiler)?.program)?)
        }
        Expression::Term(Term::Payload(pattern)) => Ready::Payload(Box::new(Search::new(pattern))),
        Expression::Term(term) => Ready::Term(term.clone()),
        Expression::Not(inner) => Ready::Not(boxed(inner)?),
        Expression::And(parts) => Ready::And(all(parts)?),
        Expression::Or(parts) => Ready::Or(all(parts)?),
        Expression::Inner(inner) => Ready::Inner(boxed(inner)?),
    })
}

fn holds(expression: &Ready, sight: &Sight<'_>, asked: Asked) -> bool {
    match expression {
        Ready::Term(term) => term::holds(term, sight, asked),
        Ready::Payload(search) => {
            sight.payload(asked.level).is_some_and(|payload| search.finds(payload))
        }
        Ready::Filter(filter) => filter.accepts(sight.bytes(), sight.wire_bytes()),
        Ready::Not(inner) => !holds(inner, sight, asked),
        Ready::And(parts) => parts.iter().all(|part| holds(part, sight, asked)),
        Ready::Or(parts) => parts.iter().any(|part| holds(part, sight, asked)),
        Ready::Inner(inner) => {
            let asked = Asked { level: Level::Inner, ..asked };
            sight.layers().is_tunnelled() && holds(inner, sight, asked)
        }
    }
}
