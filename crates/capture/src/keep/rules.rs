//! Rules at work in a run.
//!
//! How a judge is made, and by what, is this file's affair alone: the others know that there is one
//! for each thread of a lane, and what it says of a frame.

use super::Cut;
use super::pieces::{LISTS_MAX, Lists};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_rules::engine::{BuildError, Counts, Fate, Judge, Live};
use ringside_rules::language::{
    Actions, Ranges, Redirect, Rule, RuleId, RuleSet, Term, Trim, Verdict,
};
use ringside_rules::sight::Sight;
use std::sync::{Arc, Mutex, MutexGuard};
use thiserror::Error;

/// Why rules cannot be applied in user space.
#[derive(Debug, Error)]
pub enum RulesError {
    /// An action that only a program in the driver can take.
    #[error(
        "rule {id}: `{action}` needs a program in the driver, and this run judges frames in user \
         space: write `take`, `drop` or `pass` instead"
    )]
    InDriver {
        /// The rule.
        id: RuleId,
        /// What it asks for.
        action: String,
    },
    /// Records that nobody takes.
    #[error(
        "rule {id}: `digest` has no consumer in this run, which keeps frames: write `count` for \
         the numbers alone, or `take, cap 64` for the headers"
    )]
    Digest {
        /// The rule.
        id: RuleId,
    },
    /// Each is an interface in the file.
    #[error("the rules have more than {LISTS_MAX} different `keep` lists: use `cap`, or fewer")]
    TooManyKeeps,
}

/// Why rules cannot be changed; those that are at work go on.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// They are too many, or wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// They ask for what this run cannot do.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A list of pieces is an interface of the file, which has begun.
    #[error(
        "rule {id}: no rule kept these pieces when the run began, and its files can name no more \
         of them: use `cap`, or a `keep` that was there"
    )]
    NewKeep {
        /// The rule.
        id: RuleId,
    },
    /// A filter is compiled in a process of its own, which a run that gave up its privileges may
    /// not start.
    #[error(
        "rule {id}: a `filter` cannot come while the run goes on: say it in other terms, or start \
         the run with it"
    )]
    Filter {
        /// The rule.
        id: RuleId,
    },
    /// The host does not get what is left to it.
    #[error(
        "`pass` leaves frames to the host, and this run has taken them away before: write `drop`"
    )]
    Pass,
}

/// The rules of a run. Clones are the same rules.
#[derive(Clone)]
pub struct Rules(Arc<Mutex<Book>>);

struct Book {
    /// Until they are put to work.
    set: RuleSet,
    compiler: Compiler,
    /// One for each link type: filter expressions are compiled for one.
    lives: Vec<(LinkType, Live)>,
    /// The lists of pieces that were there at the start.
    keeps: Vec<Arc<Ranges<u32>>>,
    /// The frames that are judged are the host's too.
    may_pass: bool,
    /// Drivers apply the rules before.
    has_drivers: bool,
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
}

impl Rules {
    /// Rules to be judged by in user space. Filter expressions in them are compiled by `compiler`
    /// when the run is prepared.
    ///
    /// # Errors
    /// A rule asks for what user space cannot do.
    pub fn new(set: RuleSet, compiler: Compiler) -> Result<Rules, RulesError> {
        set.rules.iter().try_for_each(check)?;
        let keeps = set.rules.iter().filter_map(keep).cloned().collect();
        let (lives, may_pass, has_drivers) = (Vec::new(), true, false);
        let book = Book { set, compiler, lives, keeps, may_pass, has_drivers };
        Ok(Rules(Arc::new(Mutex::new(book))))
    }

    /// The rules that the run began with.
    pub fn set(&self) -> RuleSet {
        self.lock().set.clone()
    }

    /// True if some frames are to go on to the host.
    pub fn pass_some(&self) -> bool {
        passes(&self.lock().set)
    }

    /// From now on no rule may come that leaves frames to the host: it does not get them.
    pub fn forbid_pass(&self) {
        self.lock().may_pass = false;
    }

    /// Says that drivers apply the rules before: frames that they pass are the host's.
    pub fn expect_drivers(&self) {
        self.lock().has_drivers = true;
    }

    /// True if that was said.
    pub fn has_drivers(&self) -> bool {
        self.lock().has_drivers
    }

    /// Puts the rules to work on frames of these link types.
    ///
    /// # Errors
    /// They are too many, or a filter expression is wrong.
    pub fn prepare(&self, links: impl Iterator<Item = LinkType>) -> Result<(), BuildError> {
        let book = &mut *self.lock();
        for link in links {
            if !book.lives.iter().any(|(known, _)| *known == link) {
                book.lives.push((link, Live::new(book.set.clone(), link, &book.compiler)?));
            }
        }
        Ok(())
    }

    /// Adds a rule, which frames are judged by from the return of this on.
    ///
    /// # Errors
    /// Its id is taken, it is wrong, or it asks for what this run cannot do.
    pub fn add(&self, rule: Rule) -> Result<(), ChangeError> {
        let book = &mut *self.lock();
        book.check(&rule)?;
        for at in 0..book.lives.len() {
            if let Err(error) = book.lives[at].1.add(rule.clone()) {
                for (_, live) in &mut book.lives[..at] {
                    live.remove(rule.id);
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Removes a rule; false if it is not there.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut is_there = false;
        for (_, live) in &mut self.lock().lives {
            is_there |= live.remove(id);
        }
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
        for (_, live) in &mut book.lives {
            live.load(set.clone())?;
        }
        Ok(())
    }

    /// How many rules there are.
    pub fn count(&self) -> usize {
        self.lock().lives.first().map_or(0, |(_, live)| live.len())
    }

    /// The highest id.
    pub fn last(&self) -> Option<RuleId> {
        self.lock().lives.first().and_then(|(_, live)| live.last())
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
        let book = self.lock();
        let each = book.lives.iter().map(|(_, live)| live.default_counts());
        each.fold((book.set.default, Counts::default()), |(_, sum), (verdict, counts)| {
            (verdict, sum + counts)
        })
    }

    /// The lists of pieces that rules keep.
    pub(super) fn keeps(&self) -> Vec<Arc<Ranges<u32>>> {
        self.lock().keeps.clone()
    }

    /// A judge for one thread of a lane, whose frames are of these link types.
    pub(super) fn judge(
        &self,
        links: impl Iterator<Item = LinkType> + Clone,
    ) -> Result<RuleJudge, BuildError> {
        self.prepare(links.clone())?;
        let mut judges = Vec::new();
        for (link, live) in &mut self.lock().lives {
            if links.clone().any(|wanted| wanted == *link) {
                judges.push((*link, live.judge()?));
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
        RulesReport { rules, default, undecided }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Book {
    /// Refuses what cannot come any more.
    fn check(&self, rule: &Rule) -> Result<(), ChangeError> {
        check(rule)?;
        if keep(rule).is_some_and(|list| !self.keeps.contains(list)) {
            return Err(ChangeError::NewKeep { id: rule.id });
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

/// Refuses what needs the driver.
fn check(rule: &Rule) -> Result<(), RulesError> {
    let Actions { redirect, mirror, digest, .. } = &rule.actions;
    let action = match (redirect, mirror) {
        (Some(Redirect::Interface(name)), _) => format!("redirect {}", name.as_str()),
        (Some(Redirect::Queue(queue)), _) => format!("redirect queue {}", queue.0),
        (Some(Redirect::Cpu(cpu)), _) => format!("redirect cpu {cpu}"),
        (None, Some(name)) => format!("mirror {}", name.as_str()),
        (None, None) if *digest => return Err(RulesError::Digest { id: rule.id }),
        (None, None) => return Ok(()),
    };
    Err(RulesError::InDriver { id: rule.id, action })
}

/// What the rules say of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is taken.
    Take,
    /// It is the host's, which has it already.
    Leave,
    /// It ends here.
    Drop,
}

/// Judges the frames of one thread.
pub(super) struct RuleJudge {
    judges: Vec<(LinkType, Judge)>,
}

impl RuleJudge {
    /// To be called between batches, also when none come.
    pub(super) fn refresh(&mut self) {
        self.judges.iter_mut().for_each(|(_, judge)| judge.refresh());
    }

    /// Says what becomes of a frame, and cuts it.
    pub(super) fn judge(&mut self, frame: &Sight<'_>, lists: &Lists, cut: &mut Cut) -> Ruling {
        let own = self.judges.iter_mut().find(|(link, _)| *link == frame.link());
        let Some((_, judge)) = own else { return Ruling::Leave };
        let judgement = judge.judge(frame);
        match judgement.fate {
            Fate::Verdict(Verdict::Take) => {}
            Fate::Verdict(Verdict::Drop) => return Ruling::Drop,
            Fate::Verdict(Verdict::Pass) | Fate::Redirect(_) => return Ruling::Leave,
        }
        match &judgement.trim {
            Some(Trim::Cap(bytes)) => cut.limit = cut.limit.min(*bytes),
            Some(Trim::Keep(ranges)) => cut.list = lists.find(ranges),
            None => {}
        }
        Ruling::Take
    }
}
