//! Filters of a session: compiled in a bounded child, one for each link type.

use crate::note::{Note, Notes};
use anyhow::Context;
use ringside_core::bpf::ClassicProgram;
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_filter::{Compiled, Prepared};
use ringside_keeper::filter_child;
use ringside_wire::Null;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
    note_length(&compiled, notes);
    Ok(Some(compiled.program))
}

fn note_length(compiled: &Compiled, notes: Notes<'_>) {
    if !compiled.optimised {
        notes(Note::Unoptimised { instructions: compiled.program.instructions.len() });
    }
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

/// What an expression compiles to, for each link type that came: a child is started once for each.
#[derive(Debug)]
pub struct Programs {
    expression: String,
    known: Mutex<BTreeMap<LinkType, Option<Arc<Compiled>>>>,
}

impl Programs {
    /// Of a pcap-filter(7) expression; an empty one accepts all.
    pub fn new(expression: &str) -> Arc<Programs> {
        Arc::new(Programs { expression: expression.trim().to_owned(), known: Mutex::default() })
    }

    /// True if nothing is asked of frames.
    fn accepts_all(&self) -> bool {
        self.expression.is_empty()
    }

    /// Begins to compile for frames of `link_type` while the caller does something else. What is
    /// wrong is said to who asks for the program.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn compile_ahead(self: &Arc<Self>, link_type: LinkType) -> std::io::Result<()> {
        if self.accepts_all() {
            return Ok(());
        }
        let programs = self.clone();
        let ahead = move || drop(programs.get(link_type));
        std::thread::Builder::new().name("filter".into()).spawn(ahead).map(drop)
    }

    /// The program for frames of `link_type`; none accepts all.
    ///
    /// # Errors
    /// As [`compile`].
    pub(crate) fn get(&self, link_type: LinkType) -> anyhow::Result<Option<Arc<Compiled>>> {
        // Who else wants a program waits here while a child makes it: it is likely the same one.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(&link_type) {
            return Ok(compiled.clone());
        }
        let compiled = filter_child::compile(&self.expression, link_type)?.map(Arc::new);
        known.insert(link_type, compiled.clone());
        Ok(compiled)
    }
}

/// A filter over frames of several link types: one program for each, made when it is needed.
pub struct FrameFilter {
    programs: Arc<Programs>,
    notes: fn(Note),
    prepared: BTreeMap<LinkType, Option<Prepared>>,
}

impl FrameFilter {
    /// Of a pcap-filter(7) expression; an empty one accepts all.
    pub fn new(expression: &str, notes: fn(Note)) -> FrameFilter {
        FrameFilter::of(Programs::new(expression), notes)
    }

    /// Of programs that others use too.
    pub fn of(programs: Arc<Programs>, notes: fn(Note)) -> FrameFilter {
        FrameFilter { programs, notes, prepared: BTreeMap::new() }
    }

    /// True if nothing is asked of frames.
    pub fn accepts_all(&self) -> bool {
        self.programs.accepts_all()
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
        let native = (link_type == LinkType::NULL).then(|| native_null(frame.bytes)).flatten();
        let bytes = native.as_deref().unwrap_or(frame.bytes);
        Ok(program.is_none_or(|program| program.accepts(bytes, frame.meta.wire_bytes)))
    }

    /// The program for frames of `link_type`; none accepts all.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn prepare(&mut self, link_type: LinkType) -> anyhow::Result<Option<&Prepared>> {
        if !self.prepared.contains_key(&link_type) {
            let compiled = self
                .programs
                .get(link_type)
                .with_context(|| format!("for link type {}", link_type.0))?;
            compiled.iter().for_each(|compiled| note_length(compiled, &self.notes));
            let program = compiled.map(|compiled| Prepared::new(&compiled.program)).transpose()?;
            self.prepared.insert(link_type, program);
        }
        Ok(self.prepared.get(&link_type).and_then(Option::as_ref))
    }
}

/// A frame of BSD's loopback whose family is written as this machine writes it, which is what a
/// program compares with; `None` if it is so already. The file may come from a machine with another
/// byte order, or from one with another number for IPv6 (libpcap, gencode.c: `gen_linktype`, does
/// the same for the file that it reads).
fn native_null(frame: &[u8]) -> Option<Vec<u8>> {
    let null = Null::new(frame).ok().filter(|null| null.family() <= u32::from(u16::MAX))?;
    let native = match null.family() {
        // NetBSD and OpenBSD, FreeBSD, macOS.
        24 | 28 | 30 => AF_INET6,
        other => other,
    };
    let native = native.to_ne_bytes();
    (!frame.starts_with(&native)).then(|| [&native, null.payload()].concat())
}

/// Linux's number for IPv6.
const AF_INET6: u32 = 10;

#[cfg(test)]
mod tests {
    use super::native_null;

    #[test]
    fn the_family_of_a_loopback_frame_is_that_of_this_machine_whoever_wrote_it() {
        let frame = |family: [u8; 4]| [&family[..], b"rest"].concat();
        let native = |family: u32| frame(family.to_ne_bytes());
        for family in [24_u32, 28, 30] {
            for bytes in [family.to_le_bytes(), family.to_be_bytes()] {
                assert_eq!(native_null(&frame(bytes)), Some(native(10)));
            }
        }
        assert_eq!(native_null(&native(2)), None);
        assert_eq!(native_null(&frame(2_u32.swap_bytes().to_ne_bytes())), Some(native(2)));
        assert_eq!(native_null(&frame([1, 2, 3, 4])), None, "no family at all");
        assert_eq!(native_null(&[2, 0, 0]), None);
    }
}
