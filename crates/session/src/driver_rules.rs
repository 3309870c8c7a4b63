//! Rules in the drivers of interfaces: shared between a run, or what drops frames, and its control
//! socket.

mod desk;

use crate::refused::Refused;
pub use desk::{Dropping, counts, ledger};
use ringside_capture::config::Ahead;
use ringside_capture::keep::{self, Rules, RulesReport};
use ringside_control::RuleStore;
use ringside_control::SideEffectsStatus;
use ringside_core::ledger::{ByCause, sum};
use ringside_core::{Cause, LaneCounters};
use ringside_rules::Rule;
use ringside_rules::engine::Counts;
use ringside_rules::language::{RuleId, RuleSet, Verdict};
use ringside_xdp::{Decided, DriverRules, Mode, NotHere, Options, Target, Totals};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rules in a driver, of the thread that has the lock.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<DriverRules>>);

impl Shared {
    /// Has others reach them too.
    pub fn new(rules: DriverRules) -> Shared {
        Shared(Arc::new(Mutex::new(rules)))
    }

    /// The rules, once no other thread has them.
    pub fn lock(&self) -> MutexGuard<'_, DriverRules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Frames that no rule decided about.
pub fn undecided(totals: &Totals) -> Counts {
    Counts { frames: totals.undecided, bytes: totals.undecided_bytes }
}

impl RuleStore for Shared {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        self.lock().add(rule).map_err(|error| error.to_string())
    }

    fn remove(&mut self, id: RuleId) -> bool {
        self.lock().remove(id).unwrap_or_else(|error| {
            tracing::warn!("rule {id} stays in force: {error}");
            false
        })
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
            if !each(rule, counts, &place(decided)) {
                return;
            }
        }
    }

    fn last(&self) -> Option<RuleId> {
        self.lock().last()
    }

    fn default_counts(&self) -> (Verdict, Counts) {
        let rules = self.lock();
        (rules.default_verdict(), undecided(&rules.totals()))
    }
}

fn place(decided: Decided) -> String {
    match decided {
        Decided::Driver => "driver".to_owned(),
        Decided::Above(reason) => format!("user space: {reason}"),
    }
}

/// Why a rule with `pass` cannot come.
const NO_PASS: &str = "no rule of the start leaves frames to the host, so that some were taken \
                       from it for user space to judge: `pass` cannot come any more";

/// Why a rule cannot come that is left to user space.
fn not_above(id: RuleId, reason: NotHere) -> String {
    format!(
        "rules leave frames to the host, and rule {id} cannot be decided in the driver: {reason}"
    )
}

/// The rules of a capture, which the drivers of its interfaces apply as far as they can: what they
/// drop or pass ends there and is counted there, everything else is handed up, and judged and
/// counted by the lanes alone.
#[derive(Clone)]
pub struct RulesAhead {
    rules: Rules,
    drivers: Vec<(String, Shared)>,
    room: usize,
}

impl RulesAhead {
    /// The rules of lanes, and no driver yet. In each there will be room for `room` exact rules,
    /// and as many others: when the run has given up its privileges it cannot make more.
    pub fn new(rules: Rules, room: usize) -> RulesAhead {
        RulesAhead { rules, drivers: Vec::new(), room }
    }

    /// Puts the rules into the driver of an interface, in the calling thread's network namespace.
    /// They are applied from the start of the run on.
    ///
    /// # Errors
    /// The interface takes no program, or a rule would leave frames to the host that the driver
    /// cannot tell.
    pub fn add_interface(&mut self, interface: &str, ifindex: u32) -> anyhow::Result<()> {
        let (mode, room) = (Mode::Share, self.room);
        let options = Options { mode, offenders: 0, has_spare: true, room, ..Options::default() };
        let target = Target { interface, ifindex };
        let driver = DriverRules::open(&target, (*self.rules.set()).clone(), &options)?;
        if self.rules.pass_some() {
            let above = driver.first_above().map(|(id, reason)| format!("rule {id}: {reason}"));
            if let Some(rule) = above {
                let interface = interface.to_owned();
                return Err(Refused::PassInDriver { interface, rule }.into());
            }
        }
        self.drivers.push((interface.to_owned(), Shared::new(driver)));
        Ok(())
    }

    /// Adds what was counted in the drivers.
    pub fn add_counts(&self, report: &mut RulesReport) {
        for (_, driver) in &self.drivers {
            let driver = driver.lock();
            let mut counted = driver.rules().peekable();
            for (rule, sum) in &mut report.rules {
                while counted.next_if(|(here, ..)| here.id < rule.id).is_some() {}
                if let Some((_, counts, _)) = counted.next_if(|(here, ..)| here.id == rule.id) {
                    *sum = *sum + counts;
                }
            }
            report.undecided = report.undecided + undecided(&driver.totals());
        }
    }
}

impl Ahead for RulesAhead {
    fn start(&self) -> Result<(), String> {
        self.drivers
            .iter()
            .try_for_each(|(_, driver)| driver.lock().start().map_err(|error| error.to_string()))
    }

    fn stop(&self) -> Result<(), String> {
        self.drivers
            .iter()
            .try_for_each(|(_, driver)| driver.lock().stop().map_err(|error| error.to_string()))
    }

    fn counters(&self) -> Vec<LaneCounters> {
        let lane = |(interface, driver): &(String, Shared)| {
            let Totals { passed, dropped, .. } = driver.lock().totals();
            LaneCounters {
                interface: format!("{interface} (driver)"),
                received: Some(sum([passed, dropped])),
                filtered: Some(0),
                in_flight: Some(0),
                passed,
                dropped: ByCause::from([(Cause::ByRule, dropped)]),
                ..LaneCounters::default()
            }
        };
        self.drivers.iter().map(lane).collect()
    }
}

impl RuleStore for RulesAhead {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        let id = rule.id;
        let passes = self.rules.pass_some();
        if !passes && rule.actions.verdict == Some(Verdict::Pass) {
            return Err(NO_PASS.to_owned());
        }
        self.rules.add(rule.clone()).map_err(|error| error.to_string())?;
        for at in 0..self.drivers.len() {
            let driver = &mut self.drivers[at].1;
            let added = driver.add(rule.clone()).and_then(|()| match driver.lock().decided(id) {
                Some(Decided::Above(reason)) if passes => Err(not_above(id, reason)),
                _ => Ok(()),
            });
            if let Err(error) = added {
                driver.remove(id);
                for (_, driver) in &mut self.drivers[..at] {
                    driver.remove(id);
                }
                self.rules.remove(id);
                return Err(error);
            }
        }
        Ok(())
    }

    fn remove(&mut self, id: RuleId) -> bool {
        for (_, driver) in &mut self.drivers {
            driver.remove(id);
        }
        self.rules.remove(id)
    }

    fn load(&mut self, set: RuleSet) -> Result<(), String> {
        let passes = self.rules.pass_some();
        if !passes && keep::passes(&set) {
            return Err(NO_PASS.to_owned());
        }
        for (_, driver) in &self.drivers {
            let above = driver.lock().prepare(set.clone()).map_err(|error| error.to_string())?;
            if let Some((id, reason)) = above.filter(|_| passes) {
                return Err(not_above(id, reason));
            }
        }
        // What is handed up is judged as a whole by the lanes, and counted by them alone: whichever
        // of the two changes first, a frame is judged by the old rules or by the new ones.
        self.rules.load(set).map_err(|error| error.to_string())?;
        let mut drivers = self.drivers.iter();
        drivers.try_for_each(|(_, driver)| driver.lock().commit().map_err(|e| e.to_string()))
    }

    fn count(&self) -> usize {
        self.rules.count()
    }

    fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts, &str) -> bool) {
        let drivers: Vec<_> = self.drivers.iter().map(|(_, driver)| driver.lock()).collect();
        let mut counted: Vec<_> = drivers.iter().map(|driver| driver.rules_after(after)).collect();
        self.rules.list(after, &mut |rule, counts| {
            let (mut sum, mut decided) = (counts, Decided::Driver);
            for (_, counts, here) in counted.iter_mut().filter_map(Iterator::next) {
                sum = sum + counts;
                decided = here;
            }
            each(rule, sum, &place(decided))
        });
    }

    fn last(&self) -> Option<RuleId> {
        self.rules.last()
    }

    fn default_counts(&self) -> (Verdict, Counts) {
        let (verdict, counts) = self.rules.default_counts();
        let drivers = self.drivers.iter().map(|(_, driver)| undecided(&driver.lock().totals()));
        (verdict, drivers.fold(counts, |sum, counts| sum + counts))
    }

    fn pre_filters(&self) -> Vec<String> {
        RuleStore::pre_filters(&self.rules)
    }

    fn side_effects(&self) -> SideEffectsStatus {
        self.rules.side_effects().into()
    }
}
