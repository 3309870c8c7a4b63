//! Terms joined by `and`, `or` and `not`.

use super::term::Term;

/// What a rule asks of a frame, as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Which frames match.
    pub expression: Expression,
    /// Frames match too for which the [exchanged](Expression::exchanged) expression holds.
    pub bidirectional: bool,
}

/// A boolean expression. The parser builds the normal form that [`all_of`](Expression::all_of),
/// [`one_of`](Expression::one_of) and [`negated`](Expression::negated) give: no `And` directly in
/// an `And`, no `Or` in an `Or`, two parts at least in each, no `Not` of a `Not`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A single question.
    Term(Term),
    /// It does not hold.
    Not(Box<Expression>),
    /// All of these must hold.
    And(Vec<Expression>),
    /// One at least holds.
    Or(Vec<Expression>),
    /// There is a tunnel, and it holds for the innermost IP header and what surrounds it within the
    /// tunnel. It holds no other `Inner`, and no term about the frame as a whole.
    Inner(Box<Expression>),
}

impl Expression {
    /// All of `parts` hold; true if there are none.
    pub fn all_of(parts: Vec<Expression>) -> Expression {
        joined(parts, Expression::And, |part| match part {
            Expression::And(inner) => Ok(inner),
            other => Err(other),
        })
        .unwrap_or(Expression::Term(Term::Any))
    }

    /// One of `parts` holds; false if there are none.
    pub fn one_of(parts: Vec<Expression>) -> Expression {
        joined(parts, Expression::Or, |part| match part {
            Expression::Or(inner) => Ok(inner),
            other => Err(other),
        })
        .unwrap_or_else(|| Expression::Term(Term::Any).negated())
    }

    /// It does not hold.
    pub fn negated(self) -> Expression {
        match self {
            Expression::Not(inner) => *inner,
            other => Expression::Not(Box::new(other)),
        }
    }

    /// True if one of its terms, at any depth, is such.
    pub fn any_term(&self, is_such: &impl Fn(&Term) -> bool) -> bool {
        match self {
            Expression::Term(term) => is_such(term),
            Expression::Not(inner) | Expression::Inner(inner) => inner.any_term(is_such),
            Expression::And(parts) | Expression::Or(parts) => {
                parts.iter().any(|part| part.any_term(is_such))
            }
        }
    }

    /// The same with source and destination exchanged in every `mac`, `ip` and `port`. Bytes,
    /// payloads and filters stay as they are.
    pub fn exchanged(&self) -> Expression {
        let all = |parts: &[Expression]| parts.iter().map(Expression::exchanged).collect();
        match self {
            Expression::Term(Term::Mac(side, pattern)) => {
                Expression::Term(Term::Mac(side.exchanged(), *pattern))
            }
            Expression::Term(Term::Ip(side, addresses)) => {
                Expression::Term(Term::Ip(side.exchanged(), addresses.clone()))
            }
            Expression::Term(Term::Port(side, ports)) => {
                Expression::Term(Term::Port(side.exchanged(), ports.clone()))
            }
            Expression::Term(other) => Expression::Term(other.clone()),
            Expression::Not(inner) => Expression::Not(Box::new(inner.exchanged())),
            Expression::And(parts) => Expression::And(all(parts)),
            Expression::Or(parts) => Expression::Or(all(parts)),
            Expression::Inner(inner) => Expression::Inner(Box::new(inner.exchanged())),
        }
    }
}

/// One part as it is, several joined; none if there are none. What `open` takes apart is replaced
/// by what is in it.
fn joined(
    parts: Vec<Expression>,
    join: fn(Vec<Expression>) -> Expression,
    open: fn(Expression) -> Result<Vec<Expression>, Expression>,
) -> Option<Expression> {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match open(part) {
            Ok(inner) => flat.extend(inner),
            Err(part) => flat.push(part),
        }
    }
    if flat.len() > 1 { Some(join(flat)) } else { flat.pop() }
}
