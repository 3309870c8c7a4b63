//! Rules at work in a run.
//!
//! How a judge is made, and by what, is this file's affair alone: the others know that there is one
//! for each thread of a lane, and what it says of a frame.

use super::Cut;
use super::pieces::{LISTS_MAX, Lists};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_rules::engine::{BuildError, Counts, Engine, Fate};
use ringside_rules::language::{Actions, Ranges, Redirect, Rule, RuleId, RuleSet, Trim, Verdict};
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

/// The rules of a run.
pub struct Rules {
    set: RuleSet,
    compiler: Compiler,
    counted: Arc<Counted>,
}

/// What the judges that have ended have counted.
struct Counted {
    counts: Mutex<(Vec<Counts>, Counts)>,
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
        let counts = Mutex::new((vec![Counts::default(); set.rules.len()], Counts::default()));
        Ok(Rules { set, compiler, counted: Arc::new(Counted { counts }) })
    }

    /// True if some frames are to go on to the host.
    pub fn pass_some(&self) -> bool {
        let passes = |rule: &Rule| rule.actions.verdict == Some(Verdict::Pass);
        self.set.default == Verdict::Pass || self.set.rules.iter().any(passes)
    }

    /// The lists of pieces that rules keep.
    pub(super) fn keeps(&self) -> impl Iterator<Item = &Arc<Ranges<u32>>> {
        self.set.rules.iter().filter_map(|rule| match &rule.actions.trim {
            Some(Trim::Keep(ranges)) => Some(ranges),
            _ => None,
        })
    }

    /// A judge for one thread of a lane, whose frames are of these link types.
    pub(super) fn judge(
        &self,
        links: impl Iterator<Item = LinkType>,
    ) -> Result<RuleJudge, BuildError> {
        let mut engines: Vec<(LinkType, Engine)> = Vec::new();
        for link in links {
            if !engines.iter().any(|(known, _)| *known == link) {
                engines.push((link, Engine::new(self.set.clone(), link, &self.compiler)?));
            }
        }
        Ok(RuleJudge { engines, counted: self.counted.clone() })
    }

    pub(super) fn report(&self) -> RulesReport {
        let (counts, undecided) = self.counted.lock().clone();
        let rules = self.set.rules.iter().cloned().zip(counts).collect();
        RulesReport { rules, default: self.set.default, undecided }
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

/// Judges the frames of one thread. When it goes, what its rules counted is added up.
pub(super) struct RuleJudge {
    /// One for each link type: filter expressions are compiled for one.
    engines: Vec<(LinkType, Engine)>,
    counted: Arc<Counted>,
}

impl RuleJudge {
    /// Says what becomes of a frame, and cuts it.
    pub(super) fn judge(&mut self, frame: &Sight<'_>, lists: &Lists, cut: &mut Cut) -> Ruling {
        let own = self.engines.iter_mut().find(|(link, _)| *link == frame.link());
        let Some((_, engine)) = own else { return Ruling::Leave };
        let judgement = engine.judge(frame);
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

impl Drop for RuleJudge {
    fn drop(&mut self) {
        let (sums, undecided) = &mut *self.counted.lock();
        for (_, engine) in &self.engines {
            for (sum, (_, counts)) in sums.iter_mut().zip(engine.counts()) {
                *sum = *sum + counts;
            }
            *undecided = *undecided + engine.default_counts().1;
        }
    }
}

impl Counted {
    fn lock(&self) -> MutexGuard<'_, (Vec<Counts>, Counts)> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
