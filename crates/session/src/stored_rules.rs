//! What rules would have done with stored frames.

use anyhow::Context;
use ringside_capture::keep::{RulesReport, SideEffects};
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_keeper::filter_child::filter_compiler;
use ringside_rules::engine::{Counts, Engine, Judgement};
use ringside_rules::language::RuleSet;
use ringside_store::Query;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one step waits for input; matters for a pipe only.
const WAIT: Duration = Duration::from_millis(200);

/// Judges stored frames by rules until `is_stopped`: what each rule would have matched, and what is
/// to be said of the inputs.
///
/// # Errors
/// An input cannot be read, or a rule's filter expression is none for its frames.
pub fn judge_stored(
    set: RuleSet,
    query: &Query,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<(RulesReport, Vec<String>)> {
    let mut judges = FrameJudges::new(set);
    let mut source = query.open()?;
    for interface in source.interfaces() {
        judges.prepare(interface.link_type)?;
    }
    let mut known = 0;
    while !source.is_finished() && !is_stopped() {
        let Some(batch) = source.next_batch(WAIT)? else { continue };
        // A file may name interfaces while it is read.
        for interface in &batch.interfaces()[known..] {
            judges.prepare(interface.link_type)?;
        }
        known = batch.interfaces().len();
        for frame in batch.iter() {
            let link = batch.interface_of(&frame.meta)?.link_type;
            judges.judge(&DissectedFrame::new(frame.bytes, frame.meta.wire_bytes, link))?;
        }
    }
    let notices = source.notices().iter().map(ToString::to_string).collect();
    Ok((judges.report(), notices))
}

/// Rules over frames of several link types: one engine for each, since filter expressions are
/// compiled for one.
pub struct FrameJudges {
    set: RuleSet,
    engines: BTreeMap<LinkType, Engine>,
}

impl FrameJudges {
    /// Of these rules.
    pub fn new(set: RuleSet) -> FrameJudges {
        FrameJudges { set, engines: BTreeMap::new() }
    }

    /// Compiles them for a link type, so that what is wrong is said at once.
    ///
    /// # Errors
    /// A filter expression is none for such frames.
    pub fn prepare(&mut self, link: LinkType) -> anyhow::Result<()> {
        if !self.engines.contains_key(&link) {
            let engine = Engine::new(self.set.clone(), link, &filter_compiler()?)?;
            self.engines.insert(link, engine);
        }
        Ok(())
    }

    /// What the rules say of the next frame. Every frame is to be judged, in order.
    ///
    /// # Errors
    /// Its link type was not prepared.
    pub fn judge(&mut self, frame: &DissectedFrame<'_>) -> anyhow::Result<Judgement> {
        let engine = self.engines.get_mut(&frame.link());
        Ok(engine.context("an interface that was not named")?.judge(frame))
    }

    /// What each rule counted, by id, and the default.
    fn report(self) -> RulesReport {
        let mut counts = vec![Counts::default(); self.set.rules.len()];
        let (mut undecided, mut flows_given_up) = (Counts::default(), 0);
        for engine in self.engines.values() {
            for (sum, (_, counts)) in counts.iter_mut().zip(engine.counts()) {
                *sum = *sum + counts;
            }
            undecided = undecided + engine.default_counts().1;
            flows_given_up += engine.flows_given_up();
        }
        let rules = self.set.rules.into_iter().zip(counts).collect();
        let side_effects = SideEffects { flows_given_up, ..SideEffects::default() };
        RulesReport { rules, default: self.set.default, undecided, side_effects }
    }
}
