//! Rules at work in a run.
//!
//! How a judge is made, and by what, is this module's affair alone: the others know that there is
//! one for each thread of a lane, and what it says of a frame.

mod builder;
mod error;
mod judge;

pub use builder::RulesBuilder;
pub use error::{ChangeError, RulesError};
pub(super) use judge::{RuleJudge, Ruling};

use super::digests::{DigestCounts, DigestReader};
use super::mirrors::{MirrorCounts, MirrorReader};
use super::pre_filters::PreFilters;
use ringside_core::LinkType;
use ringside_rules::engine::{BuildError, Counts, Follows, Live};
use ringside_rules::language::{
    InterfaceName, Ranges, Redirect, Rule, RuleId, RuleSet, Term, Trim, Verdict,
};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// The rules of a run, at work; a [`RulesBuilder`] makes them. Clones are the same rules.
#[derive(Clone)]
pub struct Rules(Arc<Mutex<Book>>);

pub(super) struct Book {
    /// Those that the run began with.
    set: Arc<RuleSet>,
    /// One for each link type: filter expressions are compiled for one.
    lives: Vec<(LinkType, Live)>,
    /// The lists of pieces that were there at the start.
    keeps: Vec<Arc<Ranges<u32>>>,
    /// What counts the copies that are sent; none if none can be.
    mirrors: Option<MirrorReader>,
    /// What counts the records that are written; none if none are.
    digests: Option<DigestReader>,
    /// The frames that are judged are the host's too.
    may_pass: bool,
    /// What filters in the kernel turn away before.
    pub(super) pre_filters: PreFilters,
}

/// What the rules of a run counted.
#[derive(Clone, Debug)]
pub struct RulesReport {
    /// The rules by id, each with what it counted.
    pub rules: Vec<(Rule, Counts)>,
    /// The fate of frames that no rule decided about.
    pub default: Verdict,
    /// How many there were.
    pub undecided: Counts,
    /// Side effects of the rules.
    pub side_effects: SideEffects,
}

/// Side effects of rules.
#[derive(Clone, Debug, Default)]
pub struct SideEffects {
    /// Flows whose segments were not followed any more, because others needed their places.
    pub flows_given_up: u64,
    /// Copies by interface, in the order in which rules name them.
    pub mirrors: Vec<MirrorCounts>,
    /// Records, if some are written.
    pub digests: Option<DigestCounts>,
}

impl Rules {
    /// The rules that the run began with.
    pub fn set(&self) -> Arc<RuleSet> {
        self.lock().set.clone()
    }

    /// True if some frames are to go on to the host.
    pub fn pass_some(&self) -> bool {
        passes(&self.lock().set)
    }

    /// Adds a rule, which frames are judged by from the return of this on.
    ///
    /// # Errors
    /// Its id is taken, it is wrong, or it asks for what this run cannot do.
    pub fn add(&self, rule: Rule) -> Result<(), ChangeError> {
        let book = &mut *self.lock();
        book.check(&rule)?;
        let is_unknown = book.pre_filters.admit(&rule)?;
        for at in 0..book.lives.len() {
            if let Err(error) = book.lives[at].1.add(rule.clone()) {
                for (_, live) in &mut book.lives[..at] {
                    live.remove(rule.id);
                }
                if is_unknown {
                    book.pre_filters.forget(rule.id);
                }
                return Err(RulesError::from(error).into());
            }
        }
        Ok(())
    }

    /// Removes a rule; false if it is not there.
    pub fn remove(&self, id: RuleId) -> bool {
        let book = &mut *self.lock();
        let mut is_there = false;
        for (_, live) in &mut book.lives {
            is_there |= live.remove(id);
        }
        book.pre_filters.forget(id);
        is_there
    }

    /// Replaces all rules, between two batches of each thread.
    ///
    /// # Errors
    /// They are too many, one is wrong, or asks for what this run cannot do.
    pub fn load(&self, set: RuleSet) -> Result<(), ChangeError> {
        let book = &mut *self.lock();
        set.rules.iter().try_for_each(|rule| book.check(rule))?;
        if !book.may_pass && passes(&set) {
            return Err(ChangeError::Pass);
        }
        let next = book.pre_filters.replace(&set)?;
        let loaded = book.lives.iter_mut().try_for_each(|(_, live)| live.load(set.clone()));
        book.pre_filters.replaced(next, loaded.is_ok());
        Ok(loaded.map_err(RulesError::from)?)
    }

    /// How many rules there are.
    pub fn count(&self) -> usize {
        self.lock().lives.first().map_or(0, |(_, live)| live.len())
    }

    /// The highest id.
    pub fn last(&self) -> Option<RuleId> {
        self.lock().lives.first().and_then(|(_, live)| live.last())
    }

    /// The first rule that has files kept.
    pub fn pins(&self) -> Option<RuleId> {
        let mut found = None;
        self.list(None, &mut |rule, _| {
            found = rule.actions.pin.then_some(rule.id);
            found.is_none()
        });
        found
    }

    /// Shows the rules behind an id, with what they counted, until `each` has enough.
    pub fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts) -> bool) {
        let book = self.lock();
        let Some(((_, first), others)) = book.lives.split_first() else { return };
        let mut others: Vec<_> = others.iter().map(|(_, live)| live.counts_after(after)).collect();
        for (rule, counts) in first.counts_after(after) {
            let more = others.iter_mut().filter_map(|counts| counts.next());
            if !each(rule, more.fold(counts, |sum, (_, counts)| sum + counts)) {
                return;
            }
        }
    }

    /// The fate of frames that no rule decides about, and how many there were.
    pub fn default_counts(&self) -> (Verdict, Counts) {
        let book = &mut *self.lock();
        let before = book.pre_filters.counts();
        let each = book.lives.iter().map(|(_, live)| live.default_counts());
        each.fold((book.set.default, before), |(_, sum), (verdict, counts)| (verdict, sum + counts))
    }

    /// Side effects of the rules.
    pub fn side_effects(&self) -> SideEffects {
        let book = self.lock();
        SideEffects {
            flows_given_up: book.lives.iter().map(|(_, live)| live.flows_given_up()).sum(),
            mirrors: book.mirrors.as_ref().map(MirrorReader::counts).unwrap_or_default(),
            digests: book.digests.as_ref().map(DigestReader::counts),
        }
    }

    /// A judge for one thread of a lane, whose frames are of these link types. Frames of others
    /// than the rules were built for are left to the host.
    pub(super) fn judge(
        &self,
        links: impl Iterator<Item = LinkType> + Clone,
        follows: Follows,
    ) -> Result<RuleJudge, BuildError> {
        let mut judges = Vec::new();
        for (link, live) in &mut self.lock().lives {
            if links.clone().any(|wanted| wanted == *link) {
                judges.push((*link, live.judge(follows)?));
            }
        }
        Ok(RuleJudge { judges })
    }

    pub(super) fn report(&self) -> RulesReport {
        let mut rules = Vec::new();
        self.list(None, &mut |rule, counts| {
            rules.push((rule.clone(), counts));
            true
        });
        let (default, undecided) = self.default_counts();
        RulesReport { rules, default, undecided, side_effects: self.side_effects() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Book {
    /// Refuses what cannot come any more.
    fn check(&self, rule: &Rule) -> Result<(), ChangeError> {
        check(rule)?;
        if rule.actions.digest && self.digests.is_none() {
            return Err(RulesError::Digest { id: rule.id }.into());
        }
        if keep(rule).is_some_and(|list| !self.keeps.contains(list)) {
            return Err(ChangeError::NewKeep { id: rule.id });
        }
        if let Some(name) = rule.actions.mirror.as_ref().map(InterfaceName::as_str)
            && !mirrors(&self.set).iter().any(|(_, known)| known == name)
        {
            return Err(ChangeError::NewMirror { id: rule.id, name: name.to_owned() });
        }
        if rule.matches.expression.any_term(&|term| matches!(term, Term::Filter(_))) {
            return Err(ChangeError::Filter { id: rule.id });
        }
        if !self.may_pass && rule.actions.verdict == Some(Verdict::Pass) {
            return Err(ChangeError::Pass);
        }
        Ok(())
    }
}

/// True if rules leave some frames to the host.
pub fn passes(set: &RuleSet) -> bool {
    let passes = |rule: &Rule| rule.actions.verdict == Some(Verdict::Pass);
    set.default == Verdict::Pass || set.rules.iter().any(passes)
}

fn keep(rule: &Rule) -> Option<&Arc<Ranges<u32>>> {
    match &rule.actions.trim {
        Some(Trim::Keep(ranges)) => Some(ranges),
        _ => None,
    }
}

/// Interfaces that copies go to, as judges number them: in the order of rules.
fn mirrors(set: &RuleSet) -> Vec<(RuleId, String)> {
    let named = |rule: &Rule| Some((rule.id, rule.actions.mirror.as_ref()?.as_str().to_owned()));
    let mut all: Vec<(RuleId, String)> = set.rules.iter().filter_map(named).collect();
    all.sort();
    let mut first: Vec<(RuleId, String)> = Vec::new();
    for (id, name) in all {
        if !first.iter().any(|(_, known)| *known == name) {
            first.push((id, name));
        }
    }
    first
}

fn digests(set: &RuleSet) -> Option<RuleId> {
    set.rules.iter().filter(|rule| rule.actions.digest).map(|rule| rule.id).min()
}

/// Refuses what needs the driver.
fn check(rule: &Rule) -> Result<(), RulesError> {
    let action = match &rule.actions.redirect {
        Some(Redirect::Interface(name)) => format!("redirect {}", name.as_str()),
        Some(Redirect::Queue(queue)) => format!("redirect queue {}", queue.0),
        Some(Redirect::Cpu(cpu)) => format!("redirect cpu {cpu}"),
        None => return Ok(()),
    };
    Err(RulesError::InDriver { id: rule.id, action })
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}
