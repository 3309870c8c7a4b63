//! Patterns and their numbers.

use super::{PATTERN_BYTES_SUM_MAX, PATTERNS_MAX};
use crate::language::PayloadPattern;
use crate::language::limits::PATTERN_BYTES_MAX;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Why patterns are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A pattern has no bytes, or too many.
    #[error("a pattern of {bytes} bytes; 1 to {PATTERN_BYTES_MAX} are possible")]
    Length {
        /// The pattern's length.
        bytes: usize,
    },
    /// There are too many.
    #[error(
        "more than {PATTERNS_MAX} patterns, or more than {PATTERN_BYTES_SUM_MAX} bytes of them"
    )]
    TooMany,
    /// Too many of the patterns are ends of each other.
    #[error("{depth} patterns are ends of one another, too many among {states} beginnings")]
    TooNested {
        /// The longest row of patterns, each of which ends with the one before it.
        depth: usize,
        /// How many different beginnings the patterns have.
        states: usize,
    },
}

/// Patterns, numbered from 0 in the order in which they came; the same pattern has one number.
///
/// Numbers stay, so that a set made before the last patterns came still answers for the others.
#[derive(Clone, Debug, Default)]
pub struct PatternList {
    numbers: HashMap<PayloadPattern, u32, RandomState>,
    bytes: usize,
}

impl PatternList {
    /// The number of a pattern, which is added if it is new.
    ///
    /// # Errors
    /// The pattern is too long or empty, or there is no room for it; the list is as before.
    pub fn add(&mut self, pattern: &PayloadPattern) -> Result<u32, PatternError> {
        let bytes = pattern.bytes.len();
        if !(1..=PATTERN_BYTES_MAX).contains(&bytes) {
            return Err(PatternError::Length { bytes });
        }
        let pattern = normal(pattern);
        if let Some(&number) = self.numbers.get(&pattern) {
            return Ok(number);
        }
        if self.numbers.len() >= PATTERNS_MAX || self.bytes + bytes > PATTERN_BYTES_SUM_MAX {
            return Err(PatternError::TooMany);
        }
        let number = self.numbers.len() as u32;
        self.bytes += bytes;
        self.numbers.insert(pattern, number);
        Ok(number)
    }

    /// How many different patterns there are.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The patterns, by number.
    pub(super) fn in_order(&self) -> Vec<&PayloadPattern> {
        let mut all: Vec<(&PayloadPattern, &u32)> = self.numbers.iter().collect();
        all.sort_unstable_by_key(|(_, number)| **number);
        all.into_iter().map(|(pattern, _)| pattern).collect()
    }
}

/// One form for what means the same: lower case where case is ignored, and it is ignored only
/// where there are letters.
fn normal(pattern: &PayloadPattern) -> PayloadPattern {
    let has_letters = pattern.bytes.iter().any(u8::is_ascii_alphabetic);
    let ignore_case = pattern.ignore_case && has_letters;
    let bytes = match ignore_case {
        true => pattern.bytes.to_ascii_lowercase().into(),
        false => pattern.bytes.clone(),
    };
    PayloadPattern { bytes, ignore_case, at: pattern.at }
}
