//! One set of tables with its program, made for some rules.

use crate::checks::{self, NotHere, SetNumbers};
use crate::error::{Refusal, RulesError, rule_error};
use crate::fast;
use crate::options::{Mode, Options};
use crate::pinned::{PinnedRule, PinnedRules};
use crate::records::{Records, fate_of, may_do};
use crate::sets::{SetArrays, SetId, SetList};
use crate::texts;
use ringside_ebpf::rules::{self, FastProgram, RulesAttachment, RulesProgram, Sizes, SourceLimit};
use ringside_rules::Rule;
use ringside_rules::book::{Book, Slot};
use ringside_rules::cover::Cover;
use ringside_rules::engine::Counts;
use ringside_rules::language::{Addresses, RuleId, Verdict};
use ringside_rules::memory::{CONTROL_WORDS, FLOW_WORDS, Layout, Memory};
use ringside_rules::plan;
use std::collections::HashMap;
use std::sync::Arc;

/// Conversations that all CPUs remember: 256 MB. Where there are many CPUs each remembers fewer.
const CONVERSATIONS_MAX: u32 = 1 << 22;
/// Of each CPU, at least.
const CONVERSATIONS_MIN: u32 = 1024;

/// Tables, their one writer, and the program that reads them.
#[derive(Debug)]
pub(crate) struct Instance {
    pub program: Arc<RulesProgram>,
    pub book: Book<Records>,
    pub default: Verdict,
    /// In front of the program, for the rules as they are.
    pub fast: Option<FastProgram>,
    tables: Tables,
}

/// Tables and the program that reads them, whatever rules are there.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    program: Arc<RulesProgram>,
    layout: Layout,
    mode: Mode,
    /// Something may have been written there.
    is_used: bool,
}

impl Tables {
    /// With room for these rules, and for some that are added later; also returns their address
    /// sets.
    pub fn new(
        list: &[Arc<Rule>],
        options: &Options,
        attachment: Option<&RulesAttachment>,
    ) -> Result<(Tables, SetList), RulesError> {
        let capacity = plan::capacity(list.iter().map(|rule| &**rule))?;
        let layout = Layout::of(&capacity.max(plan::room_for(options.room)));
        let needs = Needs::of(list, options.mode);
        let sizes = sizes(list, &needs, &layout, options);
        let program = Arc::new(RulesProgram::load(&sizes, &program_options(options)?, attachment)?);
        Ok((Tables { program, layout, mode: options.mode, is_used: false }, needs.sets))
    }

    /// Writes rules there, in the order of their ids, in place of others.
    fn fill(
        &mut self,
        list: Vec<Arc<Rule>>,
        default: Verdict,
        mut sets: SetList,
    ) -> Result<Book<Records>, RulesError> {
        let program = &self.program;
        if self.is_used {
            program.clear()?;
        }
        self.is_used = true;
        let memory = memory(program, self.layout)?;
        if sets.len() > 0 {
            sets.write(&SetArrays {
                entries: program.table("sets")?,
                blooms: program.table("set_blooms")?,
                v4: program.table("spans_v4")?,
                v6: program.table("spans_v6")?,
            });
        }
        let records = Records::new(program.clone(), self.mode, sets)?;
        let mut book = Book::new(&memory, records).map_err(plan::PlanError::Full)?;
        for rule in list {
            let id = rule.id;
            book.add(rule).map_err(|error| rule_error(id, error))?;
        }
        program.set_default(fate_of(default));
        Ok(book)
    }
}

impl Instance {
    /// Puts rules into tables of their own.
    pub fn new(
        mut list: Vec<Arc<Rule>>,
        default: Verdict,
        options: &Options,
        attachment: Option<&RulesAttachment>,
    ) -> Result<Instance, RulesError> {
        // The tables are filled best in order.
        list.sort_by_key(|rule| rule.id);
        let (mut tables, sets) = Tables::new(&list, options, attachment)?;
        let book = tables.fill(list, default, sets)?;
        let program = tables.program.clone();
        let mut made = Instance { program, book, default, fast: None, tables };
        // Without it the rules hold all the same: a kernel that refuses it, as one without BTF, is
        // slower, and shows no rule on the fast path.
        made.fast = made.fast(options, attachment).unwrap_or_default();
        Ok(made)
    }

    /// Puts rules into tables that no program reads any more.
    pub fn within(
        tables: &mut Tables,
        mut list: Vec<Arc<Rule>>,
        default: Verdict,
    ) -> Result<Instance, RulesError> {
        list.sort_by_key(|rule| rule.id);
        let sets = Needs::of(&list, tables.mode).sets;
        if !sets.fit(tables.program.sizes()) {
            return Err(RulesError::NoRoom("larger address files".to_owned()));
        }
        let book = tables.fill(list, default, sets).map_err(out_of_room)?;
        let (program, tables) = (tables.program.clone(), tables.clone());
        Ok(Instance { program, book, default, fast: None, tables })
    }

    /// A fast path for the rules as they are now; none if it would decide about none of them.
    pub fn fast(
        &self,
        options: &Options,
        attachment: Option<&RulesAttachment>,
    ) -> Result<Option<FastProgram>, ringside_ebpf::Error> {
        let rules = || self.book.rules().map(|(slot, rule)| (slot, &**rule));
        // Exact rules come before all others.
        if !options.may_be_fast() || rules().any(|(_, rule)| rule.matches.exact_flow().is_some()) {
            return Ok(None);
        }
        let tables = fast::tables(rules(), self.default, self.program.seed());
        tables.map(|tables| FastProgram::load(&tables, &self.program, attachment)).transpose()
    }

    /// The first rule that is not for the driver, if there is one.
    pub fn first_above(&self) -> Option<(RuleId, NotHere)> {
        let records = self.book.store();
        self.book.rules().find_map(|(slot, rule)| Some((rule.id, records.foreign(slot)?)))
    }

    /// The tables alone, to be filled anew.
    pub fn into_tables(self) -> Tables {
        self.tables
    }

    /// What a rule counted.
    pub fn counts(&self, slot: Slot) -> Counts {
        let (frames, bytes) = self.program.counts(slot.0);
        Counts { frames, bytes }
    }

    /// Takes over what was counted by tables that these replace: of all frames, and of rules that
    /// stay as they are.
    pub fn carry(&self, before: &Instance) {
        for (slot, rule) in self.book.rules() {
            if let Some((old, _)) = before.book.get(rule.id).filter(|(_, old)| *old == rule) {
                self.program.carry_counts(slot.0, before.program.counts(old.0));
            }
        }
        self.program.carry(before.program.totals());
    }

    /// The same of tables that are pinned, of which rules are known by their texts.
    pub fn carry_pinned(&self, before: Option<&PinnedRules>) {
        let Some(before) = before else { return };
        let rules = before.rules().into_iter().map(|rule| (rule.id, rule));
        let rules: HashMap<RuleId, PinnedRule> = rules.collect();
        for (slot, rule) in self.book.rules() {
            let old = rules.get(&rule.id).filter(|old| old.text == rule.to_string());
            if let Some(PinnedRule { counts: Counts { frames, bytes }, .. }) = old {
                self.program.carry_counts(slot.0, (*frames, *bytes));
            }
        }
        self.program.carry(before.totals());
    }
}

/// What it means that tables are full which cannot be made larger.
fn out_of_room(error: RulesError) -> RulesError {
    match error {
        RulesError::Plan(error) => RulesError::NoRoom(error.to_string()),
        RulesError::Rule { source: Refusal::NoRoom, id } => {
            RulesError::NoRoom(format!("rule {id} and others"))
        }
        other => other,
    }
}

fn program_options(options: &Options) -> Result<rules::Options, RulesError> {
    let cpus = ringside_sys::bpf::cpu_numbers().map_err(ringside_ebpf::Error::from)?;
    let most = (CONVERSATIONS_MAX / cpus).max(CONVERSATIONS_MIN);
    let memory = options.conversations.max(CONVERSATIONS_MIN).next_power_of_two();
    let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
    let power = |count: u32| if count == 0 { 0 } else { count.next_power_of_two() };
    Ok(rules::Options {
        shares: options.mode == Mode::Share,
        is_dry: options.is_dry,
        reports: options.reports,
        memory: memory.min(most),
        source_limit: options
            .source_limit
            .map(|limit| SourceLimit { sources: power(limit.sources.max(1)), ..limit }),
        offenders: power(options.offenders),
    })
}

/// Some more than there are now, for rules that come later.
fn spare(count: usize, least: usize) -> usize {
    count + count / 4 + least
}

/// What rules need in addition to the tables of addresses, ports and protocols.
struct Needs {
    extras: usize,
    checks: usize,
    sets: SetList,
}

impl Needs {
    fn of(list: &[Arc<Rule>], mode: Mode) -> Needs {
        let (mut extras, mut checks, mut sets) = (0, 0, SetList::default());
        for rule in list.iter().filter(|rule| may_do(&rule.actions, mode).is_ok()) {
            let needs = rule.matches.exact_flow().is_none() && !Cover::of(&rule.matches).is_exact;
            // What is not for the driver is said when it is put to its place.
            let found = needs.then(|| checks::of(&rule.matches, &mut sets).ok()).flatten();
            checks += found.as_ref().map_or(0, |found| found.flow.len() + found.frame.len());
            let acts = rule.actions.sample.is_some() || rule.actions.redirect.is_some();
            extras += usize::from(acts || found.is_some());
        }
        Needs { extras, checks, sets }
    }
}

fn sizes(list: &[Arc<Rule>], needs: &Needs, layout: &Layout, options: &Options) -> Sizes {
    let Needs { extras, checks, sets } = needs;
    let room = options.room;
    let (spans_v4, spans_v6) = sets.spans();
    let of_sets = |count: usize, least: usize| match options.has_spare {
        true => spare(count, least),
        false => count.max(1),
    };
    let pieces = |rule: &Arc<Rule>| texts::pieces(&rule.to_string());
    Sizes {
        nodes: layout.nodes,
        row_words: layout.row_words,
        summary_words: layout.summary_words,
        rows: layout.rows,
        bits: layout.bits,
        flows: layout.flows,
        buckets: layout.buckets,
        bloom: layout.bloom,
        slots: spare(list.len().max(room.saturating_mul(2)), 4096),
        extras: spare((*extras).max(room), 64),
        checks: spare((*checks).max(room.saturating_mul(2)), 256),
        sets: of_sets(sets.len(), 16),
        set_blooms: of_sets(sets.bloom_words(), 4096),
        spans_v4: of_sets(spans_v4, 4096),
        spans_v6: of_sets(spans_v6, 1024),
        texts: if options.is_pinned { spare(list.iter().map(pieces).sum(), 16_384) } else { 0 },
    }
}

/// New sets are made.
impl SetNumbers for SetList {
    type Error = std::convert::Infallible;

    fn number(&mut self, addresses: &Addresses) -> Result<SetId, Self::Error> {
        Ok(SetList::number(self, addresses))
    }
}

/// The program's tables as the writer of rules wants them.
fn memory(program: &RulesProgram, layout: Layout) -> Result<Memory, ringside_ebpf::Error> {
    const _: () = assert!(CONTROL_WORDS == 8 && FLOW_WORDS == 8);
    Ok(Memory {
        layout,
        nodes: program.nodes()?,
        rows: program.table("rows")?,
        bits: program.table("bits")?,
        flows: program.table("flows")?,
        buckets: program.table("buckets")?,
        bloom: program.table("bloom")?,
        control: program.table("control")?,
    })
}
