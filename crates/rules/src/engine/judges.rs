//! The judges, as the writer of rules sees them.

use super::change_queue::{Change, ChangeQueue, Load};
use super::judge::Judge;
use super::judgement::Counts;
use super::rules::{Counters, Ready, RulesAtWork, SLOTS_MAX};
use crate::book::{Slot, SlotStore};
use crate::language::{InterfaceName, Match, Rule};
use crate::patterns::{PatternList, PatternSet, Sought};
use crate::question::Question;
use crate::streams::Streams;
use ringside_core::LinkType;
use ringside_filter::{Compiler, FilterError};
use ringside_sys::SysError;
use std::collections::HashMap;
use std::sync::Arc;

/// Interfaces that copies go to.
const MIRRORS_MAX: usize = 8;

/// Payload patterns that are looked for one after the other: in a frame of common size one takes
/// some 30 ns alone, and any number of them together some 600.
const PATTERNS_ALONE_MAX: usize = 16;

/// Why a rule cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum RuleRefusal {
    /// A filter expression was refused.
    #[error(transparent)]
    Question(FilterError),
    /// Too many interfaces for copies.
    #[error("copies go to more than {MIRRORS_MAX} interfaces")]
    Mirrors,
    /// Too many rules, with those that went and may still be looked at.
    #[error("more than {SLOTS_MAX} rules, with those that were just removed")]
    Slots,
}

/// Everything that judges know, and the queues of their changes.
#[derive(Debug)]
pub(super) struct Judges {
    link: LinkType,
    compiler: Compiler,
    /// The rules, by slot.
    ready: Vec<Option<Arc<Ready>>>,
    /// What rules look for in payloads.
    patterns: PatternList,
    /// What looks for those of them that were there when it was made, all at once.
    pattern_set: Option<Arc<PatternSet>>,
    /// The same as far as flows must be followed for it.
    sought: Sought,
    /// Where copies go; a bit of [`Judgement::mirrors`](super::Judgement::mirrors) each.
    mirrors: Vec<InterfaceName>,
    handles: Vec<JudgeHandle>,
    /// What slots had counted for rules before: to be subtracted.
    before: HashMap<Slot, Counts>,
}

/// The writer's side of one judge.
#[derive(Clone, Debug)]
struct JudgeHandle {
    changes: Arc<ChangeQueue>,
    counters: Counters,
    follows: Follows,
}

/// Which frames a judge sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Any: each is looked at alone.
    Nothing,
    /// All of a flow, in their order: payload patterns are found across its segments.
    Flows,
}

impl Follows {
    /// What flows are followed in, if they are, for rules that look for this.
    fn streams(self, sought: Sought) -> Option<Box<Streams>> {
        match self {
            Follows::Nothing => None,
            Follows::Flows => Streams::new(sought).map(Box::new),
        }
    }
}

impl Judges {
    pub(super) fn new(link: LinkType, compiler: Compiler) -> Judges {
        let (patterns, pattern_set) = (PatternList::default(), None);
        let (ready, mirrors, handles) = (Vec::new(), Vec::new(), Vec::new());
        let (before, sought) = (HashMap::new(), Sought::default());
        Judges { link, compiler, ready, patterns, pattern_set, sought, mirrors, handles, before }
    }

    /// For the same judges, no rules yet.
    pub(super) fn anew(&self) -> Judges {
        Judges { mirrors: self.mirrors.clone(), ..Judges::new(self.link, self.compiler.clone()) }
    }

    /// From now on the patterns of the rules that are here are looked for at once: unless they are
    /// few, or such that it would take too much memory. Each of the others is looked for when it is
    /// asked about.
    pub(super) fn join_patterns(&mut self) {
        let is_worth = self.patterns.count() > PATTERNS_ALONE_MAX;
        let set = is_worth.then(|| PatternSet::new(&self.patterns).ok()).flatten();
        self.pattern_set = set.map(Arc::new);
    }

    /// True if enough patterns were added since the last join that it pays to join them anew.
    pub(super) fn have_many_patterns_alone(&self) -> bool {
        let Some(set) = &self.pattern_set else {
            return self.patterns.count() == PATTERNS_ALONE_MAX + 1;
        };
        let alone = self.patterns.count() - set.count();
        alone > PATTERNS_ALONE_MAX && alone > set.count() / 4
    }

    fn known(&self, rules: &RulesAtWork, counters: &Counters, follows: Follows) -> Load {
        Load {
            rules: rules.clone(),
            ready: self.ready.clone(),
            counters: counters.clone(),
            patterns: self.pattern_set.clone(),
            streams: follows.streams(self.sought),
        }
    }

    pub(super) fn mirrors(&self) -> &[InterfaceName] {
        &self.mirrors
    }

    /// Adds a judge.
    pub(super) fn add(&mut self, rules: &RulesAtWork, follows: Follows) -> Result<Judge, SysError> {
        let handle = JudgeHandle { changes: Arc::default(), counters: Counters::new()?, follows };
        self.handles.push(handle.clone());
        Ok(Judge::new(self.known(rules, &handle.counters, follows), handle.changes))
    }

    /// Has the judges of `before` go by these rules from their next batch on.
    pub(super) fn take_over(
        &mut self,
        before: &Judges,
        rules: &RulesAtWork,
    ) -> Result<(), SysError> {
        let open = before.handles.iter().filter(|handle| !handle.changes.is_closed());
        let counters = open.clone().map(|_| Counters::new());
        let counters = counters.collect::<Result<Vec<Counters>, SysError>>()?;
        for (handle, counters) in open.zip(counters) {
            let load = self.known(rules, &counters, handle.follows);
            handle.changes.post(Change::Load(Box::new(load)));
            self.handles.push(JudgeHandle { counters, ..handle.clone() });
        }
        Ok(())
    }

    /// True if every judge has begun a batch since the last change.
    pub(super) fn are_up_to_date(&self) -> bool {
        self.handles.iter().all(|handle| handle.changes.is_up_to_date())
    }

    /// What all of them counted for the rule that has the slot.
    pub(super) fn counts(&self, slot: Slot) -> Counts {
        self.counts_ever(slot) - self.before.get(&slot).copied().unwrap_or_default()
    }

    fn counts_ever(&self, slot: Slot) -> Counts {
        let counts = self.handles.iter().map(|handle| handle.counters.read(slot));
        counts.fold(Counts::default(), |sum, counts| sum + counts)
    }

    fn post_to_all(&self, change: impl Fn() -> Change) {
        for handle in &self.handles {
            handle.changes.post(change());
        }
    }

    /// Has flows be followed for what a rule looks for, before any judge can meet it.
    fn follow(&mut self, sought: Sought) {
        let all = self.sought.and(sought);
        if all == self.sought {
            return;
        }
        self.sought = all;
        for handle in &self.handles {
            if let Some(streams) = handle.follows.streams(all) {
                handle.changes.post(Change::Streams(streams));
            }
        }
    }

    /// The bit of an interface that copies go to.
    fn mirror(&mut self, name: &InterfaceName) -> Option<u8> {
        let known = self.mirrors.iter().position(|mirror| mirror == name);
        let at = known.unwrap_or(self.mirrors.len());
        if at >= MIRRORS_MAX {
            return None;
        }
        if known.is_none() {
            self.mirrors.push(name.clone());
        }
        Some(1 << at)
    }
}

impl SlotStore for Judges {
    type Error = RuleRefusal;

    fn put(
        &mut self,
        slot: Slot,
        rule: &Arc<Rule>,
        needs: Option<&Match>,
    ) -> Result<(), RuleRefusal> {
        if slot.0 >= SLOTS_MAX {
            return Err(RuleRefusal::Slots);
        }
        let question = needs.map(|matches| {
            Question::listed(matches, self.link, &self.compiler, &mut self.patterns)
        });
        let question = question.transpose().map_err(RuleRefusal::Question)?;
        let mirror = match &rule.actions.mirror {
            Some(name) => self.mirror(name).ok_or(RuleRefusal::Mirrors)?,
            None => 0,
        };
        let ready = Arc::new(Ready::new(rule, question, mirror));
        let at = slot.0 as usize;
        if self.ready.len() <= at {
            self.ready.resize(at + 1, None);
        }
        self.ready[at] = Some(ready.clone());
        self.follow(ready.sought);
        // Before any judge can meet the rule: what it counts from its first frame on is its own.
        self.before.insert(slot, self.counts_ever(slot));
        self.post_to_all(|| Change::Put(slot, ready.clone()));
        Ok(())
    }

    fn retire(&mut self, slot: Slot) {
        self.ready[slot.0 as usize] = None;
        self.post_to_all(|| Change::Clear(slot));
    }
}
