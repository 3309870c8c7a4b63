//! From what a rule asks beyond the tables to checks that a driver can make, or why it cannot.
//!
//! The tables know addresses, ports and protocol (`ringside_rules::cover`). What else a rule asks
//! must be a conjunction of questions, each perhaps negated.

mod terms;

use crate::sets::SetId;
use ringside_ebpf::abi::rules::{CHECK_BYTES_MAX, CHECK_SPANS_MAX, CHECKS_MAX, Check};
use ringside_rules::cover::Cover;
use ringside_rules::language::{Addresses, Expression, Match, Term};
use thiserror::Error;

/// Why a rule cannot be at work inside the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum NotHere {
    /// Payload, or fields of a protocol above transport.
    #[error("it asks about payload")]
    Payload,
    /// A pcap-filter expression.
    #[error("it has a filter expression")]
    Filter,
    /// What a tunnel carries.
    #[error("it asks about what a tunnel carries (inner)")]
    Inner,
    /// Alternatives other than of addresses, ports and protocols.
    #[error("it asks for one of several things (or) other than addresses, ports and protocols")]
    Alternatives,
    /// `bidir`, with more than one condition that differs between the ends.
    #[error("it is bidir and asks more about one end than the tables hold")]
    BothWays,
    /// Too many combinations for the tables.
    #[error("its addresses, ports and protocols have too many combinations")]
    Combinations,
    /// A list of too many ranges.
    #[error("it lists more than {} ranges of a kind", CHECK_SPANS_MAX)]
    LongList,
    /// A `not` of many bytes.
    #[error("it asks for more than {} bytes not to be there", CHECK_BYTES_MAX)]
    LongBytes,
    /// Too many questions.
    #[error("it asks more than {} things that the tables do not hold", CHECKS_MAX)]
    TooMany,
    /// Parts of frames are kept.
    #[error("it keeps parts of frames (cap, keep)")]
    Trim,
    /// Copies are sent.
    #[error("it sends copies (mirror)")]
    Mirror,
    /// Records of frames are handed over.
    #[error("it hands over records of frames (digest)")]
    Digest,
    /// Files of the recording are kept.
    #[error("it keeps files of the recording (pin)")]
    Pin,
    /// Frames go to a queue: the driver has chosen one before.
    #[error("it sends frames to a queue (redirect queue)")]
    Queue,
    /// A sample, of which a capture counts a part.
    #[error("it takes a sample, which is counted in one place")]
    Sample,
}

/// What a driver asks of a frame that the tables found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// About address sets: the answers are the same for all frames of a conversation.
    pub flow: Vec<Check>,
    /// All other questions, asked of each frame.
    pub frame: Vec<Check>,
}

impl Checks {
    fn len(&self) -> usize {
        self.flow.len() + self.frame.len()
    }

    /// True if the tables say all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Gives every set of addresses a number.
pub trait SetNumbers {
    /// Why there is none.
    type Error;

    /// The number of a set.
    ///
    /// # Errors
    /// There is no room for another one.
    fn number(&mut self, addresses: &Addresses) -> Result<SetId, Self::Error>;
}

/// Why no checks were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckError<E> {
    /// The rule is not for a driver.
    NotHere(NotHere),
    /// The set of addresses has no number.
    Set(E),
}

impl<E> From<NotHere> for CheckError<E> {
    fn from(reason: NotHere) -> CheckError<E> {
        CheckError::NotHere(reason)
    }
}

/// The checks of a match of which the tables do not say all.
///
/// # Errors
/// It asks what a driver cannot answer, or of a set without a number.
pub fn of<S: SetNumbers>(matches: &Match, sets: &mut S) -> Result<Checks, CheckError<S::Error>> {
    let parts = match &matches.expression {
        Expression::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (said, asked): (Vec<&Expression>, Vec<&Expression>) =
        parts.iter().partition(|part| is_said(part, false));
    let said: Vec<Expression> = said.into_iter().cloned().collect();
    let tells_nothing = said.is_empty();
    // Parts that the tables say alone may be too many together.
    if !is_said(&Expression::all_of(said), matches.bidirectional) {
        return Err(NotHere::Combinations.into());
    }
    let mut checks = Checks::default();
    let is_alone = tells_nothing && asked.len() == 1;
    for part in asked {
        let (term, is_negated) = term_of(part)?;
        let ways = match (matches.bidirectional, is_alone && !is_negated) {
            (false, _) => terms::Ways::There,
            (true, true) => terms::Ways::Either,
            (true, false) => terms::Ways::Same,
        };
        terms::add(&mut checks, term, is_negated, ways, sets)?;
    }
    if checks.len() > CHECKS_MAX {
        return Err(NotHere::TooMany.into());
    }
    Ok(checks)
}

/// True if the tables say all of an expression.
fn is_said(expression: &Expression, bidirectional: bool) -> bool {
    Cover::of(&Match { expression: expression.clone(), bidirectional }).is_exact
}

/// A part as a term or its negation.
fn term_of(part: &Expression) -> Result<(&Term, bool), NotHere> {
    match part {
        Expression::Term(term) => Ok((term, false)),
        Expression::Not(inner) => match &**inner {
            Expression::Term(term) => Ok((term, true)),
            other => Err(reason(other)),
        },
        other => Err(reason(other)),
    }
}

/// Why an expression that is no term is not for a driver: what is in it, before that it is `or`.
fn reason(expression: &Expression) -> NotHere {
    let first = |parts: &[Expression]| {
        let reasons = parts.iter().map(reason);
        reasons.reduce(|a, b| if a == NotHere::Alternatives { b } else { a })
    };
    match expression {
        Expression::Term(term) => terms::reason(term).unwrap_or(NotHere::Alternatives),
        Expression::Not(inner) => reason(inner),
        Expression::And(parts) | Expression::Or(parts) => {
            first(parts).unwrap_or(NotHere::Alternatives)
        }
        Expression::Inner(_) => NotHere::Inner,
    }
}
