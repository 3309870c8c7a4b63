//! What `drop` answers at its control socket.

use super::report;
use crate::control::{Command, Reply, RuleDesk, RuleStore, Status, StatusParts};
use ringside_core::Ledger;
use ringside_rules::Rule;
use ringside_rules::engine::Counts;
use ringside_rules::language::{RuleId, RuleSet, Verdict};
use ringside_xdp::{Decided, DriverRules};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rules in the driver, of whoever has the lock.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<DriverRules>>);

impl Shared {
    pub(super) fn new(rules: DriverRules) -> Shared {
        Shared(Arc::new(Mutex::new(rules)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DriverRules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers clients, and keeps whether one has asked for the end.
pub(super) struct DropDesk {
    parts: StatusParts,
    interface: String,
    is_dry: bool,
    shared: Shared,
    rules: RuleDesk,
    is_stopping: AtomicBool,
}

impl DropDesk {
    pub(super) fn new(
        parts: StatusParts,
        interface: &str,
        is_dry: bool,
        shared: Shared,
    ) -> DropDesk {
        let rules = RuleDesk::new(Box::new(shared.clone()));
        let (interface, is_stopping) = (interface.to_owned(), AtomicBool::new(false));
        DropDesk { parts, interface, is_dry, shared, rules, is_stopping }
    }

    pub(super) fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Status {} => Reply::status(self.status()),
            Command::Ledger {} => Reply::ledger(self.ledger()),
            Command::Rotate {} => {
                Reply::refused("this run writes no files that could end and begin")
            }
            Command::Stop {} => {
                self.is_stopping.store(true, Ordering::Release);
                Reply::done()
            }
            Command::Rules(command) => self.rules.answer(command),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, DriverRules> {
        self.shared.lock()
    }

    /// Every frame that the program saw.
    pub(super) fn ledger(&self) -> Ledger {
        report::ledger(&self.interface, &self.rules().totals(), self.is_dry)
    }

    fn status(&self) -> Status {
        self.parts.status(self.ledger())
    }
}

impl RuleStore for Shared {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        self.lock().add(rule).map_err(|error| error.to_string())
    }

    fn remove(&mut self, id: RuleId) -> bool {
        self.lock().remove(id)
    }

    fn load(&mut self, set: RuleSet) -> Result<(), String> {
        self.lock().load(set).map_err(|error| error.to_string())
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts, &str) -> bool) {
        let rules = self.lock();
        for (rule, counts, decided) in rules.rules_after(after) {
            let place = match decided {
                Decided::Driver => "driver".to_owned(),
                Decided::Above(reason) => format!("user space: {reason}"),
            };
            if !each(rule, counts, &place) {
                return;
            }
        }
    }

    fn last(&self) -> Option<RuleId> {
        self.lock().last()
    }

    fn default_counts(&self) -> (Verdict, Counts) {
        let rules = self.lock();
        (rules.default_verdict(), report::undecided(&rules.totals()))
    }
}
