//! Filters of a session: compiled in a bounded child, one for each link type.

use crate::note::{Note, Notes};
use ringside_core::bpf::ClassicProgram;
use ringside_core::{LinkType, SourceInterface};
use ringside_filter::Prepared;
use ringside_keeper::filter_child;
use ringside_search::{FrameFilter, Programs};
use std::sync::Arc;

/// The filter for frames of `link_type`; `None` for an empty one. What is longer than libpcap's
/// optimiser takes is said.
///
/// # Errors
/// libpcap refuses it, or it does not end in time.
pub fn compile(
    expression: &str,
    link_type: LinkType,
    notes: Notes<'_>,
) -> anyhow::Result<Option<ClassicProgram>> {
    let Some(compiled) = filter_child::compile(expression, link_type)? else { return Ok(None) };
    if !compiled.optimised {
        notes(Note::Unoptimised { instructions: compiled.program.instructions.len() });
    }
    Ok(Some(compiled.program))
}

/// A filter for each interface, ready to run; none of an empty expression.
///
/// # Errors
/// As [`compile`].
pub fn prepare(
    expression: &str,
    interfaces: &[SourceInterface],
    notes: Notes<'_>,
) -> anyhow::Result<Vec<Prepared>> {
    let mut filters: Vec<Prepared> = Vec::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let link = interface.link_type;
        let known = interfaces[..index].iter().position(|before| before.link_type == link);
        if let Some(known) = known {
            filters.extend(filters.get(known).cloned());
            continue;
        }
        let program = compile(expression, link, notes)?;
        filters.extend(program.as_ref().map(Prepared::new).transpose()?);
    }
    Ok(filters)
}

/// What an expression compiles to, for whatever link type comes; an empty one accepts all.
///
/// # Errors
/// The system does not say which program this is.
pub fn programs(expression: &str) -> anyhow::Result<Arc<Programs>> {
    Ok(Programs::new(expression, filter_child::filter_compiler()?))
}

/// The filter of that, for stored frames.
///
/// # Errors
/// As [`programs`].
pub fn frame_filter(expression: &str, notes: fn(Note)) -> anyhow::Result<FrameFilter> {
    let unoptimised = move |instructions| notes(Note::Unoptimised { instructions });
    Ok(FrameFilter::of(programs(expression)?).on_unoptimised(unoptimised))
}
