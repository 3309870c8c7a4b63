//! A set of rules that judges frames, in user space: the reference for every other place.
//!
//! Exact rules are found by one look into a hash table. The others are found by the
//! [`table`](crate::table), which knows addresses, ports and protocol; what else a rule asks is
//! asked of the frame itself. Which rules come into question for a conversation is remembered.

mod build;
mod cache;
mod judgement;

pub use build::BuildError;
pub use judgement::{Counts, Fate, Judgement};

use crate::language::{Actions, InterfaceName, Next, Rule, RuleId, Sample, Verdict};
use crate::patterns::Findings;
use crate::question::Question;
use crate::sight::Sight;
use crate::table::{Key, Table};
use cache::{Cache, Contenders};
use foldhash::fast::RandomState;
use ringside_wire::Level;
use std::collections::HashMap;
use std::sync::Arc;

/// The rules of a run.
#[derive(Debug)]
pub struct Engine {
    /// By id.
    entries: Vec<Entry>,
    /// Of the same rules, what nearly every frame touches: together, so that it stays in the cache.
    tallies: Vec<Tally>,
    /// Exact rules of a conversation, by id, as places in `entries`.
    exact: HashMap<Key, Vec<u32>, RandomState>,
    table: Arc<Table>,
    /// Place in `entries` of the rule whose cube has a number in the table.
    owners: Vec<u32>,
    cache: Cache,
    /// Which payload patterns of all rules are in the frame; none if there are few.
    findings: Option<Findings>,
    /// Where copies go; a bit of [`Judgement::mirrors`] each.
    mirrors: Vec<InterfaceName>,
    default: Verdict,
    /// Frames that no rule decided about.
    undecided: Counts,
}

/// A rule at work.
#[derive(Debug)]
struct Entry {
    rule: Rule,
    /// What is asked of a frame that the tables found; none if they said all.
    question: Option<Question>,
    /// Its bit of [`Judgement::mirrors`], or 0.
    mirror: u8,
    /// Frames that matched a rule with a sample, whether they were in it or not.
    met: u64,
}

/// What a rule counted; and its verdict, if it is plain: it asks nothing more, decides and stops.
#[derive(Debug)]
struct Tally {
    counts: Counts,
    id: RuleId,
    plain: Option<Verdict>,
}

impl Engine {
    /// What becomes of a frame, which every rule on the way counts.
    pub fn judge(&mut self, frame: &Sight<'_>) -> Judgement {
        if let Some(findings) = &mut self.findings {
            findings.forget();
        }
        let key = frame.key(Level::Outer);
        let mut judgement = Judgement::default();
        let is_over = self.ask_exact(&key, frame, &mut judgement);
        if !is_over {
            self.ask_others(&key, frame, &mut judgement);
        }
        if judgement.decided_by.is_none() {
            judgement.fate = Fate::Verdict(self.default);
            self.undecided.count(frame.wire_bytes());
        }
        judgement
    }

    /// The rules by id, and what they counted.
    pub fn counts(&self) -> impl ExactSizeIterator<Item = (&Rule, Counts)> {
        self.entries.iter().zip(&self.tallies).map(|(entry, tally)| (&entry.rule, tally.counts))
    }

    /// The fate of frames that no rule decides about, and how many there were.
    pub fn default_counts(&self) -> (Verdict, Counts) {
        (self.default, self.undecided)
    }

    /// Where copies go: the interface of each bit of [`Judgement::mirrors`].
    pub fn mirrors(&self) -> &[InterfaceName] {
        &self.mirrors
    }

    /// True if no further rule is to be asked.
    fn ask_exact(&mut self, key: &Key, frame: &Sight<'_>, judgement: &mut Judgement) -> bool {
        // Without ports no rule is exact.
        let Some(places) = key.ports.and_then(|_| self.exact.get(key)) else { return false };
        let known = self.findings.as_ref();
        let (entries, tallies) = (&mut self.entries, &mut self.tallies);
        let mut ask = |&place: &u32| ask(entries, tallies, known, place, frame, judgement);
        places.iter().any(|place| ask(place) == Next::Stop)
    }

    fn ask_others(&mut self, key: &Key, frame: &Sight<'_>, judgement: &mut Judgement) {
        let known = match self.cache.get(key) {
            Some(known) => known,
            None => {
                let contenders = self.contenders(key);
                self.cache.put(key, contenders);
                contenders
            }
        };
        for &place in known.places() {
            if self.ask(place, frame, judgement) == Next::Stop {
                return;
            }
        }
        if known.is_cut() {
            self.ask_after(known.places().last().copied(), key, frame, judgement);
        }
    }

    /// The first rules that the table finds, as far as they matter and fit.
    fn contenders(&self, key: &Key) -> Contenders {
        let mut contenders = Contenders::default();
        for (number, _) in self.table.matches(key) {
            let place = self.owners[number as usize];
            if contenders.places().last() == Some(&place) {
                continue;
            }
            if !contenders.push(place) || self.tallies[place as usize].plain.is_some() {
                break;
            }
        }
        contenders
    }

    fn ask(&mut self, place: u32, frame: &Sight<'_>, judgement: &mut Judgement) -> Next {
        let known = self.findings.as_ref();
        ask(&mut self.entries, &mut self.tallies, known, place, frame, judgement)
    }

    /// Asks the rules behind one.
    fn ask_after(
        &mut self,
        after: Option<u32>,
        key: &Key,
        frame: &Sight<'_>,
        judgement: &mut Judgement,
    ) {
        let mut last = after;
        let known = self.findings.as_ref();
        let (entries, tallies) = (&mut self.entries, &mut self.tallies);
        for (number, _) in self.table.matches(key) {
            let place = self.owners[number as usize];
            if last.is_some_and(|last| place <= last) {
                continue;
            }
            last = Some(place);
            if ask(entries, tallies, known, place, frame, judgement) == Next::Stop {
                return;
            }
        }
    }
}

/// Asks a rule that a table found what the table does not know; then does what it says.
fn ask(
    entries: &mut [Entry],
    tallies: &mut [Tally],
    known: Option<&Findings>,
    place: u32,
    frame: &Sight<'_>,
    judgement: &mut Judgement,
) -> Next {
    let tally = &mut tallies[place as usize];
    if let Some(verdict) = tally.plain {
        tally.counts.count(frame.wire_bytes());
        judgement.decide(tally.id, Fate::Verdict(verdict));
        return Next::Stop;
    }
    let Entry { rule, question, mirror, met } = &mut entries[place as usize];
    if question.as_ref().is_some_and(|question| !question.holds_with(frame, known)) {
        return Next::Continue;
    }
    if let Some(Sample(one_in)) = rule.actions.sample {
        *met += 1;
        if !(*met - 1).is_multiple_of(one_in.get().into()) {
            return Next::Continue;
        }
    }
    tally.counts.count(frame.wire_bytes());
    judgement.add(rule, *mirror);
    rule.actions.next
}

/// The verdict of a rule that does nothing else, and has nothing else to ask.
fn plain(rule: &Rule, question: Option<&Question>) -> Option<Verdict> {
    let Actions { verdict, redirect, mirror, trim, sample, count: _, digest, next } = &rule.actions;
    let is_plain = question.is_none()
        && (redirect, mirror, trim, sample) == (&None, &None, &None, &None)
        && !digest
        && *next == Next::Stop;
    verdict.filter(|_| is_plain)
}

#[cfg(test)]
mod tests;
