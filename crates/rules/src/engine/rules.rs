//! Rules as judges know them.

use super::judgement::Counts;
use crate::book::Slot;
use crate::exact::ExactTable;
use crate::language::limits::RULES_MAX;
use crate::language::{Actions, Next, Rule, Verdict};
use crate::memory::Memory;
use crate::patterns::Sought;
use crate::question::Question;
use crate::table::Table;
use ringside_sys::SysError;
use ringside_sys::words::Words64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Slots: for every rule, and for those that were removed and may still be met.
pub(super) const SLOTS_MAX: u32 =
    if cfg!(feature = "loom") { 8 } else { RULES_MAX as u32 + (1 << 16) };
/// Where frames are counted that no rule decided about.
pub(super) const UNDECIDED: Slot = Slot(SLOTS_MAX);
/// Where flows are counted that were given up for others.
pub(super) const GIVEN_UP: Slot = Slot(SLOTS_MAX + 1);
/// All places of counters.
const COUNTERS: usize = SLOTS_MAX as usize + 2;

/// The tables, and what becomes of frames that no rule decides about.
#[derive(Clone, Debug)]
pub(super) struct RulesAtWork {
    pub(super) exact: ExactTable,
    pub(super) table: Table,
    pub(super) memory: Memory,
    pub(super) default: Verdict,
}

impl RulesAtWork {
    pub(super) fn of(memory: &Memory, default: Verdict) -> RulesAtWork {
        let (exact, table) = (ExactTable::of(memory), Table::of(memory));
        RulesAtWork { exact, table, memory: memory.clone(), default }
    }
}

/// A rule, ready to be asked.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) rule: Arc<Rule>,
    /// What is asked of a frame that the tables found; none if they said all.
    pub(super) question: Option<Question>,
    /// Its bit of [`Judgement::mirrors`](super::Judgement::mirrors), or 0.
    pub(super) mirror: u8,
    /// Its verdict, if it does nothing else, and has nothing else to ask.
    pub(super) plain: Option<Verdict>,
    /// What it looks for in payloads.
    pub(super) sought: Sought,
}

impl Ready {
    pub(super) fn new(rule: &Arc<Rule>, question: Option<Question>, mirror: u8) -> Ready {
        let plain = plain(rule, question.as_ref());
        let sought = question.as_ref().map(Question::sought).unwrap_or_default();
        Ready { rule: rule.clone(), question, mirror, plain, sought }
    }
}

fn plain(rule: &Rule, question: Option<&Question>) -> Option<Verdict> {
    let Actions { verdict, redirect, mirror, trim, sample, count: _, digest, pin, next } =
        &rule.actions;
    let is_plain = question.is_none()
        && (redirect, mirror, trim, sample) == (&None, &None, &None, &None)
        && !digest
        && !pin
        && *next == Next::Stop;
    verdict.filter(|_| is_plain)
}

/// What one judge counted, by slot: frames and bytes. Others may read it meanwhile. Memory is taken
/// for slots that count something. Clones are the same counters.
#[derive(Clone, Debug)]
pub(super) struct Counters(Words64);

impl Counters {
    pub(super) fn new() -> Result<Counters, SysError> {
        Ok(Counters(Words64::zeroed(2 * COUNTERS)?))
    }

    #[inline]
    pub(super) fn count(&mut self, slot: Slot, wire_bytes: u32) {
        let at = 2 * slot.0 as usize;
        for (word, more) in self.0[at..at + 2].iter().zip([1, u64::from(wire_bytes)]) {
            // The judge is the only writer.
            word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, slot: Slot) -> Counts {
        let at = 2 * slot.0 as usize;
        let [frames, bytes] = [at, at + 1].map(|at| self.0[at].load(Ordering::Relaxed));
        Counts { frames, bytes }
    }
}
