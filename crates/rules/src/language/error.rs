//! What is wrong with a text, and where.

use super::limits::ERRORS_MAX;
use ringside_core::shown::is_direction;
use std::fmt;

/// Longest part of a line in a message, in characters: it fits on a screen.
const EXCERPT_CHARS_MAX: usize = 96;
/// Where the part begins if the place lies far to the right: this number of characters before it.
const BEFORE_CHARS: usize = 48;

/// One thing that is wrong. Its `Display` is for people: place, problem, fix, and the line with a
/// caret below the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, with the value and, where there is one, the limit.
    pub problem: String,
    /// What would be right.
    pub fix: String,
    /// The line, or the part of it around the place.
    pub excerpt: String,
    /// Where in the excerpt the place is, in characters from 0.
    pub caret: usize,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleError { line, column, problem, fix, excerpt, caret } = self;
        writeln!(f, "line {line}, column {column}: {problem}; {fix}")?;
        writeln!(f, "  {excerpt}")?;
        write!(f, "  {:caret$}^", "")
    }
}

impl std::error::Error for RuleError {}

/// Everything that is wrong with a text; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleErrors {
    /// In order of lines, one a line.
    pub errors: Vec<RuleError>,
    /// True if the rest of the text was not read.
    pub is_cut: bool,
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let end = if index > 0 { "\n" } else { "" };
            write!(f, "{end}{error}")?;
        }
        if self.is_cut {
            write!(f, "\nthe rest was not read after {} errors", self.errors.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleErrors {}

/// A problem at a place of a line whose number the finder does not know.
#[derive(Debug)]
pub(super) struct Fault {
    /// Byte of the line, from 0.
    pub at: usize,
    pub problem: String,
    pub fix: String,
}

/// What reading a piece of a line gives.
pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn new(at: usize, problem: impl Into<String>, fix: impl Into<String>) -> Fault {
        Fault { at, problem: problem.into(), fix: fix.into() }
    }

    /// The error for people: `raw` is the line, which need not be UTF-8.
    pub fn in_line(self, line: usize, raw: &[u8]) -> RuleError {
        let before = String::from_utf8_lossy(&raw[..self.at.min(raw.len())]).chars().count();
        let start = if before < EXCERPT_CHARS_MAX { 0 } else { before - BEFORE_CHARS };
        let lossy = String::from_utf8_lossy(raw);
        let mut rest = lossy.chars().skip(start);
        let mut excerpt = String::from(if start > 0 { "…" } else { "" });
        let caret = before - start + excerpt.chars().count();
        excerpt.extend(rest.by_ref().take(EXCERPT_CHARS_MAX).map(visible));
        if rest.next().is_some() {
            excerpt.push('…');
        }
        let column = before + 1;
        RuleError { line, column, problem: self.problem, fix: self.fix, excerpt, caret }
    }
}

/// One column for each character: what would move the cursor becomes a blank or a mark.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() || is_direction(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Errors of a text as they are found.
#[derive(Debug, Default)]
pub(super) struct Collected {
    errors: Vec<RuleError>,
}

impl Collected {
    /// Takes one in; false if the rest need not be read.
    pub fn add(&mut self, error: RuleError) -> bool {
        self.errors.push(error);
        self.errors.len() < ERRORS_MAX
    }

    /// The errors, if there was any.
    pub fn into_result(self, is_cut: bool) -> Result<(), RuleErrors> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(RuleErrors { errors: self.errors, is_cut }),
        }
    }
}

/// The names that may have been meant, as the end of a sentence; or what to do otherwise.
pub(super) fn meant<'n>(wrong: &str, names: impl Iterator<Item = &'n str>, else_: &str) -> String {
    let similar = ringside_core::similar_names(&wrong.to_ascii_lowercase(), names);
    match similar.first() {
        Some(best) => format!("did you mean `{best}`?"),
        None => else_.to_owned(),
    }
}

/// A piece of a line as messages show it: cut, so that a line of 64 KiB does not fill the screen.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_MAX).map(visible).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}
