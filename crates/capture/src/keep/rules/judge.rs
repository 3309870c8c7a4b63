//! What the rules say of each frame, in one thread of a lane.

use crate::keep::Cut;
use crate::keep::pieces::Lists;
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::{Fate, Judge, Judgement};
use ringside_rules::language::{RuleId, Trim, Verdict};

/// What the rules say of a frame, and what else becomes of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::keep) struct Ruled {
    pub(in crate::keep) ruling: Ruling,
    /// Where copies go: a bit for each of [`RulesBuilder::mirrors`](super::RulesBuilder::mirrors).
    pub(in crate::keep) mirrors: u8,
    /// The rule that a record is handed over for.
    pub(in crate::keep) digest: Option<RuleId>,
    /// The rule for which the files that come to hold it are kept.
    pub(in crate::keep) pin: Option<RuleId>,
}

impl Ruled {
    /// Of a frame that no rule can be asked about.
    const LEFT: Ruled = Ruled { ruling: Ruling::Leave, mirrors: 0, digest: None, pin: None };
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keep) enum Ruling {
    /// It is taken.
    Take,
    /// It is the host's, which has it already.
    Leave,
    /// It ends here.
    Drop,
}

/// Judges the frames of one thread.
pub(in crate::keep) struct RuleJudge {
    /// By the link type of their frames.
    pub(super) judges: Vec<(LinkType, Judge)>,
}

impl RuleJudge {
    /// To be called between batches, also when none come.
    pub(in crate::keep) fn refresh(&mut self) {
        self.judges.iter_mut().for_each(|(_, judge)| judge.refresh());
    }

    /// Says what becomes of a frame, and cuts it.
    pub(in crate::keep) fn judge(
        &mut self,
        frame: &DissectedFrame<'_>,
        lists: &Lists,
        cut: &mut Cut,
    ) -> Ruled {
        let own = self.judges.iter_mut().find(|(link, _)| *link == frame.link());
        let Some((_, judge)) = own else { return Ruled::LEFT };
        let Judgement { fate, trim, digest, pin, mirrors, .. } = judge.judge(frame);
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
        Ruled { ruling, mirrors, digest, pin }
    }
}
