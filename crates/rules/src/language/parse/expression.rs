//! `and`, `or`, `not`, parentheses.

use super::cursor::Cursor;
use super::term::{self, Scope};
use crate::language::error::{Fault, Outcome};
use crate::language::expression::{Expression, Match};
use crate::language::limits::{DEPTH_MAX, TERMS_MAX};
use crate::language::sets::Sets;

/// Reads a match with the `=>` behind it.
pub fn whole_match(cursor: &mut Cursor<'_>, sets: &mut Sets) -> Outcome<Match> {
    let mut parser = Parser { cursor, sets, depth: 0, terms: 0, scope: Scope::Frame };
    let expression = parser.either()?;
    let bidirectional = cursor.eat_word("bidir");
    if cursor.eat("=>") {
        return Ok(Match { expression, bidirectional });
    }
    Err(match cursor.peek_byte() {
        Some(b')') => cursor.unexpected("no `(` is open: remove it, or open one before"),
        None | Some(b'#') => {
            let problem = "the rule has no `=>`";
            Fault::new(cursor.at(), problem, "write MATCH => ACTION, as `tcp => drop`")
        }
        _ if bidirectional => cursor.unexpected("`bidir` ends the match: write `=>` behind it"),
        _ => cursor.unexpected("write `and`, `or` or `=>` here"),
    })
}

struct Parser<'p, 't> {
    cursor: &'p mut Cursor<'t>,
    sets: &'p mut Sets,
    /// Parentheses that are open.
    depth: usize,
    terms: usize,
    scope: Scope,
}

impl Parser<'_, '_> {
    /// Parts joined by `or`.
    fn either(&mut self) -> Outcome<Expression> {
        let first = self.all()?;
        if !self.eat_or() {
            return Ok(first);
        }
        let mut parts = vec![first, self.all()?];
        while self.eat_or() {
            parts.push(self.all()?);
        }
        Ok(Expression::one_of(parts))
    }

    fn eat_or(&mut self) -> bool {
        self.cursor.eat("||") || self.cursor.eat_word("or")
    }

    /// Parts joined by `and`, or side by side.
    fn all(&mut self) -> Outcome<Expression> {
        let first = self.unary()?;
        if !self.another() {
            return Ok(first);
        }
        let mut parts = vec![first, self.unary()?];
        while self.another() {
            parts.push(self.unary()?);
        }
        Ok(Expression::all_of(parts))
    }

    /// True if another part of an `and` follows; passes the `and`.
    fn another(&mut self) -> bool {
        match self.cursor.peek() {
            "" => self.cursor.eat("&&") || matches!(self.cursor.peek_byte(), Some(b'(' | b'!')),
            "and" => self.cursor.eat("and"),
            word => word != "or" && word != "bidir",
        }
    }

    fn unary(&mut self) -> Outcome<Expression> {
        let mut is_negated = false;
        while self.cursor.eat("!") || self.cursor.eat_word("not") {
            is_negated = !is_negated;
        }
        let expression = self.primary()?;
        Ok(if is_negated { expression.negated() } else { expression })
    }

    fn primary(&mut self) -> Outcome<Expression> {
        if self.cursor.peek_byte() == Some(b'(') {
            return self.in_parentheses();
        }
        let at = self.cursor.at();
        if self.cursor.eat_word("inner") {
            return self.inner(at);
        }
        self.terms += 1;
        if self.terms > TERMS_MAX {
            let problem = format!("the rule has more than {TERMS_MAX} terms");
            let fix = "write lists (`port 80,443`), an address file, or several rules";
            return Err(Fault::new(at, problem, fix));
        }
        term::term(self.cursor, self.scope, self.sets).map(Expression::Term)
    }

    /// `inner (…)`; the word stands at `at` and is passed.
    fn inner(&mut self, at: usize) -> Outcome<Expression> {
        if self.scope == Scope::Inner {
            let fix = "the innermost header is meant already: remove the second `inner`";
            return Err(Fault::new(at, "`inner` stands within `inner`", fix));
        }
        if self.cursor.peek_byte() != Some(b'(') {
            return Err(self.cursor.unexpected("write `inner (MATCH)`"));
        }
        self.scope = Scope::Inner;
        let expression = self.in_parentheses();
        self.scope = Scope::Frame;
        Ok(Expression::Inner(Box::new(expression?)))
    }

    /// `(…)`, which comes next.
    fn in_parentheses(&mut self) -> Outcome<Expression> {
        let start = self.cursor.at();
        if self.depth == DEPTH_MAX {
            let problem = format!("more than {DEPTH_MAX} parentheses within each other");
            return Err(Fault::new(start, problem, "write several rules"));
        }
        self.cursor.eat("(");
        self.depth += 1;
        let expression = self.either()?;
        if self.cursor.eat(")") {
            self.depth -= 1;
            return Ok(expression);
        }
        Err(match self.cursor.is_end() || self.cursor.peek_byte() == Some(b'=') {
            true => Fault::new(start, "this `(` is never closed", "write `)` behind the match"),
            false if self.cursor.peek() == "bidir" => {
                self.cursor.unexpected("`bidir` is said of the whole match: write it before `=>`")
            }
            false => self.cursor.unexpected("write `and`, `or` or `)` here"),
        })
    }
}
