//! Judging frames: one [`Judge`] a thread, all by the same tables.

use super::cache::{Cache, Contenders};
use super::change_queue::{Change, ChangeQueue, Load};
use super::judgement::{Fate, Judgement};
use super::rules::{Counters, GIVEN_UP, Ready, RulesAtWork, UNDECIDED};
use crate::book::Slot;
use crate::key::Key;
use crate::language::{Next, RuleId, Sample, Verdict};
use crate::memory::Control;
use crate::patterns::{Findings, Seams, Sought};
use crate::question::Known;
use crate::streams::Streams;
use crate::table::Found;
use ringside_inspect::DissectedFrame;
use ringside_wire::Level;
use std::sync::Arc;

/// How often a conversation's rules are looked for while they change. A lookup is repeated only if
/// a change ended in the middle of it. Even with changes one after the other that does not happen
/// 64 times in a row.
const LOOKS_MAX: u32 = 64;

/// Says what becomes of frames, on one thread, by rules that may change meanwhile.
#[derive(Debug)]
pub struct Judge {
    rules: RulesAtWork,
    state: JudgeState,
    cache: Cache,
    changes: Arc<ChangeQueue>,
    /// Slots of the candidate rules for the current frame, in the order in which they are asked.
    /// The allocation is kept; there are at most as many as there are rules.
    found: Vec<u32>,
}

/// What a judge itself keeps: its rules, by slot, and its flows.
#[derive(Debug)]
struct JudgeState {
    ready: Vec<Option<Arc<Ready>>>,
    /// Of the same rules, what nearly every frame touches.
    tallies: Vec<Tally>,
    counters: Counters,
    /// Which payload patterns of all rules are in the frame; none if there are few.
    findings: Option<Findings>,
    /// The flows, and what they had before the frame; none if no rule looks across segments.
    streams: Option<Box<Streams>>,
    seams: Seams,
}

/// A rule's id; its verdict, if it is plain; whether it looks for something in payloads; and the
/// frames that met its sample.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    id: u32,
    plain: Option<Verdict>,
    seeks_outside: bool,
    seeks_inside: bool,
    met: u64,
}

impl Judge {
    pub(super) fn new(load: Load, changes: Arc<ChangeQueue>) -> Judge {
        let rules = load.rules.clone();
        let state = JudgeState::new(load);
        Judge { rules, state, cache: Cache::new(), changes, found: Vec::new() }
    }

    /// True if the payload patterns of all rules are looked for at once.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn has_findings(&self) -> bool {
        self.state.findings.is_some()
    }

    /// To be called between batches of frames, also when none come: rules that were loaded are
    /// taken from here on, and what earlier frames met may be used again.
    #[inline]
    pub fn refresh(&mut self) {
        if self.changes.has_changes() {
            self.take_changes();
        }
    }

    /// What becomes of a frame, which every rule on the way counts.
    #[inline]
    pub fn judge(&mut self, frame: &DissectedFrame<'_>) -> Judgement {
        let Judge { rules, state, cache, changes, found } = self;
        if let Some(findings) = &mut state.findings {
            findings.forget();
        }
        let mut judgement = Judgement::default();
        look(rules, cache, state, &Key::of(frame, Level::Outer), found);
        if state.streams.is_some() {
            state.follow(frame, found);
        }
        for &slot in found.iter() {
            if state.ask(slot, frame, &mut judgement, changes) == Next::Stop {
                break;
            }
        }
        if judgement.decided_by.is_none() {
            judgement.fate = Fate::Verdict(rules.default);
            state.counters.count(UNDECIDED, frame.wire_bytes());
        }
        judgement
    }

    #[cold]
    fn take_changes(&mut self) {
        let Judge { rules, state, cache, changes, .. } = self;
        changes.take_all(|change| match change {
            Change::Load(load) => {
                rules.clone_from(&load.rules);
                *state = JudgeState::new(*load);
                *cache = Cache::new();
            }
            change => state.apply(change),
        });
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.changes.close();
    }
}

impl JudgeState {
    fn new(load: Load) -> JudgeState {
        let Load { ready, counters, patterns, streams, .. } = load;
        let tally = |ready: &Option<Arc<Ready>>| {
            ready.as_ref().map_or(Tally::default(), |ready| Tally::of(ready))
        };
        let tallies = ready.iter().map(tally).collect();
        let (findings, seams) = (patterns.map(Findings::new), Seams::default());
        JudgeState { ready, tallies, counters, findings, streams, seams }
    }

    fn apply(&mut self, change: Change) {
        let (Slot(slot), ready) = match change {
            Change::Put(slot, ready) => (slot, Some(ready)),
            Change::Clear(slot) => (slot, None),
            Change::Streams(streams) => {
                self.streams = Some(streams);
                return;
            }
            Change::Load(_) => return,
        };
        let slot = slot as usize;
        if self.ready.len() <= slot {
            self.ready.resize(slot + 1, None);
            self.tallies.resize(slot + 1, Tally::default());
        }
        self.tallies[slot] = ready.as_deref().map_or(Tally::default(), Tally::of);
        self.ready[slot] = ready;
    }

    /// Takes the frame into its flows, where a rule comes into question for it that looks for
    /// something in payloads. The tables find the same rules for each segment of a direction, so
    /// that all are taken in, or none.
    fn follow(&mut self, frame: &DissectedFrame<'_>, found: &[u32]) {
        self.seams.clear();
        let Some(streams) = &mut self.streams else { return };
        let Sought { outer, inner } = streams.sought();
        let (mut outside, mut inside) = (false, false);
        for tally in found.iter().filter_map(|&slot| self.tallies.get(slot as usize)) {
            outside |= tally.seeks_outside;
            inside |= tally.seeks_inside;
            if outside == (outer > 0) && inside == (inner > 0) {
                break;
            }
        }
        for (level, is_sought) in [(Level::Outer, outside), (Level::Inner, inside)] {
            if is_sought && streams.take_in(frame, level, &mut self.seams) {
                self.counters.count(GIVEN_UP, 0);
            }
        }
    }

    /// True if no rule behind this one is asked.
    fn is_plain(&self, slot: u32) -> bool {
        self.tallies.get(slot as usize).is_some_and(|tally| tally.plain.is_some())
    }

    /// Asks a rule that a table found what the table does not know; then does what it says.
    #[inline]
    fn ask(
        &mut self,
        slot: u32,
        frame: &DissectedFrame<'_>,
        judgement: &mut Judgement,
        changes: &ChangeQueue,
    ) -> Next {
        if let Some(Tally { id, plain: Some(verdict), .. }) = self.tallies.get(slot as usize) {
            self.counters.count(Slot(slot), frame.wire_bytes());
            judgement.decide(RuleId(*id), Fate::Verdict(*verdict));
            return Next::Stop;
        }
        self.ask_ready(slot, frame, judgement, changes)
    }

    fn ask_ready(
        &mut self,
        slot: u32,
        frame: &DissectedFrame<'_>,
        judgement: &mut Judgement,
        changes: &ChangeQueue,
    ) -> Next {
        if !matches!(self.ready.get(slot as usize), Some(Some(_))) {
            // The rule was added since the batch began, and its change was posted before it.
            changes.take_until(Slot(slot), |change| self.apply(change));
        }
        let Some(Some(ready)) = self.ready.get(slot as usize) else { return Next::Continue };
        let Ready { rule, question, mirror, .. } = &**ready;
        let known = Known { findings: self.findings.as_ref(), seams: &self.seams };
        if question.as_ref().is_some_and(|question| !question.holds_with(frame, known)) {
            return Next::Continue;
        }
        if let Some(Sample(one_in)) = rule.actions.sample {
            let met = &mut self.tallies[slot as usize].met;
            *met += 1;
            if !(*met - 1).is_multiple_of(one_in.get().into()) {
                return Next::Continue;
            }
        }
        self.counters.count(Slot(slot), frame.wire_bytes());
        judgement.add(rule, *mirror);
        rule.actions.next
    }
}

/// Finds the rules that come into question for a conversation, up to the first behind which none is
/// asked. Where rules change during the look it looks again, so that it never sees a rule gone and
/// the one that was to replace it not yet come.
#[inline]
fn look(
    rules: &RulesAtWork,
    cache: &mut Cache,
    state: &JudgeState,
    key: &Key,
    found: &mut Vec<u32>,
) {
    for _ in 0..LOOKS_MAX {
        let changes = rules.memory.get(Control::Changes);
        found.clear();
        gather(rules, cache, state, key, found);
        if rules.memory.get(Control::Changes) == changes {
            break;
        }
    }
}

#[inline]
fn gather(
    rules: &RulesAtWork,
    cache: &mut Cache,
    state: &JudgeState,
    key: &Key,
    found: &mut Vec<u32>,
) {
    let hash = rules.exact.hash(key);
    for Found { slot, .. } in rules.exact.find(key, hash) {
        found.push(slot);
        if state.is_plain(slot) {
            return;
        }
    }
    // Read before the table: what changes after it makes what is found here old.
    let generation = rules.memory.get(Control::Generation);
    let known = cache.get(key, hash, generation);
    match known.as_ref().and_then(Contenders::slots) {
        Some(slots) => found.extend_from_slice(slots),
        None => {
            let first = found.len();
            for slot in each_once(rules.table.matches(key)) {
                found.push(slot);
                if state.is_plain(slot) {
                    break;
                }
            }
            if known.is_none() {
                cache.put(key, hash, generation, Contenders::of(&found[first..]));
            }
        }
    }
}

/// The slots of rules, of which several parts may be found: those of one follow each other.
fn each_once(found: impl Iterator<Item = Found>) -> impl Iterator<Item = u32> {
    let mut last = None;
    found.map(|found| found.slot).filter(move |&slot| last.replace(slot) != Some(slot))
}

impl Tally {
    fn of(ready: &Ready) -> Tally {
        let (seeks_outside, seeks_inside) = (ready.sought.outer > 0, ready.sought.inner > 0);
        Tally { id: ready.rule.id.0, plain: ready.plain, seeks_outside, seeks_inside, met: 0 }
    }
}
