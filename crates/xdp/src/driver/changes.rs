//! Changes of single rules, and the fast path meanwhile: it never changes, so it is put aside, and
//! made anew when no rule has changed for a while.

use super::DriverRules;
use crate::error::{Refusal, RulesError, rule_error};
use ringside_rules::Rule;
use ringside_rules::book::BookError;
use ringside_rules::language::RuleId;
use ringside_sys::bpf;
use std::sync::Arc;

/// Rules that were removed before their room is made free: for that, every CPU must once have left
/// the program, which takes some ten milliseconds.
const RETIRED_MAX: usize = 1024;

/// Whether single rules have changed since the fast path was made or could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// No.
    Settled,
    /// Yes, but not since this was last looked at.
    Quiet,
    /// Yes, and since then.
    Recent,
}

impl DriverRules {
    /// Adds one rule. Where the tables have no room for it, larger ones are made,
    /// which takes as long as a [`load`](DriverRules::load).
    ///
    /// # Errors
    /// Its id is taken, it is not for a driver, or there is no room at all. Nothing has changed.
    pub fn add(&mut self, rule: Rule) -> Result<(), RulesError> {
        let (id, rule) = (rule.id, Arc::new(rule));
        if self.instance.book.get(id).is_none() {
            self.put_aside()?;
        }
        match self.instance.book.add(rule.clone()) {
            Ok(_) => Ok(()),
            Err(BookError::Full(_) | BookError::Store(Refusal::NoRoom)) => {
                let rules = self.instance.book.rules().map(|(_, rule)| rule.clone());
                self.make_next(rules.chain([rule]).collect(), self.instance.default)?;
                self.commit()
            }
            Err(error) => Err(rule_error(id, error)),
        }
    }

    /// Removes one rule; false if there is none. Its counts are lost.
    ///
    /// # Errors
    /// The kernel refused. Nothing has changed.
    pub fn remove(&mut self, id: RuleId) -> Result<bool, RulesError> {
        if self.instance.book.get(id).is_none() {
            return Ok(false);
        }
        self.put_aside()?;
        self.instance.book.remove(id);
        self.retired += 1;
        if self.retired >= RETIRED_MAX {
            bpf::wait_until_left();
            self.instance.book.reclaim();
            self.retired = 0;
        }
        Ok(true)
    }

    /// Before a change of single rules: takes the fast path, which has the rules as they were, from
    /// in front of the program that sees changes.
    fn put_aside(&mut self) -> Result<(), RulesError> {
        self.changes = Changes::Recent;
        if self.instance.fast.is_none() {
            return Ok(());
        }
        if let Some(attachment) = self.attachment.as_mut().filter(|_| self.is_started) {
            attachment.exchange(&self.instance.program, None)?;
        }
        self.aside = self.instance.fast.take();
        Ok(())
    }

    /// Makes a fast path for rules that were changed one by one, if there can be one, and none has
    /// changed since the last call. To be called at intervals, as each second.
    ///
    /// # Errors
    /// The kernel refused. Frames are judged as before, without a fast path.
    pub fn settle(&mut self) -> Result<(), RulesError> {
        if let Some(aside) = self.aside.take() {
            bpf::wait_until_left();
            drop(aside);
        }
        match self.changes {
            Changes::Settled => Ok(()),
            Changes::Recent => {
                self.changes = Changes::Quiet;
                Ok(())
            }
            Changes::Quiet => {
                self.changes = Changes::Settled;
                self.make_fast()
            }
        }
    }

    fn make_fast(&mut self) -> Result<(), RulesError> {
        let fast = self.instance.fast(&self.options, self.attachment.as_ref())?;
        let attachment = self.attachment.as_mut().filter(|_| self.is_started);
        let put = match attachment.zip(fast.as_ref()) {
            Some((attachment, fast)) => attachment.exchange(&self.instance.program, Some(fast)),
            None => Ok(()),
        };
        // It may be in force although names of others could not be removed.
        self.instance.fast = fast;
        Ok(put?)
    }
}
