//! What a process that only drops answers at its control socket, and its ledger.

use super::{Shared, undecided};
use ringside_capture::keep::{RulesReport, SideEffects};
use ringside_control::{Asked, Command, Reply, RuleDesk, Status, StatusParts, not_for_this_run};
use ringside_core::ledger::{ByCause, sum};
use ringside_core::{Cause, Consumer, LaneCounters, Ledger};
use ringside_xdp::{DriverRules, Totals};
use std::sync::MutexGuard;

/// Rules that drop, or in a dry run would drop, on an interface.
pub struct Dropping {
    interface: String,
    is_dry: bool,
    shared: Shared,
    rules: RuleDesk,
}

impl Dropping {
    /// With the rules that are in force there.
    pub fn new(interface: &str, is_dry: bool, shared: Shared) -> Dropping {
        let rules = RuleDesk::new(Box::new(shared.clone()));
        Dropping { interface: interface.to_owned(), is_dry, shared, rules }
    }

    /// The rules, once no other thread has them.
    pub fn rules(&self) -> MutexGuard<'_, DriverRules> {
        self.shared.lock()
    }

    /// Every frame that the program saw.
    pub fn ledger(&self) -> Ledger {
        ledger(&self.interface, &self.rules().totals(), self.is_dry)
    }
}

impl Asked for Dropping {
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
        Ok(parts.status(self.ledger()))
    }

    fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Rules(command) => self.rules.answer(command),
            other => not_for_this_run(&other),
        }
    }
}

/// The ledger: what goes on to the host or to programs behind is passed, what is sent elsewhere is
/// taken for that. In a dry run every frame goes on.
pub fn ledger(interface: &str, totals: &Totals, is_dry: bool) -> Ledger {
    let Totals { passed, taken, dropped, limited, redirected, handed_up, unjudged, .. } = *totals;
    let on = sum([passed, taken, handed_up, unjudged]);
    let mut lane = LaneCounters {
        interface: interface.to_owned(),
        received: Some(totals.seen()),
        filtered: Some(0),
        in_flight: Some(0),
        passed: totals.seen(),
        ..LaneCounters::default()
    };
    if !is_dry {
        (lane.passed, lane.taken) = (on, redirected);
        lane.dropped = ByCause::from([(Cause::ByRule, dropped), (Cause::SourceLimit, limited)]);
    }
    let delivered = lane.taken;
    let mut ledger = Ledger::from_lanes(vec![lane]);
    let (name, missed) = ("redirect".to_owned(), ByCause::new());
    ledger.consumers = vec![Consumer { name, delivered, late: 0, missed }];
    ledger
}

/// What each rule counted.
pub fn counts(rules: &DriverRules) -> RulesReport {
    let each = rules.rules().map(|(rule, counts, _)| ((**rule).clone(), counts));
    let undecided = undecided(&rules.totals());
    let (rules, default) = (each.collect(), rules.default_verdict());
    RulesReport { rules, default, undecided, side_effects: SideEffects::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_in_the_ledger() {
        let totals = Totals {
            passed: 1,
            taken: 2,
            dropped: 3,
            limited: 4,
            redirected: 5,
            handed_up: 6,
            unjudged: 7,
            walked: 8,
            undecided: 9,
            undecided_bytes: 10,
        };
        for is_dry in [false, true] {
            let ledger = ledger("eth1", &totals, is_dry);
            ledger.balance().unwrap();
            assert_eq!(ledger.received, Some(28));
        }
        assert_eq!(ledger("eth1", &totals, true).passed, 28);
    }

    #[test]
    fn totals_that_another_program_wrote_overflow_nothing() {
        let (passed, taken, dropped) = (u64::MAX, u64::MAX, u64::MAX);
        let most = Totals { passed, taken, dropped, ..Totals::default() };
        for is_dry in [false, true] {
            assert_eq!(ledger("eth1", &most, is_dry).received, Some(u64::MAX));
        }
    }
}
