//! One set of tables with its program, made for some rules.

use crate::checks::{self, SetNumbers};
use crate::driver::RulesError;
use crate::records::{Records, fate_of, may_do};
use crate::sets::{SetArrays, SetId, SetList};
use ringside_ebpf::rules::{self, RulesProgram, RulesSeat, Sizes, SourceLimit};
use ringside_rules::Rule;
use ringside_rules::book::{Book, BookError};
use ringside_rules::cover::Cover;
use ringside_rules::language::{Addresses, RuleId, Verdict};
use ringside_rules::memory::{CONTROL_WORDS, FLOW_WORDS, Layout, Memory};
use ringside_rules::plan;
use std::sync::Arc;

/// Conversations that all CPUs remember: 256 MB. Where there are many CPUs each remembers fewer.
const CONVERSATIONS_MAX: u32 = 1 << 22;
/// Of each CPU, at least.
const CONVERSATIONS_MIN: u32 = 1024;

/// What the rules are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To protect the host: every rule must be at work in the driver. Frames that pass go on to the
    /// programs behind, and to the host.
    Protect,
    /// Before a capture with the same rules: the driver drops and passes what it can decide, and
    /// hands up, uncounted, all that a rule takes or that it cannot decide. A frame that it passes
    /// goes to the host at once.
    Share,
}

/// How rules are put to work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What they are for.
    pub mode: Mode,
    /// Frames are judged and counted, and all go on.
    pub is_dry: bool,
    /// Conversations that each CPU remembers, a power of two; 64 bytes each. Three times as many as
    /// there are at a time leave few that take each other's place.
    pub conversations: u32,
    /// A limit of frames of each source address, for those that no rule drops.
    pub source_limit: Option<SourceLimit>,
    /// Places for sources of dropped frames, for each CPU, a power of two, 32 bytes each; 0: none
    /// are noted.
    pub offenders: u32,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
    /// What was found about each frame is told, for tests.
    pub reports: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Protect,
            is_dry: false,
            conversations: 32_768,
            source_limit: None,
            offenders: 1024,
            generic_allowed: false,
            reports: false,
        }
    }
}

/// Tables, their one writer, and the program that reads them.
#[derive(Debug)]
pub(crate) struct Instance {
    pub program: Arc<RulesProgram>,
    pub book: Book<Records>,
}

impl Instance {
    /// Puts rules into tables of their own.
    pub fn new(
        mut list: Vec<Arc<Rule>>,
        default: Verdict,
        options: &Options,
        seat: Option<&RulesSeat>,
    ) -> Result<Instance, RulesError> {
        // The tables are filled best in order.
        list.sort_by_key(|rule| rule.id);
        let capacity = plan::capacity(list.iter().map(|rule| &**rule))?;
        let layout = Layout::of(&capacity);
        let mut sets = SetList::default();
        let sizes = sizes(&list, &layout, options, &mut sets);
        let program = RulesProgram::load(&sizes, &program_options(default, options)?, seat)?;
        let program = Arc::new(program);
        let memory = memory(&program, layout)?;
        if sets.len() > 0 {
            sets.write(&SetArrays {
                entries: program.table("sets")?,
                blooms: program.table("set_blooms")?,
                v4: program.table("spans_v4")?,
                v6: program.table("spans_v6")?,
            });
        }
        let records = Records::new(program.clone(), options.mode, sets)?;
        let mut book = Book::new(&memory, records).map_err(plan::PlanError::Full)?;
        for rule in list {
            let id = rule.id;
            book.add(rule).map_err(|error| rule_error(id, error))?;
        }
        Ok(Instance { program, book })
    }
}

/// The error of one rule.
pub(crate) fn rule_error(id: RuleId, error: BookError<crate::records::Refusal>) -> RulesError {
    match error {
        BookError::Exists(id) => RulesError::Exists(id),
        BookError::Full(full) => RulesError::Plan(plan::PlanError::Full(full)),
        BookError::Place(source) => RulesError::Rule { id, source },
    }
}

fn program_options(default: Verdict, options: &Options) -> Result<rules::Options, RulesError> {
    let cpus = ringside_sys::bpf::cpu_numbers().map_err(ringside_ebpf::Error::from)?;
    let most = (CONVERSATIONS_MAX / cpus).max(CONVERSATIONS_MIN);
    let memory = options.conversations.max(CONVERSATIONS_MIN).next_power_of_two();
    let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
    let power = |count: u32| if count == 0 { 0 } else { count.next_power_of_two() };
    Ok(rules::Options {
        shares: options.mode == Mode::Share,
        is_dry: options.is_dry,
        reports: options.reports,
        default: fate_of(default),
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

fn sizes(list: &[Arc<Rule>], layout: &Layout, options: &Options, sets: &mut SetList) -> Sizes {
    let (mut extras, mut checks) = (0, 0);
    for rule in list.iter().filter(|rule| may_do(&rule.actions, options.mode).is_ok()) {
        let needs = rule.matches.exact_flow().is_none() && !Cover::of(&rule.matches).is_exact;
        // What is not for the driver is said when it is put to its place.
        let found = needs.then(|| checks::of(&rule.matches, sets).ok()).flatten();
        checks += found.as_ref().map_or(0, |found| found.flow.len() + found.frame.len());
        let acts = rule.actions.sample.is_some() || rule.actions.redirect.is_some();
        extras += usize::from(acts || found.is_some());
    }
    let (spans_v4, spans_v6) = sets.spans();
    Sizes {
        nodes: layout.nodes,
        row_words: layout.row_words,
        summary_words: layout.summary_words,
        rows: layout.rows,
        bits: layout.bits,
        flows: layout.flows,
        buckets: layout.buckets,
        bloom: layout.bloom,
        slots: spare(list.len(), 4096),
        extras: spare(extras, 64),
        checks: spare(checks, 256),
        sets: sets.len().max(1),
        set_blooms: sets.bloom_words().max(1),
        spans_v4: spans_v4.max(1),
        spans_v6: spans_v6.max(1),
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
