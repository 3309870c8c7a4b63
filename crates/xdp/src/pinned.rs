//! Rules that are in force without a process.

use crate::offenders::{Offender, offenders};
use crate::records::verdict_of;
use ringside_ebpf::pins::Pins;
use ringside_ebpf::rules::{self, Totals};
use ringside_rules::engine::Counts;
use ringside_rules::language::{RuleId, Verdict};
use std::path::Path;

/// Rules that are pinned on an interface and in force, whether or not a process is there. They can
/// be looked at; a process that replaces them opens [`DriverRules`](crate::DriverRules) with
/// [`Options::is_pinned`](crate::Options::is_pinned).
#[derive(Debug)]
pub struct PinnedRules(rules::PinnedRules);

/// A rule, and what it counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedRule {
    /// Id of the rule.
    pub id: RuleId,
    /// The rule in its canonical form, with the id.
    pub text: String,
    /// What it counted.
    pub counts: Counts,
}

impl PinnedRules {
    /// What is in force by these pins, if something is.
    ///
    /// # Errors
    /// Another version of this program has pinned it, it is damaged, or there is no privilege.
    pub fn open(pins: &Pins) -> Result<Option<PinnedRules>, ringside_ebpf::Error> {
        Ok(rules::PinnedRules::open(pins)?.map(PinnedRules))
    }

    pub(crate) fn of(rules: rules::PinnedRules) -> PinnedRules {
        PinnedRules(rules)
    }

    /// Where their names are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// Frames are judged and counted, and go on.
    pub fn is_dry(&self) -> bool {
        self.0.is_dry()
    }

    /// The fate of frames that no rule decides about.
    pub fn default_verdict(&self) -> Verdict {
        verdict_of(self.0.default_fate())
    }

    /// Frames since rules were first pinned there: exact while none come.
    pub fn totals(&self) -> Totals {
        self.0.totals()
    }

    /// As [`DriverRules::offenders`](crate::DriverRules::offenders).
    pub fn offenders(&self, most: usize) -> Vec<Offender> {
        offenders(self.0.offenders(), most)
    }

    /// The rules by id.
    pub fn rules(&self) -> Vec<PinnedRule> {
        let mut rules: Vec<PinnedRule> = self
            .0
            .rules()
            .filter_map(|(text, (frames, bytes))| rule_of(text, Counts { frames, bytes }))
            .collect();
        rules.sort_unstable_by_key(|rule| rule.id);
        rules
    }
}

/// None of a text that no rule has which was written there: it begins with the id, and what is no
/// text for people is escaped.
fn rule_of(text: String, counts: Counts) -> Option<PinnedRule> {
    let id = RuleId(text.split_once(':')?.0.parse().ok()?);
    let is_one = text.starts_with(&format!("{id}: ")) && !text.contains(char::is_control);
    is_one.then_some(PinnedRule { id, text, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_rules_only_with_their_id() {
        let seeds = ["7: udp => drop", "4294967296: udp => drop", "+7: x", "07: x", "\u{1b}[2J"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("pinned-rules", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let Some(rule) = rule_of(text, Counts::default()) else { return };
            assert!(rule.text.starts_with(&format!("{}: ", rule.id)), "{rule:?}");
            assert!(rule.text.chars().all(|c| !c.is_control()), "{rule:?}");
        });
    }
}
