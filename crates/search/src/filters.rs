//! Filters over stored frames: compiled in a bounded child, one for each link type.

use anyhow::Context;
use ringside_core::{Frame, LinkType};
use ringside_filter::{Compiled, Compiler, Prepared};
use ringside_wire::Null;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What an expression compiles to, for each link type that came: a child is started once for each.
#[derive(Debug)]
pub struct Programs {
    expression: String,
    compiler: Compiler,
    known: Mutex<BTreeMap<LinkType, Arc<Compiled>>>,
}

impl Programs {
    /// Of a pcap-filter(7) expression; an empty one accepts all.
    pub fn new(expression: &str, compiler: Compiler) -> Arc<Programs> {
        let expression = expression.trim().to_owned();
        Arc::new(Programs { expression, compiler, known: Mutex::default() })
    }

    /// Of the empty expression: nothing is ever compiled.
    pub fn accept_all() -> Arc<Programs> {
        Programs::new("", Compiler::InProcess { optimise: false })
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

    /// The program for frames of `link_type`, ready to run; none accepts all.
    ///
    /// # Errors
    /// libpcap refuses it, or it does not end in time.
    pub fn prepared(&self, link_type: LinkType) -> anyhow::Result<Option<Prepared>> {
        let compiled = self.get(link_type)?;
        Ok(compiled.map(|compiled| Prepared::new(&compiled.program)).transpose()?)
    }

    /// The program for frames of `link_type`; none accepts all.
    ///
    /// # Errors
    /// libpcap refuses it, or it does not end in time.
    pub(crate) fn get(&self, link_type: LinkType) -> anyhow::Result<Option<Arc<Compiled>>> {
        if self.accepts_all() {
            return Ok(None);
        }
        // Who else wants a program waits here while a child makes it: it is likely the same one.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(&link_type) {
            return Ok(Some(compiled.clone()));
        }
        let compiled = ringside_filter::compile(&self.expression, link_type, 0, &self.compiler)?;
        let compiled = Arc::new(compiled);
        known.insert(link_type, compiled.clone());
        Ok(Some(compiled))
    }
}

/// A filter over frames of several link types: one program for each, made when it is needed.
pub struct FrameFilter {
    programs: Arc<Programs>,
    unoptimised: Box<dyn Fn(usize) + Send>,
    prepared: BTreeMap<LinkType, Option<Prepared>>,
}

impl FrameFilter {
    /// Of programs that others may use too.
    pub fn of(programs: Arc<Programs>) -> FrameFilter {
        FrameFilter { programs, unoptimised: Box::new(|_| ()), prepared: BTreeMap::new() }
    }

    /// Has `say` hear of a program that is longer than libpcap's optimiser takes: its length in
    /// instructions.
    pub fn on_unoptimised(mut self, say: impl Fn(usize) + Send + 'static) -> FrameFilter {
        self.unoptimised = Box::new(say);
        self
    }

    /// True if nothing is asked of frames.
    pub fn accepts_all(&self) -> bool {
        self.programs.accepts_all()
    }

    /// True if the frame, which is of that link type, matches.
    ///
    /// # Errors
    /// libpcap refuses the expression for such frames, or does not end in time.
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
    /// libpcap refuses the expression for such frames, or does not end in time.
    pub fn prepare(&mut self, link_type: LinkType) -> anyhow::Result<Option<&Prepared>> {
        if !self.prepared.contains_key(&link_type) {
            let compiled = self
                .programs
                .get(link_type)
                .with_context(|| format!("for link type {}", link_type.0))?;
            if let Some(compiled) = compiled.as_ref().filter(|compiled| !compiled.optimised) {
                (self.unoptimised)(compiled.program.instructions.len());
            }
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
