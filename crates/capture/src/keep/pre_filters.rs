//! Frames that the kernel turns away before the rules are asked, because none can match: the
//! default would drop them, and counts them.
//!
//! While rules change, a rule that the filters do not know of must not lose a frame: they are
//! switched off before it comes, and on again when all rules are such as they know.

use super::Rules;
use ringside_ebpf::socket_filter::{FilterCounters, FilterMeter, SocketFilterError, Switch};
use ringside_rules::engine::Counts;
use ringside_rules::language::{Rule, RuleId, RuleSet, Verdict};
use ringside_rules::pre_filter::PreFilter;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Of all interfaces of a run.
pub(super) struct PreFilters {
    /// Of all of them, once the first is asked for; or why there is none.
    switch: OnceLock<Result<Switch, String>>,
    interfaces: Vec<(String, InterfacePreFilter)>,
    /// Rules of which a filter may turn frames away.
    unknown: BTreeSet<RuleId>,
    /// What no rule decides about is dropped.
    drops: bool,
    is_on: bool,
}

/// What a backend needs to have the kernel turn frames away that no rule can match.
#[derive(Clone, Debug)]
pub struct PreFilterRequest {
    /// The rules.
    pub set: Arc<RuleSet>,
    /// What its filters go by; or why there is none.
    pub switch: Result<Switch, String>,
}

/// The pre-filter of one interface, as a backend made it.
pub struct InterfacePreFilter(State);

enum State {
    Installed(Installed),
    /// There is none, and why.
    None(String),
}

/// In the filters of an interface's lanes.
struct Installed {
    pre_filter: PreFilter,
    lanes: Vec<(FilterMeter, FilterCounters)>,
}

/// How it stands with the filters of an interface, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterStatus {
    /// They turn frames away.
    On {
        /// How many questions they have.
        questions: usize,
    },
    /// They let all frames through.
    Off {
        /// Rules that may match what they would turn away.
        unknown: Vec<RuleId>,
    },
    /// There are none.
    None {
        /// Why there are none, in words.
        reason: String,
    },
}

/// Rules that are named as the reason why filters are switched off.
const NAMED_MAX: usize = 3;

impl PreFilters {
    pub(super) fn new(set: &RuleSet) -> PreFilters {
        let drops = set.default == Verdict::Drop;
        let (interfaces, unknown) = (Vec::new(), BTreeSet::new());
        PreFilters { switch: OnceLock::new(), interfaces, unknown, drops, is_on: true }
    }

    /// The switch of all filters; or why there is none.
    pub(super) fn switch(&self) -> Result<Switch, String> {
        let made = || Switch::new().map_err(|error| error.to_string());
        self.switch.get_or_init(made).clone()
    }

    /// Adds those of interfaces, which go by the switch.
    pub(super) fn add(&mut self, made: impl IntoIterator<Item = (String, InterfacePreFilter)>) {
        self.interfaces.extend(made);
    }

    /// To be called before a rule comes. True if it is one that the filters do not know.
    pub(super) fn admit(&mut self, rule: &Rule) -> Result<bool, SocketFilterError> {
        let is_new = !self.knows(rule) && self.unknown.insert(rule.id);
        if let Err(error) = self.settle() {
            self.unknown.remove(&rule.id);
            return Err(error);
        }
        Ok(is_new)
    }

    /// To be called when a rule is gone.
    pub(super) fn forget(&mut self, id: RuleId) {
        self.unknown.remove(&id);
        // If it cannot be switched on, frames are judged as without it.
        let _ = self.settle();
    }

    /// To be called before rules are replaced by others. What it gives goes to
    /// [`replaced`](Self::replaced).
    pub(super) fn replace(&mut self, set: &RuleSet) -> Result<Replaced, SocketFilterError> {
        let unknown = set.rules.iter().filter(|rule| !self.knows(rule)).map(|rule| rule.id);
        let next = Replaced { unknown: unknown.collect(), drops: set.default == Verdict::Drop };
        if self.is_on && !next.allows_filters() {
            self.turn(false)?;
        }
        Ok(next)
    }

    /// To be called when they are. If it failed on the way, some of both may be at work.
    pub(super) fn replaced(&mut self, next: Replaced, is_done: bool) {
        let Replaced { unknown, drops } = next;
        if is_done {
            (self.unknown, self.drops) = (unknown, drops);
        } else {
            self.unknown.extend(unknown);
            self.drops &= drops;
        }
        let _ = self.settle();
    }

    /// Frames that were turned away.
    pub(super) fn counts(&mut self) -> Counts {
        let mut sum = Counts::default();
        for lane in self.interfaces.iter_mut().flat_map(|(_, made)| made.0.lanes()) {
            let (meter, last) = lane;
            // Without an answer the last one stands.
            *last = meter.read().unwrap_or(*last);
            sum = sum + Counts { frames: last.turned_away, bytes: last.turned_away_bytes };
        }
        sum
    }

    /// How it stands, by interface.
    pub(super) fn status(&self) -> Vec<(String, PreFilterStatus)> {
        let status = |made: &InterfacePreFilter| match made.0 {
            State::Installed(_) if !self.is_on => {
                PreFilterStatus::Off { unknown: self.unknown.iter().copied().collect() }
            }
            _ => made.status(),
        };
        self.interfaces.iter().map(|(name, made)| (name.clone(), status(made))).collect()
    }

    fn knows(&self, rule: &Rule) -> bool {
        self.interfaces.iter().all(|(_, made)| match &made.0 {
            State::Installed(Installed { pre_filter, .. }) => pre_filter.covers(&rule.matches),
            State::None(_) => true,
        })
    }

    /// Has the switch be as it must.
    fn settle(&mut self) -> Result<(), SocketFilterError> {
        self.turn(self.unknown.is_empty() && self.drops)
    }

    fn turn(&mut self, is_on: bool) -> Result<(), SocketFilterError> {
        if self.is_on != is_on {
            if let Some(Ok(switch)) = self.switch.get() {
                switch.set(is_on)?;
            }
            self.is_on = is_on;
        }
        Ok(())
    }
}

/// Rules that are to come.
pub(super) struct Replaced {
    unknown: BTreeSet<RuleId>,
    drops: bool,
}

impl Replaced {
    fn allows_filters(&self) -> bool {
        self.unknown.is_empty() && self.drops
    }
}

impl State {
    fn lanes(&mut self) -> impl Iterator<Item = &mut (FilterMeter, FilterCounters)> {
        match self {
            State::Installed(installed) => installed.lanes.iter_mut(),
            State::None(_) => [].iter_mut(),
        }
    }
}

impl InterfacePreFilter {
    /// The filters of an interface's lanes have it.
    pub(crate) fn installed(
        pre_filter: PreFilter,
        lanes: impl Iterator<Item = FilterMeter>,
    ) -> InterfacePreFilter {
        let lanes = lanes.map(|meter| (meter, FilterCounters::default())).collect();
        InterfacePreFilter(State::Installed(Installed { pre_filter, lanes }))
    }

    /// They have none.
    pub(crate) fn none(reason: String) -> InterfacePreFilter {
        InterfacePreFilter(State::None(reason))
    }

    /// How it stands at the start.
    pub fn status(&self) -> PreFilterStatus {
        match &self.0 {
            State::Installed(Installed { pre_filter, .. }) => {
                PreFilterStatus::On { questions: pre_filter.questions() }
            }
            State::None(reason) => PreFilterStatus::None { reason: reason.clone() },
        }
    }
}

impl Rules {
    /// How it stands with the filters in the kernel, by interface; those that are received in
    /// another way are not named.
    pub fn pre_filters(&self) -> Vec<(String, PreFilterStatus)> {
        self.lock().pre_filters.status()
    }
}

impl PreFilterStatus {
    /// In words, of `rules` rules.
    pub fn text(&self, rules: usize) -> String {
        match self {
            PreFilterStatus::On { questions } => {
                format!("{rules} of {rules} rules in the kernel's filter, as {questions} questions")
            }
            PreFilterStatus::Off { unknown } if unknown.is_empty() => {
                "off, as the default is not drop any more: all frames are judged".to_owned()
            }
            PreFilterStatus::Off { unknown } => {
                let known = rules.saturating_sub(unknown.len());
                let names: Vec<String> =
                    unknown.iter().take(NAMED_MAX).map(ToString::to_string).collect();
                let more = if unknown.len() > NAMED_MAX { ", …" } else { "" };
                format!(
                    "off, with {known} of {rules} rules in the kernel's filter: all frames are \
                     judged until the others ({}{more}) are deleted",
                    names.join(", ")
                )
            }
            PreFilterStatus::None { reason } => format!("none: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
