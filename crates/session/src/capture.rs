//! Interfaces or files as the origin of a run, with what becomes of their frames before the ring.

use crate::driver_rules::RulesAhead;
use crate::filters;
use crate::keep::{self, KeepOptions};
use crate::note::Notes;
use crate::open::files::check_output;
use crate::open::{self, OpenOptions, Opened, Opening};
use crate::output::OutputOptions;
use crate::refused::Refused;
use anyhow::Context;
use ringside_capture::config::{DISK_RING_BYTES, RING_BYTES};
use ringside_capture::keep::{DigestOutput, Selection};
use ringside_capture::share::ShareSocket;
use ringside_capture::trigger::TriggerConfig;
use ringside_control::ControlSocket;
use ringside_core::SourceInterface;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_keeper::Knobs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is asked for frames up to the ring.
pub struct CaptureOptions {
    /// Where frames come from, and how.
    pub open: OpenOptions,
    /// Which are kept, and what of each.
    pub keep: KeepOptions,
    /// Only what surrounds a hit is written; to directories.
    pub trigger: Option<TriggerOptions>,
    /// A socket of mode 0600 at which other processes may read the ring.
    pub share: Option<PathBuf>,
    /// Bytes of the ring, unless more than a part of the free memory, or the run asks for others.
    pub ring_bytes: usize,
}

/// What is a hit, and what surrounds it.
#[derive(Clone, Debug)]
pub struct TriggerOptions {
    /// pcap-filter(7) expression of a hit.
    pub filter: String,
    /// How long before, as far as the ring reaches back.
    pub before: Duration,
    /// How long after.
    pub after: Duration,
}

/// What an origin adds to its lanes.
pub(crate) struct Extras {
    /// The rules in drivers, before the lanes.
    pub ahead: Option<RulesAhead>,
    /// Which frames are taken, and what is kept of each.
    pub selection: Option<Selection>,
    /// Bytes kept of each frame.
    pub snaplen: u32,
    /// Threads of each lane.
    pub threads: usize,
    /// Bytes of the capture ring, unless the run or the memory wants otherwise.
    pub ring_bytes: usize,
    /// Only what surrounds a hit is kept.
    pub trigger: Option<TriggerConfig>,
    /// Where other processes may attach.
    pub share: Option<ShareSocket>,
}

impl Default for Extras {
    fn default() -> Extras {
        Extras {
            ahead: None,
            selection: None,
            snaplen: FRAME_BYTES_MAX,
            threads: 1,
            ring_bytes: RING_BYTES,
            trigger: None,
            share: None,
        }
    }
}

impl Default for CaptureOptions {
    fn default() -> CaptureOptions {
        CaptureOptions {
            open: OpenOptions::default(),
            keep: KeepOptions::default(),
            trigger: None,
            share: None,
            ring_bytes: DISK_RING_BYTES,
        }
    }
}

impl CaptureOptions {
    /// Opens all of it. Refuses what does not go with itself or with `output`.
    pub(crate) fn open(
        self,
        output: &OutputOptions,
        knobs: &Knobs<'_>,
        notes: Notes<'_>,
    ) -> anyhow::Result<(Opened, Extras)> {
        if self.trigger.is_some() && (output.paths.is_empty() || !output.is_directory()) {
            return Err(Refused::TriggerOutput.into());
        }
        let options = &self.open;
        self.keep.check_threads(options.threads)?;
        let rules = self.keep.rules()?;
        rules.as_ref().map_or(Ok(()), |rules| keep::check_mirrors(rules, options))?;
        self.check_outputs(output)?;
        let directories = if output.is_directory() { &output.paths[..] } else { &[] };
        let rules_in_driver = self.keep.rules_in_driver;
        let opening = Opening { options, rules: rules.as_ref(), rules_in_driver, knobs, notes };
        let mut opened = open::open(opening, directories)?;
        let filters = match options.read.is_empty() {
            true => Vec::new(),
            false => filters::prepare(&options.filter, &opened.interfaces, notes)?,
        };
        // Before it is known what of frames is kept: a hit is looked for in whole ones.
        let trigger = trigger(self.trigger, &opened.interfaces, notes)?;
        let threads = usize::from(options.threads);
        let room = self.keep.rules_room;
        let selection = self.keep.selection(rules, filters, threads, &mut opened)?;
        let at_work = selection.as_ref().and_then(Selection::rules).filter(|_| rules_in_driver);
        let ahead = at_work.map(|rules| keep::ahead(rules, room, &opened.in_driver)).transpose()?;
        let extras = Extras {
            ahead,
            selection,
            snaplen: options.snaplen_bytes,
            threads,
            ring_bytes: self.ring_bytes,
            trigger,
            share: self.share.as_deref().map(share).transpose()?,
        };
        Ok((opened, extras))
    }

    /// Refuses to write over what is read, or two things to one file.
    fn check_outputs(&self, output: &OutputOptions) -> anyhow::Result<()> {
        let inputs = &self.open.read;
        output.paths.iter().try_for_each(|output| check_output(inputs, output))?;
        let Some(DigestOutput::File(path)) = &self.keep.digests else { return Ok(()) };
        if output.paths.contains(path) {
            return Err(Refused::SameOutput { path: path.clone() }.into());
        }
        check_output(inputs, path)
    }
}

fn trigger(
    options: Option<TriggerOptions>,
    interfaces: &[SourceInterface],
    notes: Notes<'_>,
) -> anyhow::Result<Option<TriggerConfig>> {
    let Some(TriggerOptions { filter, before, after }) = options else { return Ok(None) };
    let filters = filters::prepare(&filter, interfaces, notes)?;
    if filters.is_empty() {
        return Err(Refused::TriggerFilter.into());
    }
    Ok(Some(TriggerConfig { filters, before, after }))
}

fn share(path: &Path) -> anyhow::Result<ShareSocket> {
    let socket = ControlSocket::bind(path)?;
    let listener = socket.listener().context("the socket for readers")?;
    ShareSocket::new(listener, socket).context("the socket for readers")
}
