//! Judging frames by many rules, at a cost that hardly grows with their number.
//!
//! Exact rules are found by one look into a hash table ([`exact`](crate::exact)), before all
//! others. Of the others, bit vectors ([`table`](crate::table)) find those whose addresses, ports
//! and protocol fit; what they ask beyond that ([`Question`](crate::question::Question)) is asked
//! of the frames that are left. Each judge remembers the candidate rules of a
//! conversation.
//!
//! [`Live`] is the one writer: it changes the rules while its [`Judge`]s, one a thread, go on.
//! [`Engine`] is both, for one thread.

mod cache;
mod change_queue;
mod judge;
mod judgement;
mod judges;
mod live;
mod rules;

pub use judge::Judge;
pub use judgement::{Counts, Fate, Judgement};
pub use judges::{Follows, RuleRefusal};
pub use live::{BuildError, Live};

use crate::language::{InterfaceName, Rule, RuleSet, Verdict};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use std::sync::Arc;

/// Rules and their only judge, which sees all frames of a flow in their order.
#[derive(Debug)]
pub struct Engine {
    live: Live,
    judge: Judge,
}

impl Engine {
    /// Puts rules to work on frames of one link type. Filter expressions are compiled by
    /// `compiler`, which for many of them takes its time.
    ///
    /// # Errors
    /// A filter expression is wrong, there are too many wildcard rules, or no memory.
    pub fn new(set: RuleSet, link: LinkType, compiler: &Compiler) -> Result<Engine, BuildError> {
        let mut live = Live::new(set, link, compiler)?;
        let judge = live.judge(Follows::Flows)?;
        Ok(Engine { live, judge })
    }

    /// What becomes of a frame, which every rule on the way counts.
    #[inline]
    pub fn judge(&mut self, frame: &DissectedFrame<'_>) -> Judgement {
        self.judge.judge(frame)
    }

    /// The rules by id, and what they counted.
    pub fn counts(&self) -> impl Iterator<Item = (&Arc<Rule>, Counts)> {
        self.live.counts()
    }

    /// The fate of frames that no rule decides about, and how many there were.
    pub fn default_counts(&self) -> (Verdict, Counts) {
        self.live.default_counts()
    }

    /// Flows whose segments were not followed any more, because others needed their places.
    pub fn flows_given_up(&self) -> u64 {
        self.live.flows_given_up()
    }

    /// Where copies go: the interface of each bit of [`Judgement::mirrors`].
    pub fn mirrors(&self) -> &[InterfaceName] {
        self.live.mirrors()
    }
}

#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
