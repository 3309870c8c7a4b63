//! What is known of a real's health.

use serde::{Deserialize, Serialize};

/// A real's health. Until its answers say otherwise it is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RealHealth {
    pub is_up: bool,
    /// Answers in a row against its state.
    against: u32,
    good: u64,
    bad: u64,
    /// The last answer, in words.
    pub last: String,
}

/// The same in accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthLedger {
    /// It is not down for want of answers.
    pub is_up: bool,
    /// Questions that were answered well.
    pub good: u64,
    /// Questions that were not.
    pub bad: u64,
    /// The last answer, in words; empty before the first.
    pub last: String,
}

impl Default for RealHealth {
    fn default() -> RealHealth {
        RealHealth { is_up: true, against: 0, good: 0, bad: 0, last: String::new() }
    }
}

impl RealHealth {
    /// Notes an answer; true if the real is up or down since: after `rise` good ones in a row, or
    /// `fall` bad ones.
    pub fn note(&mut self, answer: &Result<(), String>, rise: u32, fall: u32) -> bool {
        let count = if answer.is_ok() { &mut self.good } else { &mut self.bad };
        *count = count.saturating_add(1);
        self.last = answer.clone().err().unwrap_or_else(|| "answered".to_owned());
        if answer.is_ok() == self.is_up {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let has_turned = self.against >= if self.is_up { fall } else { rise };
        if has_turned {
            (self.is_up, self.against) = (!self.is_up, 0);
        }
        has_turned
    }

    pub fn ledger(&self) -> HealthLedger {
        let RealHealth { is_up, good, bad, last, .. } = self.clone();
        HealthLedger { is_up, good, bad, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_turns_after_so_many_answers_in_a_row() {
        let mut health = RealHealth::default();
        let mut note = |good: bool| {
            let answer = if good { Ok(()) } else { Err("refused".to_owned()) };
            health.note(&answer, 2, 3).then_some(good)
        };
        // One good answer among bad ones begins anew, and the reverse.
        let answers =
            [false, false, true, false, false, false, false, true, false, true, true, true];
        let turns: Vec<Option<bool>> = answers.into_iter().map(&mut note).collect();
        let turned: Vec<usize> = (0..turns.len()).filter(|at| turns[*at].is_some()).collect();
        assert_eq!(turned, [5, 10]);
        assert_eq!((turns[5], turns[10]), (Some(false), Some(true)));
        let ledger = health.ledger();
        assert_eq!((ledger.is_up, ledger.good, ledger.bad), (true, 5, 7));
        assert_eq!(ledger.last, "answered");
    }
}
