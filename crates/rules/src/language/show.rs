//! From rules to their canonical text: one form for everything that means the same to the parser.

mod action;
mod term;

use super::actions::Verdict;
use super::expression::{Expression, Match};
use super::rule::{Rule, RuleSet};
use ringside_core::shown::is_direction;
use std::fmt::{self, Display, Formatter, Write};

impl Display for RuleSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.default != Verdict::default() {
            writeln!(f, "default {}", self.default)?;
        }
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} => {}", self.id, self.matches, self.actions)
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)?;
        if self.bidirectional { f.write_str(" bidir") } else { Ok(()) }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Term(term) => term.fmt(f),
            Expression::Not(inner) => {
                f.write_str("not ")?;
                part(inner, matches!(**inner, Expression::And(_) | Expression::Or(_)), f)
            }
            Expression::And(parts) => separated(f, parts, " and ", |part_of, f| {
                part(part_of, matches!(part_of, Expression::Or(_)), f)
            }),
            Expression::Or(parts) => separated(f, parts, " or ", |part, f| part.fmt(f)),
            Expression::Inner(inner) => {
                f.write_str("inner ")?;
                part(inner, true, f)
            }
        }
    }
}

/// A part of an expression, in parentheses only where its meaning needs them: so a text never
/// nests deeper than the one that it came from.
fn part(part: &Expression, in_parentheses: bool, f: &mut Formatter<'_>) -> fmt::Result {
    if in_parentheses { write!(f, "({part})") } else { part.fmt(f) }
}

/// Items with something between them.
fn separated<T>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
    mut show: impl FnMut(T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        show(item, f)?;
    }
    Ok(())
}

/// A text as one word if it can be one, else in quotation marks.
fn word_or_quoted(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@*+;~%$?[]{}^'<".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => f.write_str(text),
        false => in_quotes(text.as_bytes(), f),
    }
}

/// Bytes in quotation marks.
fn in_quotes(bytes: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() || is_direction(c) => {
                    escaped(c.encode_utf8(&mut [0; 4]).as_bytes(), f)?;
                }
                c => f.write_char(c)?,
            }
        }
        escaped(chunk.invalid(), f)?;
    }
    f.write_char('"')
}

fn escaped(bytes: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}
