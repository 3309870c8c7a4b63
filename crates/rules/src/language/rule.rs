//! A rule, and a set of them.

use super::actions::{Actions, Verdict};
use super::expression::Match;
use std::fmt;

/// One rule. Its `Display` is its canonical text, which [`parse_rule`](super::parse_rule) reads as
/// the same rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number, and its place: among rules of one kind the lowest is asked first.
    pub id: RuleId,
    /// Which frames are meant.
    pub matches: Match,
    /// What becomes of them.
    pub actions: Actions,
}

/// Number of a rule; in a set each is there once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

impl RuleId {
    /// The number of the first rule, if its line gives none.
    pub const FIRST: RuleId = RuleId(1);
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All rules of a text. Its `Display` is the canonical text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The rules, in order of their ids, each id once.
    pub rules: Vec<Rule>,
    /// The fate of frames that no rule decides about.
    pub default: Verdict,
}
