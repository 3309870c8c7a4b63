//! Rules at work in a run.
//!
//! How a judge is made, and by what, is this file's affair alone: the others know that there is one
//! for each thread of a lane, and what it says of a frame.

use super::Cut;
use super::digests::{DigestCounts, DigestReader};
use super::mirrors::{MirrorCounts, MirrorReader};
use super::pieces::{LISTS_MAX, Lists};
use super::pre_filters::PreFilters;
use ringside_core::LinkType;
use ringside_ebpf::socket_filter::SocketFilterError;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::{BuildError, Counts, Fate, Follows, Judge, Judgement, Live};
use ringside_rules::language::{
    InterfaceName, Ranges, Redirect, Rule, RuleId, RuleSet, Term, Trim, Verdict,
};
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
    /// Records that no output takes.
    #[error("rule {id}: `digest` hands over records, and this run writes none")]
    Digest {
        /// The rule.
        id: RuleId,
    },
    /// Copies that no interface sends.
    #[error(
        "rule {id}: `mirror {name}` sends frames on while they are received, and this run sends \
         none"
    )]
    Mirror {
        /// The rule.
        id: RuleId,
        /// Where copies were to go.
        name: String,
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
    /// Interfaces are opened before the run gives up its privileges.
    #[error(
        "rule {id}: no rule sent copies to {name} when the run began, and it has given up the \
         privilege to open an interface: start it with such a rule"
    )]
    NewMirror {
        /// The rule.
        id: RuleId,
        /// Where copies were to go.
        name: String,
    },
    /// The host does not get what is left to it.
    #[error(
        "`pass` leaves frames to the host, and this run has taken them away before: write `drop`"
    )]
    Pass,
    /// Filters in the kernel would turn frames away that the rules want.
    #[error("the kernel's filter cannot be told to let all frames through: {0}")]
    PreFilter(#[from] SocketFilterError),
}

/// The rules of a run. Clones are the same rules.
#[derive(Clone)]
pub struct Rules(Arc<Mutex<Book>>);

pub(super) struct Book {
    /// Until they are put to work.
    set: RuleSet,
    compiler: Compiler,
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
    /// Drivers apply the rules before.
    has_drivers: bool,
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
    /// Rules to be judged by in user space. Filter expressions in them are compiled by `compiler`
    /// when the run is prepared.
    ///
    /// # Errors
    /// A rule asks for what user space cannot do.
    pub fn new(set: RuleSet, compiler: Compiler) -> Result<Rules, RulesError> {
        set.rules.iter().try_for_each(check)?;
        let keeps = set.rules.iter().filter_map(keep).cloned().collect();
        let book = Book {
            pre_filters: PreFilters::new(&set),
            set,
            compiler,
            lives: Vec::new(),
            keeps,
            mirrors: None,
            digests: None,
            may_pass: true,
            has_drivers: false,
        };
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
        let is_unknown = book.pre_filters.admit(&rule)?;
        for at in 0..book.lives.len() {
            if let Err(error) = book.lives[at].1.add(rule.clone()) {
                for (_, live) in &mut book.lives[..at] {
                    live.remove(rule.id);
                }
                if is_unknown {
                    book.pre_filters.forget(rule.id);
                }
                return Err(error.into());
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
        Ok(loaded?)
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
        let book = &mut *self.lock();
        let before = book.pre_filters.counts();
        let each = book.lives.iter().map(|(_, live)| live.default_counts());
        each.fold((book.set.default, before), |(_, sum), (verdict, counts)| (verdict, sum + counts))
    }

    /// Interfaces that copies go to, each with the first rule that says so, in the order of these.
    pub fn mirrors(&self) -> Vec<(RuleId, String)> {
        mirrors(&self.lock().set)
    }

    /// From now on copies are sent, and counted there.
    ///
    /// # Errors
    /// None are, and a rule wants some.
    pub(super) fn set_mirrors(&self, reader: Option<MirrorReader>) -> Result<(), RulesError> {
        let book = &mut *self.lock();
        book.mirrors = reader;
        match mirrors(&book.set).into_iter().next() {
            Some((id, name)) if book.mirrors.is_none() => Err(RulesError::Mirror { id, name }),
            _ => Ok(()),
        }
    }

    /// The first rule that digests frames.
    pub fn digests(&self) -> Option<RuleId> {
        digests(&self.lock().set)
    }

    /// From now on records are written, and counted there.
    ///
    /// # Errors
    /// None are, and a rule wants some.
    pub(super) fn set_digests(&self, reader: Option<DigestReader>) -> Result<(), RulesError> {
        let book = &mut *self.lock();
        book.digests = reader;
        match digests(&book.set) {
            Some(id) if book.digests.is_none() => Err(RulesError::Digest { id }),
            _ => Ok(()),
        }
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

    /// The lists of pieces that rules keep.
    pub(super) fn keeps(&self) -> Vec<Arc<Ranges<u32>>> {
        self.lock().keeps.clone()
    }

    /// A judge for one thread of a lane, whose frames are of these link types.
    pub(super) fn judge(
        &self,
        links: impl Iterator<Item = LinkType> + Clone,
        follows: Follows,
    ) -> Result<RuleJudge, BuildError> {
        self.prepare(links.clone())?;
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

/// What the rules say of a frame, and what else becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    pub(super) ruling: Ruling,
    /// Where copies go: a bit for each of [`Rules::mirrors`].
    pub(super) mirrors: u8,
    /// The rule that a record is handed over for.
    pub(super) digest: Option<RuleId>,
}

impl Ruled {
    /// Of a frame that no rule can be asked about.
    const LEFT: Ruled = Ruled { ruling: Ruling::Leave, mirrors: 0, digest: None };
}

/// The fate of a frame.
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
    pub(super) fn judge(
        &mut self,
        frame: &DissectedFrame<'_>,
        lists: &Lists,
        cut: &mut Cut,
    ) -> Ruled {
        let own = self.judges.iter_mut().find(|(link, _)| *link == frame.link());
        let Some((_, judge)) = own else { return Ruled::LEFT };
        let Judgement { fate, trim, digest, mirrors, .. } = judge.judge(frame);
        let ruling = match fate {
            Fate::Verdict(Verdict::Take) => Ruling::Take,
            Fate::Verdict(Verdict::Drop) => Ruling::Drop,
            Fate::Verdict(Verdict::Pass) | Fate::Redirect(_) => Ruling::Leave,
        };
        match (ruling, &trim) {
            (Ruling::Take, Some(Trim::Cap(bytes))) => cut.limit = cut.limit.min(*bytes),
            (Ruling::Take, Some(Trim::Keep(ranges))) => cut.list = lists.find(ranges),
            _ => {}
        }
        Ruled { ruling, mirrors, digest }
    }
}
