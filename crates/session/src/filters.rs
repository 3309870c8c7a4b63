//! Filters of a session: compiled in a bounded child, one for each link type.

use crate::note::{Note, Notes};
use anyhow::Context;
use ringside_core::bpf::ClassicProgram;
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_filter::Prepared;
use ringside_keeper::filter_child;
use std::collections::BTreeMap;

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

/// A filter over frames of several link types: one program for each, made when it is needed.
pub struct FrameFilter {
    expression: String,
    notes: fn(Note),
    programs: BTreeMap<LinkType, Option<Prepared>>,
}

impl FrameFilter {
    /// Of a pcap-filter(7) expression; an empty one accepts all.
    pub fn new(expression: String, notes: fn(Note)) -> FrameFilter {
        FrameFilter { expression, notes, programs: BTreeMap::new() }
    }

    /// True if nothing is asked of frames.
    pub fn accepts_all(&self) -> bool {
        self.expression.is_empty()
    }

    /// True if the frame, which is of that link type, matches.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn accepts(&mut self, frame: &Frame<'_>, link_type: LinkType) -> anyhow::Result<bool> {
        if self.accepts_all() {
            return Ok(true);
        }
        let program = self.prepare(link_type)?;
        Ok(program.is_none_or(|program| program.accepts(frame.bytes, frame.meta.wire_bytes)))
    }

    /// The program for frames of `link_type`; none accepts all.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn prepare(&mut self, link_type: LinkType) -> anyhow::Result<Option<&Prepared>> {
        if !self.programs.contains_key(&link_type) {
            let program = compile(&self.expression, link_type, &self.notes)
                .with_context(|| format!("for link type {}", link_type.0))?;
            let prepared = program.as_ref().map(Prepared::new).transpose()?;
            self.programs.insert(link_type, prepared);
        }
        Ok(self.programs.get(&link_type).and_then(Option::as_ref))
    }
}
