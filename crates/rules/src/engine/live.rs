//! Rules that change while frames are judged.

use super::judge::Judge;
use super::judgement::Counts;
use super::judges::{Follows, Judges, RuleRefusal};
use super::rules::{GIVEN_UP, RulesAtWork, UNDECIDED};
use crate::book::{Book, BookError, Slot};
use crate::language::{InterfaceName, Rule, RuleId, RuleSet, Verdict};
use crate::memory::{Layout, Memory};
use crate::plan::{self, PlanError};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_sys::SysError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Why rules cannot be used; the rules before stay in force.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// One of the rules is wrong.
    #[error("rule {id}: {source}")]
    Rule {
        /// Id of the rule.
        id: RuleId,
        /// What is wrong with it.
        source: RuleRefusal,
    },
    /// The id is taken.
    #[error("rule {0} is there already; delete it first, or give the new one another id")]
    Exists(RuleId),
    /// There are too many rules.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no memory.
    #[error(transparent)]
    Memory(#[from] SysError),
    /// Rules were replaced several times, and some judge has not begun a batch since.
    #[error("the rules that were loaded before are not in use everywhere yet; try again")]
    Busy,
}

/// Sets of rules that were replaced and may still be in use. Each takes its tables' memory.
const FADING_MAX: usize = 4;

/// The writer of the rules in force, for any number of [`Judge`]s.
///
/// A single rule is added or removed at once: a frame whose judging begins after [`add`](Live::add)
/// or [`remove`](Live::remove) has returned is judged with it. A [`load`](Live::load) replaces all
/// rules; each judge takes it between two batches. The tables of both sets are there meanwhile. A
/// judge that has not taken a load yet uses the set before, as it was when it was replaced: it sees
/// no change that was made after the load.
#[derive(Debug)]
pub struct Live {
    book: Book<Judges>,
    rules: RulesAtWork,
    /// What rules had counted before they got their slots here: to be added.
    carried: HashMap<RuleId, Counts>,
    carried_default: Counts,
    carried_given_up: Counts,
    /// Rules that were replaced, while judges may still use them.
    fading: Option<Box<Live>>,
    /// Of those, the ids that were removed here since: what they counted there belongs to no rule.
    forgotten: HashSet<RuleId>,
}

impl Live {
    /// Puts rules to work on frames of one link type. Filter expressions are compiled by
    /// `compiler`, which for many of them takes its time.
    ///
    /// # Errors
    /// A filter expression is wrong, there are too many rules, or no memory.
    pub fn new(set: RuleSet, link: LinkType, compiler: &Compiler) -> Result<Live, BuildError> {
        let rules = set.rules.into_iter().map(Arc::new).collect();
        Live::with(rules, set.default, Judges::new(link, compiler.clone()))
    }

    fn with(
        mut rules: Vec<Arc<Rule>>,
        default: Verdict,
        judges: Judges,
    ) -> Result<Live, BuildError> {
        // The tables are filled best in order.
        rules.sort_by_key(|rule| rule.id);
        let capacity = plan::capacity(rules.iter().map(|rule| &**rule))?;
        let memory = Memory::heap(Layout::of(&capacity))?;
        let mut book = Book::new(&memory, judges).map_err(PlanError::Full)?;
        for rule in rules {
            let id = rule.id;
            book.add(rule).map_err(|error| build_error(id, error))?;
        }
        book.store_mut().join_patterns();
        Ok(Live {
            book,
            rules: RulesAtWork::of(&memory, default),
            carried: HashMap::new(),
            carried_default: Counts::default(),
            carried_given_up: Counts::default(),
            fading: None,
            forgotten: HashSet::new(),
        })
    }

    /// A new judge, for a thread of its own.
    ///
    /// # Errors
    /// There is no memory.
    pub fn judge(&mut self, follows: Follows) -> Result<Judge, SysError> {
        self.book.store_mut().add(&self.rules, follows)
    }

    /// Adds one rule, at once. Where the tables have no room for it, larger ones are
    /// made, which takes as long as a [`load`](Live::load).
    ///
    /// # Errors
    /// Its id is taken, it is wrong, or there is no room at all. Nothing has changed.
    pub fn add(&mut self, rule: Rule) -> Result<(), BuildError> {
        self.tidy_up();
        let (id, rule) = (rule.id, Arc::new(rule));
        match self.book.add(rule.clone()) {
            Ok(_) => {
                if self.book.store().have_many_patterns_alone() && self.fading.is_none() {
                    // Where it cannot be, each is looked for by itself as before.
                    let _ = self.replace(self.rules(), self.rules.default);
                }
                Ok(())
            }
            Err(BookError::Full(_)) => {
                let mut rules = self.rules();
                rules.push(rule);
                self.replace(rules, self.rules.default)
            }
            Err(error) => Err(build_error(id, error)),
        }
    }

    /// Removes one rule, at once; false if there is none. Its counts are lost.
    pub fn remove(&mut self, id: RuleId) -> bool {
        self.tidy_up();
        self.carried.remove(&id);
        if self.fading.as_ref().is_some_and(|fading| fading.book.get(id).is_some()) {
            self.forgotten.insert(id);
        }
        self.book.remove(id).is_some()
    }

    /// Replaces all rules. What those counted that stay as they are is kept.
    ///
    /// # Errors
    /// As [`new`](Live::new). Nothing has changed.
    pub fn load(&mut self, set: RuleSet) -> Result<(), BuildError> {
        self.tidy_up();
        self.replace(set.rules.into_iter().map(Arc::new).collect(), set.default)
    }

    fn rules(&self) -> Vec<Arc<Rule>> {
        self.book.rules().map(|(_, rule)| rule.clone()).collect()
    }

    fn replace(&mut self, rules: Vec<Arc<Rule>>, default: Verdict) -> Result<(), BuildError> {
        if self.fading_sets() >= FADING_MAX {
            return Err(BuildError::Busy);
        }
        let mut next = Live::with(rules, default, self.book.store().anew())?;
        next.book.store_mut().take_over(self.book.store(), &next.rules)?;
        let before = std::mem::replace(self, next);
        self.fading = Some(Box::new(before));
        Ok(())
    }

    /// The rules by id, and what they counted.
    pub fn counts(&self) -> impl Iterator<Item = (&Arc<Rule>, Counts)> {
        self.counts_after(None)
    }

    /// The same of the rules with higher ids than `id`; of all without one.
    pub fn counts_after(&self, id: Option<RuleId>) -> impl Iterator<Item = (&Arc<Rule>, Counts)> {
        self.book.rules_after(id).map(|(slot, rule)| (rule, self.counts_of(slot, rule)))
    }

    /// The highest id.
    pub fn last(&self) -> Option<RuleId> {
        self.book.last()
    }

    /// The fate of frames that no rule decides about, and how many there were.
    pub fn default_counts(&self) -> (Verdict, Counts) {
        let fading = self.fading.as_ref().map(|live| live.default_counts().1);
        let here = self.book.store().counts(UNDECIDED);
        (self.rules.default, here + self.carried_default + fading.unwrap_or_default())
    }

    /// Flows whose segments were not followed any more, because others needed their places.
    pub fn flows_given_up(&self) -> u64 {
        self.given_up().frames
    }

    fn given_up(&self) -> Counts {
        let fading = self.fading.as_ref().map(|live| live.given_up());
        self.book.store().counts(GIVEN_UP) + self.carried_given_up + fading.unwrap_or_default()
    }

    /// Where copies go: the interface of each bit of
    /// [`Judgement::mirrors`](super::Judgement::mirrors).
    pub fn mirrors(&self) -> &[InterfaceName] {
        self.book.store().mirrors()
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.book.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.book.is_empty()
    }

    /// Sets of rules that are still there for judges that go by them.
    fn fading_sets(&self) -> usize {
        self.fading.as_ref().map_or(0, |live| 1 + live.fading_sets())
    }

    fn counts_of(&self, slot: Slot, rule: &Arc<Rule>) -> Counts {
        let carried = self.carried.get(&rule.id).copied().unwrap_or_default();
        let fading = self.fading.as_ref().filter(|_| !self.forgotten.contains(&rule.id));
        let faded = fading.map(|live| live.counts_if_same(rule)).unwrap_or_default();
        self.book.store().counts(slot) + carried + faded
    }

    /// What a rule counted, if it is here as it is there.
    fn counts_if_same(&self, rule: &Arc<Rule>) -> Counts {
        match self.book.get(rule.id) {
            Some((slot, here)) if here == rule => self.counts_of(slot, here),
            _ => Counts::default(),
        }
    }

    /// Frees what no judge can be looking at any more.
    fn tidy_up(&mut self) {
        if !self.book.store().are_up_to_date() {
            return;
        }
        if self.book.has_retired() {
            self.book.reclaim();
        }
        let Some(fading) = self.fading.take() else { return };
        let forgotten = std::mem::take(&mut self.forgotten);
        for (_, rule) in self.book.rules().filter(|(_, rule)| !forgotten.contains(&rule.id)) {
            let counts = fading.counts_if_same(rule);
            if counts != Counts::default() {
                let carried = self.carried.entry(rule.id).or_default();
                *carried = *carried + counts;
            }
        }
        self.carried_default = self.carried_default + fading.default_counts().1;
        self.carried_given_up = self.carried_given_up + fading.given_up();
    }
}

fn build_error(id: RuleId, error: BookError<RuleRefusal>) -> BuildError {
    match error {
        BookError::Exists(id) => BuildError::Exists(id),
        BookError::Full(full) => BuildError::Plan(PlanError::Full(full)),
        BookError::Store(source) => BuildError::Rule { id, source },
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
