//! A filter over frames of files.

use crate::words;
use anyhow::Context;
use ringside_core::{Frame, LinkType};
use ringside_filter::Prepared;
use ringside_session::filters::compile;
use std::collections::BTreeMap;

/// A filter over frames of several link types: one program for each, made when it is needed.
pub struct FrameFilter {
    expression: String,
    programs: BTreeMap<LinkType, Option<Prepared>>,
}

impl FrameFilter {
    /// Of a pcap-filter(7) expression; an empty one accepts all.
    pub fn new(expression: String) -> FrameFilter {
        FrameFilter { expression, programs: BTreeMap::new() }
    }

    /// True if nothing is asked of frames.
    pub fn accepts_all(&self) -> bool {
        self.expression.is_empty()
    }

    /// True if the frame, which is of that link type, matches.
    pub fn accepts(&mut self, frame: &Frame<'_>, link_type: LinkType) -> anyhow::Result<bool> {
        if self.accepts_all() {
            return Ok(true);
        }
        let program = self.prepare(link_type)?;
        Ok(program.is_none_or(|program| program.accepts(frame.bytes, frame.meta.wire_bytes)))
    }

    /// The program for frames of `link_type`; none accepts all.
    pub fn prepare(&mut self, link_type: LinkType) -> anyhow::Result<Option<&Prepared>> {
        if !self.programs.contains_key(&link_type) {
            let program = compile(&self.expression, link_type, &words::say_note)
                .with_context(|| format!("for link type {}", link_type.0))?;
            let prepared = program.as_ref().map(Prepared::new).transpose()?;
            self.programs.insert(link_type, prepared);
        }
        Ok(self.programs.get(&link_type).and_then(Option::as_ref))
    }
}
