//! What the driver must know of each rule beyond the tables.

use crate::checks::{self, CheckError, Checks, NotHere, SetNumbers};
use crate::error::Refusal;
use crate::options::Mode;
use crate::room::Room;
use crate::sets::{SetId, SetList};
use crate::texts::Texts;
use ringside_ebpf::abi::rules::{
    CHECK_WORDS, Check, EXTRAS_WORDS, Extras, Fate, pair, parts, record,
};
use ringside_ebpf::rules::{RulesProgram, Words64};
use ringside_rules::Rule;
use ringside_rules::book::{Slot, SlotStore};
use ringside_rules::language::{Actions, Addresses, InterfaceName, Match, Next, Redirect, Verdict};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames that wait for another CPU, at most: some milliseconds of a busy link.
const CPU_QUEUE_FRAMES: u32 = 2048;

/// The records of rules, in arrays that the program reads.
#[derive(Debug)]
pub(crate) struct Records {
    program: Arc<RulesProgram>,
    mode: Mode,
    records: Words64,
    extras: Words64,
    checks: Words64,
    extras_room: Room,
    checks_room: Room,
    sets: SetList,
    held: HashMap<Slot, Held>,
    /// Rules that are not for the driver.
    foreign: HashMap<Slot, NotHere>,
    /// Where others may have to read the rules.
    texts: Option<Texts>,
}

/// What a rule has of the arrays.
#[derive(Clone, Copy, Debug)]
struct Held {
    extra: u32,
    checks: (u32, usize),
}

/// What a rule does, as its record says it.
#[derive(Debug, Default)]
struct Deed {
    word: u32,
    one_in: u32,
    target: u32,
}

impl Records {
    pub fn new(
        program: Arc<RulesProgram>,
        mode: Mode,
        sets: SetList,
    ) -> Result<Records, ringside_ebpf::Error> {
        let sizes = *program.sizes();
        let texts = (sizes.texts > 0).then(|| Texts::new(&program)).transpose()?;
        Ok(Records {
            records: program.table("records")?,
            extras: program.table("extras")?,
            checks: program.table("checks")?,
            extras_room: Room::new(sizes.extras),
            checks_room: Room::new(sizes.checks),
            held: HashMap::new(),
            foreign: HashMap::new(),
            program,
            mode,
            sets,
            texts,
        })
    }

    /// Why a rule is not for the driver, if it is not.
    pub fn foreign(&self, slot: Slot) -> Option<NotHere> {
        self.foreign.get(&slot).copied()
    }

    /// What the rule does and asks; none if it is left to user space, and then why.
    fn compiled(
        &mut self,
        rule: &Rule,
        needs: Option<&Match>,
    ) -> Result<Result<(Deed, Checks), NotHere>, Refusal> {
        if let Err(reason) = may_do(&rule.actions, self.mode) {
            return Ok(Err(reason));
        }
        let checks = match needs.map(|matches| checks::of(matches, self)).transpose() {
            Ok(checks) => checks.unwrap_or_default(),
            Err(CheckError::NotHere(reason)) => return Ok(Err(reason)),
            Err(CheckError::Set(refusal)) => return Err(refusal),
        };
        Ok(Ok((self.deed(&rule.actions)?, checks)))
    }

    fn deed(&self, actions: &Actions) -> Result<Deed, Refusal> {
        let (fate, target) = match &actions.redirect {
            Some(Redirect::Interface(name)) => (Fate::Interface, interface_number(name)?),
            Some(Redirect::Cpu(cpu)) => {
                self.program.enable_cpu(cpu.0, CPU_QUEUE_FRAMES).map_err(Refusal::Cpu)?;
                (Fate::Cpu, cpu.0)
            }
            _ => (actions.verdict.map_or(Fate::None, fate_of), 0),
        };
        let mut word = fate as u32;
        if actions.next == Next::Continue {
            word |= record::CONTINUES;
        }
        if actions.redirect.is_some() {
            word |= record::TARGETS;
        }
        let one_in = actions.sample.map_or(0, |sample| sample.0.get());
        if one_in > 0 {
            word |= record::SAMPLES;
        }
        Ok(Deed { word, one_in, target })
    }

    fn put_to_work(
        &mut self,
        slot: Slot,
        rule: &Rule,
        needs: Option<&Match>,
    ) -> Result<(), Refusal> {
        match self.compiled(rule, needs)? {
            Ok((deed, checks)) => self.write(slot, deed, checks),
            Err(reason) if self.mode == Mode::Share => {
                self.foreign.insert(slot, reason);
                self.write_record(slot, record::FOREIGN, 0);
                Ok(())
            }
            Err(reason) => Err(reason.into()),
        }
    }

    fn write(&mut self, slot: Slot, deed: Deed, checks: Checks) -> Result<(), Refusal> {
        let Deed { mut word, one_in, target } = deed;
        let mut extra = 0;
        if !checks.is_empty() {
            word |= record::CHECKS;
        }
        if word & (record::CHECKS | record::SAMPLES | record::TARGETS) != 0 {
            let all: Vec<Check> = checks.flow.iter().chain(&checks.frame).copied().collect();
            let first = self.checks_room.take(all.len()).ok_or(Refusal::NoRoom)?;
            let Some(free) = self.extras_room.take(1) else {
                self.checks_room.give(first, all.len());
                return Err(Refusal::NoRoom);
            };
            extra = free;
            self.held.insert(slot, Held { extra, checks: (first, all.len()) });
            let at = first as usize * CHECK_WORDS;
            store(&self.checks, at, all.iter().flat_map(Check::to_words));
            let extras = Extras {
                checks: first,
                flow_checks: checks.flow.len() as u16,
                frame_checks: checks.frame.len() as u16,
                one_in,
                target,
            };
            store(&self.extras, extra as usize * EXTRAS_WORDS, extras.to_words());
            self.program.clear_sample(extra);
        }
        self.write_record(slot, word, extra);
        Ok(())
    }

    fn write_record(&self, slot: Slot, word: u32, extra: u32) {
        self.program.clear_counts(slot.0);
        self.records[slot.0 as usize].store(pair(word, extra), Ordering::Release);
    }
}

impl SlotStore for Records {
    type Error = Refusal;

    fn put(&mut self, slot: Slot, rule: &Arc<Rule>, needs: Option<&Match>) -> Result<(), Refusal> {
        if slot.0 as usize >= self.records.len() {
            return Err(Refusal::NoRoom);
        }
        self.put_to_work(slot, rule, needs)?;
        // After its counters were set to 0.
        if self.texts.as_mut().is_some_and(|texts| !texts.put(slot, rule)) {
            self.clear(slot);
            return Err(Refusal::NoRoom);
        }
        Ok(())
    }

    fn retire(&mut self, slot: Slot) {
        if let Some(texts) = &self.texts {
            texts.hide(slot);
        }
    }

    fn note(&self, slot: Slot) -> u64 {
        let word = parts(self.records[slot.0 as usize].load(Ordering::Relaxed)).0;
        if word <= 0xff { record::NOTE_PLAIN | u64::from(word) } else { 0 }
    }

    fn clear(&mut self, slot: Slot) {
        self.foreign.remove(&slot);
        if let Some(texts) = &mut self.texts {
            texts.clear(slot);
        }
        if let Some(Held { extra, checks: (first, count) }) = self.held.remove(&slot) {
            self.extras_room.give(extra, 1);
            self.checks_room.give(first, count);
        }
    }
}

/// Sets that came with the rules at the start; there is no room for others.
impl SetNumbers for Records {
    type Error = Refusal;

    fn number(&mut self, addresses: &Addresses) -> Result<SetId, Refusal> {
        self.sets.find(addresses).ok_or(Refusal::NoRoom)
    }
}

/// Why a driver cannot do what a rule says, if it cannot.
pub(crate) fn may_do(actions: &Actions, mode: Mode) -> Result<(), NotHere> {
    let Actions { redirect, mirror, trim, sample, digest, pin, .. } = actions;
    if trim.is_some() {
        Err(NotHere::Trim)
    } else if mirror.is_some() {
        Err(NotHere::Mirror)
    } else if *digest {
        Err(NotHere::Digest)
    } else if *pin {
        Err(NotHere::Pin)
    } else if matches!(redirect, Some(Redirect::Queue(_))) {
        Err(NotHere::Queue)
    } else if sample.is_some() && mode == Mode::Share {
        Err(NotHere::Sample)
    } else {
        Ok(())
    }
}

pub(crate) fn fate_of(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Pass => Fate::Pass,
        Verdict::Take => Fate::Take,
        Verdict::Drop => Fate::Drop,
    }
}

pub(crate) fn verdict_of(fate: Fate) -> Verdict {
    match fate {
        Fate::Take => Verdict::Take,
        Fate::Drop => Verdict::Drop,
        _ => Verdict::Pass,
    }
}

/// The number of an interface of the calling thread's network namespace.
fn interface_number(name: &InterfaceName) -> Result<u32, Refusal> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .and_then(|socket| netdevice::name_to_index(socket, name.as_str()))
        .map_err(|e| Refusal::Interface { name: name.as_str().to_owned(), source: e.into() })
}

fn store(array: &Words64, at: usize, words: impl IntoIterator<Item = u64>) {
    for (to, word) in array[at..].iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}
