//! What becomes of a frame.

use crate::language::{Redirect, Rule, RuleId, Trim, Verdict};
use std::ops::{Add, Sub};

/// What the rules said about one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Where it goes.
    pub fate: Fate,
    /// The rule that said so; none if it is the default.
    pub decided_by: Option<RuleId>,
    /// What is kept of its bytes where it is taken; of several cuts the first rule's.
    pub trim: Option<Trim>,
    /// A short record of it is handed over, for this rule, the first that says so.
    pub digest: Option<RuleId>,
    /// The files that come to hold it are kept, for this rule, the first that says so.
    pub pin: Option<RuleId>,
    /// Where copies go: bits of [`Engine::mirrors`](super::Engine::mirrors).
    pub mirrors: u8,
}

/// Where a frame goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To the host, to the consumers, or nowhere.
    Verdict(Verdict),
    /// To another interface, queue or CPU.
    Redirect(Redirect),
}

impl Default for Fate {
    fn default() -> Fate {
        Fate::Verdict(Verdict::default())
    }
}

impl Judgement {
    /// A rule decides, unless one before it did.
    pub(super) fn decide(&mut self, by: RuleId, fate: Fate) {
        if self.decided_by.is_none() {
            self.fate = fate;
            self.decided_by = Some(by);
        }
    }

    /// Takes in what a rule says of a frame that is meant.
    pub(super) fn add(&mut self, rule: &Rule, mirror: u8) {
        let actions = &rule.actions;
        let redirect = || actions.redirect.clone().map(Fate::Redirect);
        let fate = actions.verdict.map(Fate::Verdict).or_else(redirect);
        if let Some(fate) = fate {
            self.decide(rule.id, fate);
        }
        if self.trim.is_none() {
            self.trim.clone_from(&actions.trim);
        }
        self.digest = self.digest.or(actions.digest.then_some(rule.id));
        self.pin = self.pin.or(actions.pin.then_some(rule.id));
        self.mirrors |= mirror;
    }
}

/// Frames and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames counted.
    pub frames: u64,
    /// Bytes of these frames on the wire.
    pub bytes: u64,
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts { frames: self.frames + other.frames, bytes: self.bytes + other.bytes }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts { frames: self.frames - other.frames, bytes: self.bytes - other.bytes }
    }
}
