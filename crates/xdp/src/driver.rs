//! Rules in force on an interface, judged in the driver.

mod changes;

use crate::checks::NotHere;
use crate::error::RulesError;
use crate::instance::{Instance, Tables};
use crate::offenders::{Offender, offenders};
use crate::options::{Mode, Options};
use crate::pinned::PinnedRules;
use changes::Changes;
use ringside_ebpf::rules::{
    FastProgram, Report, RulesAttachment, RulesAttachmentConfig, RulesProgram, Totals,
};
use ringside_ebpf::{TestRun, capture};
use ringside_netdev as netdev;
use ringside_rules::Rule;
use ringside_rules::engine::Counts;
use ringside_rules::language::{RuleId, RuleSet, Verdict};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The interface whose frames are judged.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its name, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
}

/// Where frames are judged that meet a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// In the driver.
    Driver,
    /// In user space, for this reason. What is counted there is not known here.
    Above(NotHere),
}

/// A set of rules in the driver of one interface.
///
/// A rule is added or removed at once: a frame that arrives after [`add`](DriverRules::add) or
/// [`remove`](DriverRules::remove) has returned is judged with the change.
/// [`load`](DriverRules::load) replaces all rules by one pointer; the tables of both sets are there
/// meanwhile.
#[derive(Debug)]
pub struct DriverRules {
    instance: Instance,
    attachment: Option<RulesAttachment>,
    is_started: bool,
    options: Options,
    retired: usize,
    /// Tables that no program reads.
    spare: Option<Tables>,
    /// Rules that are ready to replace the present ones.
    next: Option<Instance>,
    changes: Changes,
    /// A fast path that was put aside: frames that came before may still be with it.
    aside: Option<FastProgram>,
}

impl DriverRules {
    /// Makes the tables and takes a place on the interface, in the calling thread's network
    /// namespace. Frames are judged from [`start`](DriverRules::start) on.
    ///
    /// # Errors
    /// A rule is not for a driver, there are too many, the interface takes no program, or there is
    /// no privilege.
    pub fn open(
        target: &Target<'_>,
        set: RuleSet,
        options: &Options,
    ) -> Result<DriverRules, RulesError> {
        let attachment = RulesAttachment::open(&RulesAttachmentConfig {
            interface: target.interface,
            ifindex: target.ifindex,
            has_hardware_tags: netdev::may_take_tags_out(target.interface),
            generic_allowed: options.generic_allowed,
            is_pinned: options.is_pinned,
        })?;
        DriverRules::with(Some(attachment), set, options)
    }

    /// As [`open`](DriverRules::open), without an interface: for runs on test data.
    ///
    /// # Errors
    /// As [`open`](DriverRules::open).
    pub fn unattached(set: RuleSet, options: &Options) -> Result<DriverRules, RulesError> {
        DriverRules::with(None, set, options)
    }

    fn with(
        attachment: Option<RulesAttachment>,
        set: RuleSet,
        options: &Options,
    ) -> Result<DriverRules, RulesError> {
        let list: Vec<Arc<Rule>> = set.rules.into_iter().map(Arc::new).collect();
        let spare = options.has_spare.then(|| Tables::new(&list, options, attachment.as_ref()));
        Ok(DriverRules {
            spare: spare.transpose()?.map(|(tables, _)| tables),
            instance: Instance::new(list, set.default, options, attachment.as_ref())?,
            attachment,
            is_started: false,
            options: *options,
            retired: 0,
            next: None,
            changes: Changes::Settled,
            aside: None,
        })
    }

    /// Starts judging. Pinned rules that were there are replaced at once. A rule that is the same
    /// in both keeps its counts, unless one of the two is a dry run.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&mut self) -> Result<(), RulesError> {
        if let Some(attachment) = &mut self.attachment {
            let before = attachment.before().map(PinnedRules::of);
            let before = before.filter(|before| before.is_dry() == self.options.is_dry);
            // Twice: if this process is killed in between, the sums miss few frames.
            self.instance.carry_pinned(before.as_ref());
            attachment.put(&self.instance.program, self.instance.fast.as_ref())?;
            self.instance.carry_pinned(before.as_ref());
        }
        self.is_started = true;
        Ok(())
    }

    /// Stops judging. When this returns, all frames pass, and the counters do not change any more.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), RulesError> {
        if let Some(attachment) = &mut self.attachment {
            attachment.clear()?;
        }
        self.is_started = false;
        Ok(())
    }

    /// Puts the program to its place again if the end of another process has emptied the place;
    /// true if so. To be called at intervals, as each second.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put_back_if_gone(&self) -> Result<bool, RulesError> {
        Ok(self.attachment.as_ref().map_or(Ok(false), RulesAttachment::put_back_if_gone)?)
    }

    /// Replaces all rules at once. A rule that is the same in both sets keeps its counts.
    ///
    /// # Errors
    /// As [`open`](DriverRules::open). Nothing has changed.
    pub fn load(&mut self, set: RuleSet) -> Result<(), RulesError> {
        self.prepare(set)?;
        self.commit()
    }

    /// The first half of a [`load`](DriverRules::load): prepares the rules and changes nothing yet.
    /// Returns the first rule that is not for the driver, if there is one.
    ///
    /// # Errors
    /// As [`open`](DriverRules::open).
    pub fn prepare(&mut self, set: RuleSet) -> Result<Option<(RuleId, NotHere)>, RulesError> {
        self.make_next(set.rules.into_iter().map(Arc::new).collect(), set.default)?;
        Ok(self.next.as_ref().and_then(Instance::first_above))
    }

    /// The second half: from its return on frames are judged by what was prepared last.
    ///
    /// # Errors
    /// The kernel refused. Nothing has changed.
    pub fn commit(&mut self) -> Result<(), RulesError> {
        let Some(next) = self.next.take() else { return Ok(()) };
        next.carry(&self.instance);
        if let Some(attachment) = self.attachment.as_mut().filter(|_| self.is_started) {
            if let Err(error) = attachment.put(&next.program, next.fast.as_ref()) {
                self.next = Some(next);
                return Err(error.into());
            }
            // Once more: no frame is counted there any more.
            next.carry(&self.instance);
        }
        let before = std::mem::replace(&mut self.instance, next);
        if self.options.has_spare {
            self.spare = Some(before.into_tables());
        }
        self.retired = 0;
        // That no frame is with it any more was waited for.
        (self.changes, self.aside) = (Changes::Settled, None);
        Ok(())
    }

    fn make_next(&mut self, list: Vec<Arc<Rule>>, default: Verdict) -> Result<(), RulesError> {
        // What was prepared and not wanted.
        let unwanted = self.next.take().map(Instance::into_tables);
        let next = match self.spare.take().or(unwanted.filter(|_| self.options.has_spare)) {
            None => Instance::new(list, default, &self.options, self.attachment.as_ref())?,
            Some(mut tables) => Instance::within(&mut tables, list, default).inspect_err(|_| {
                self.spare = Some(tables);
            })?,
        };
        self.next = Some(next);
        Ok(())
    }

    /// The first rule that is not for the driver, if there is one.
    pub fn first_above(&self) -> Option<(RuleId, NotHere)> {
        self.instance.first_above()
    }

    /// The rules by id, what they counted here, and where frames are judged that meet them.
    pub fn rules(&self) -> impl Iterator<Item = (&Arc<Rule>, Counts, Decided)> {
        self.rules_after(None)
    }

    /// The same of the rules with higher ids than `id`; of all without one.
    pub fn rules_after(
        &self,
        id: Option<RuleId>,
    ) -> impl Iterator<Item = (&Arc<Rule>, Counts, Decided)> {
        let records = self.instance.book.store();
        self.instance.book.rules_after(id).map(move |(slot, rule)| {
            let decided = records.foreign(slot).map_or(Decided::Driver, Decided::Above);
            (rule, self.instance.counts(slot), decided)
        })
    }

    /// Where frames are judged that meet a rule; none if it is not there.
    pub fn decided(&self, id: RuleId) -> Option<Decided> {
        let (slot, _) = self.instance.book.get(id)?;
        let foreign = self.instance.book.store().foreign(slot);
        Some(foreign.map_or(Decided::Driver, Decided::Above))
    }

    /// The highest id.
    pub fn last(&self) -> Option<RuleId> {
        self.instance.book.last()
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.instance.book.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fate of frames that no rule decides about.
    pub fn default_verdict(&self) -> Verdict {
        self.instance.default
    }

    /// Frames since the start: exact after [`stop`](DriverRules::stop).
    pub fn totals(&self) -> Totals {
        self.instance.program.totals()
    }

    /// The sources of most dropped frames, at most `most`, those of most frames first; since the
    /// last [`load`](DriverRules::load).
    pub fn offenders(&self, most: usize) -> Vec<Offender> {
        offenders(self.instance.program.offenders(), most)
    }

    /// Bytes of the tables.
    pub fn memory_bytes(&self) -> usize {
        let fast = self.instance.fast.as_ref().map_or(0, FastProgram::memory_bytes);
        self.instance.program.memory_bytes() + fast
    }

    /// How many rules the fast path decides about, the first by their ids; 0: there is none.
    pub fn fast_rules(&self) -> usize {
        self.instance.fast.as_ref().map_or(0, FastProgram::rules)
    }

    /// What the rules are for: to protect a host, or to judge for a capture behind.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// Where the kernel runs the program; none without an interface.
    pub fn path(&self) -> Option<capture::Mode> {
        self.attachment.as_ref().map(RulesAttachment::mode)
    }

    /// What the kernel refused when the program was attached, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.attachment.as_ref().map_or(&[], |attachment| attachment.notes())
    }

    /// Runs the program once on a copy of `frame`; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, RulesError> {
        Ok(match &self.instance.fast {
            Some(fast) => fast.test_run(frame)?,
            None => self.instance.program.test_run(frame)?,
        })
    }

    /// What was found about the last frame, and the rule that decided; with
    /// [`Options::reports`] alone.
    pub fn report(&self) -> (Report, Option<RuleId>) {
        let report = self.instance.program.report();
        let by = report.decided_by.and_then(|slot| {
            let mut rules = self.instance.book.rules();
            rules.find(|(at, _)| at.0 == slot).map(|(_, rule)| rule.id)
        });
        (report, by)
    }

    /// The program that has all rules, for measurements.
    pub fn program(&self) -> &RulesProgram {
        &self.instance.program
    }

    /// The program that frames come to first, for measurements.
    pub fn in_front(&self) -> BorrowedFd<'_> {
        self.instance.fast.as_ref().map_or(self.instance.program.as_fd(), AsFd::as_fd)
    }
}
