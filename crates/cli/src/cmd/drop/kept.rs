//! Rules that are pinned on interfaces, and whether a process holds them.

use crate::running;
use anyhow::ensure;
use ringside_control::SideEffectsStatus;
use ringside_report::drop::Pinned;
use ringside_report::rules::RuleCounts;
use ringside_session::driver_rules::{ledger, undecided};
use ringside_terminal::say;
use ringside_xdp::PinnedRules;
use ringside_xdp::pins::{Kind, Pins};
use std::time::SystemTime;

/// Sources of most dropped frames that are printed, as at the end of a run.
const SOURCES_TOLD_MAX: usize = 10;

/// Rules that are in force by pins.
pub(super) struct Kept {
    pub pins: Pins,
    /// The interface's name when they were pinned.
    pub interface: String,
    pub rules: PinnedRules,
}

impl Kept {
    /// Those on interfaces of this name, or all; what cannot be read is reported.
    pub fn all(interface: Option<&str>) -> Vec<Kept> {
        let mut all = Vec::new();
        for (interface, pins) in named(interface).filter(|(_, pins)| !pins.is_stale()) {
            match PinnedRules::open(&pins) {
                Ok(Some(rules)) => all.push(Kept { pins, interface, rules }),
                Ok(None) => {}
                Err(error) => say::message(format_args!("ringside: {interface}: {error}")),
            }
        }
        all
    }

    /// What they do; with `counts` also what each rule counted.
    pub fn report(&self, with_counts: bool) -> Pinned {
        let (rules, interface) = (&self.rules, self.interface.clone());
        let (totals, is_dry) = (rules.totals(), rules.is_dry());
        let counts = || RuleCounts {
            rules: rules.rules(),
            default: rules.default_verdict(),
            undecided: undecided(&totals),
            side_effects: SideEffectsStatus::default(),
        };
        Pinned {
            directory: rules.directory().to_owned(),
            since: self.pins.since().unwrap_or(SystemTime::UNIX_EPOCH),
            is_dry,
            ledger: ledger(&interface, &totals, is_dry),
            counts: with_counts.then(|| (counts(), rules.offenders(SOURCES_TOLD_MAX))),
            interface,
            totals,
        }
    }
}

/// What is pinned of interfaces of this name, or of all, in force or not.
pub(super) fn named(interface: Option<&str>) -> impl Iterator<Item = (String, Pins)> {
    let all =
        Pins::all(Kind::Rules).into_iter().map(|pins| (pins.interface().unwrap_or_default(), pins));
    all.filter(move |(name, _)| interface.is_none_or(|wanted| name == wanted))
}

/// True if a process holds what is in force; also where that cannot be found out.
pub(super) fn is_held(pins: &Pins) -> bool {
    running::is_held(pins.namespace(), || pins.is_held())
}

/// Refuses to put rules next to those that are pinned on an interface of this thread's namespace.
pub(super) fn ensure_none(name: &str, ifindex: u32, netns: Option<&str>) -> anyhow::Result<()> {
    let pins = Pins::on(Kind::Rules, ifindex)?;
    let is_there = pins.is_some_and(|pins| pins.is_in_force() && !pins.is_stale());
    let off = off(name, netns);
    ensure!(
        !is_there,
        "rules are pinned on {name} and in force: replace them with --pin, or end them first with \
         `{off}`"
    );
    Ok(())
}

/// Says that rules stay when this process is gone.
pub(super) fn tell_stay(name: &str, netns: Option<&str>) {
    let off = off(name, netns);
    say::message(format_args!(
        "the rules stay in force on {name}: `ringside drop status -i {name}` tells what they \
         count, `{off}` ends them"
    ));
}

fn off(name: &str, netns: Option<&str>) -> String {
    let netns = netns.map(|netns| format!(" --netns {netns}")).unwrap_or_default();
    format!("ringside drop off -i {name}{netns}")
}
