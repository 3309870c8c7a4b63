//! What rules and backends have to do with each other.

use crate::note::{Note, Notes};
use crate::refused::Refused;
use ringside_capture::backend::Description;
use ringside_capture::keep::{InterfacePreFilter, RulesBuilder};
use ringside_rules::language::Verdict;

/// Refuses rules that leave frames to the host where it does not get them.
pub(super) fn check_backend(
    rules: &RulesBuilder,
    backend: &'static Description,
    name: &str,
) -> Result<(), Refused> {
    match rules.pass_some() && backend.is_in_driver {
        true => Err(Refused::PassBehindDriver { interface: name.to_owned(), backend }),
        false => Ok(()),
    }
}

/// Says what becomes of frames of an interface that no rule can match, if the default drops them.
pub(super) fn tell_pre_filter(
    rules: &RulesBuilder,
    made: &InterfacePreFilter,
    interface: &str,
    notes: Notes<'_>,
) {
    let set = rules.set();
    if set.default == Verdict::Drop {
        let text = made.status().text(set.rules.len());
        notes(Note::PreFilter { interface: interface.to_owned(), text });
    }
}
