//! Which frames a capture keeps, and what of each.

use crate::driver_rules::RulesAhead;
use crate::note::{Note, Notes};
use crate::open::{OpenOptions, Opened};
use crate::refused::Refused;
use anyhow::Context;
use ringside_capture::backend::Description;
use ringside_capture::config::{FileFormat, Output};
use ringside_capture::keep::{
    AdaptiveBounds, DigestOutput, FlowCutoff, Mirrors, Rules, RulesError, Selection,
    SelectionOptions,
};
use ringside_core::Shown;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_filter::Prepared;
use ringside_keeper::filter_child::filter_compiler;
use ringside_netdev as netdev;
use ringside_rules::language::{self, Verdict};
use std::path::PathBuf;

/// What is asked about the frames to keep. By default all frames are, as they are.
#[derive(Default)]
pub struct KeepOptions {
    /// A file of rules that judge each frame, after the filter.
    pub rules: Option<PathBuf>,
    /// The drivers decide what they can by the rules, for every capture on their interfaces.
    pub rules_in_driver: bool,
    /// Exact rules, and as many others, that there is room for in the drivers at least.
    pub rules_room: usize,
    /// Where the records go that rules with `digest` ask for.
    pub digests: Option<DigestOutput>,
    /// Bytes that are kept of each payload that is no text.
    pub binary_cap: Option<u32>,
    /// When a flow has been seen enough of.
    pub flow_cutoff: Option<FlowCutoff>,
    /// A cap that follows the fill of the ring, which needs a consumer.
    pub adaptive_cap: Option<AdaptiveBounds>,
}

impl KeepOptions {
    /// The rules, checked: `None` without some.
    pub(crate) fn rules(&self) -> anyhow::Result<Option<Rules>> {
        let Some(path) = &self.rules else { return Ok(None) };
        let set = language::load(path)?;
        let rules = Rules::new(set, filter_compiler()?);
        let rules = rules.with_context(|| path.shown().to_string())?;
        if let (Some(id), None) = (rules.digests(), &self.digests) {
            return Err(RulesError::Digest { id }).with_context(|| path.shown().to_string());
        }
        if self.rules_in_driver {
            rules.expect_drivers();
        }
        Ok(Some(rules))
    }

    /// The rules in the drivers of interfaces, if that is asked for.
    pub(crate) fn ahead(
        &self,
        rules: Option<&Rules>,
        interfaces: &[String],
    ) -> anyhow::Result<Option<RulesAhead>> {
        let Some(rules) = rules.filter(|_| self.rules_in_driver) else { return Ok(None) };
        if interfaces.is_empty() {
            return Err(Refused::NoDriver.into());
        }
        let mut ahead = RulesAhead::new(rules.clone(), self.rules_room);
        for name in interfaces {
            let device = netdev::by_name(name)?.with_context(|| format!("{name} is gone"))?;
            ahead.add_interface(name, device.ifindex)?;
        }
        Ok(Some(ahead))
    }

    /// What is to be done with the frames of what was opened, to whose interfaces it may add some;
    /// `None` if all are to be kept as they are. `filters` are asked first. Each lane has
    /// `threads`.
    pub(crate) fn selection(
        self,
        rules: Option<Rules>,
        filters: Vec<Prepared>,
        threads: usize,
        opened: &mut Opened,
    ) -> anyhow::Result<Option<Selection>> {
        let KeepOptions { digests, binary_cap, flow_cutoff, adaptive_cap, .. } = self;
        let is_idle = (binary_cap, flow_cutoff, adaptive_cap) == (None, None, None);
        if is_idle && rules.is_none() && filters.is_empty() {
            return Ok(None);
        }
        let sends = rules.as_ref().filter(|rules| !rules.mirrors().is_empty());
        let threads = threads * opened.lanes.len();
        let mirrors = sends.map(|rules| Mirrors::open(rules, &opened.interfaces, threads));
        let mirrors = mirrors.transpose()?;
        let options = SelectionOptions {
            rules,
            mirrors,
            digests,
            filters,
            binary_cap,
            flow_cutoff,
            adaptive_cap,
        };
        Ok(Some(Selection::new(options, &mut opened.interfaces)?))
    }

    /// Refuses threads among which the frames of a flow would be divided.
    pub(crate) fn check_threads(&self, threads: u16) -> Result<(), Refused> {
        match self.flow_cutoff.is_some() && threads > 1 {
            true => Err(Refused::CutoffThreads { threads }),
            false => Ok(()),
        }
    }
}

/// Refuses rules that send copies of frames where there are none to send, or not whole ones.
pub(crate) fn check_mirrors(rules: &Rules, options: &OpenOptions) -> Result<(), Refused> {
    let mirrors = rules.mirrors();
    let Some((id, name)) = mirrors.first() else { return Ok(()) };
    let (id, to) = (*id, name.to_string());
    let snaplen = options.snaplen_bytes;
    if !options.read.is_empty() {
        return Err(Refused::MirrorOfFile { id, to });
    }
    match snaplen == FRAME_BYTES_MAX {
        true => Ok(()),
        false => Err(Refused::MirrorOfCut { id, to, snaplen }),
    }
}

/// Refuses rules that leave frames to the host where it does not get them.
pub(crate) fn check_backend(
    rules: &Rules,
    backend: &'static Description,
    name: &str,
) -> anyhow::Result<()> {
    if rules.has_drivers() {
        return Ok(());
    }
    if backend.is_in_driver {
        rules.forbid_pass();
    }
    if rules.pass_some() && backend.is_in_driver {
        return Err(Refused::PassBehindDriver { interface: name.to_owned(), backend }.into());
    }
    Ok(())
}

/// Says what becomes of frames of an interface that no rule can match, if the default drops them.
pub(crate) fn tell_pre_filter(rules: &Rules, interface: &str, notes: Notes<'_>) {
    let set = rules.set();
    let statuses = rules.pre_filters();
    let status = statuses.iter().find(|(name, _)| name == interface);
    if let Some((_, status)) = status.filter(|_| set.default == Verdict::Drop) {
        let text = status.text(set.rules.len());
        notes(Note::PreFilter { interface: interface.to_owned(), text });
    }
}

/// Refuses what an output cannot say of a frame.
pub(crate) fn check_output(
    selection: &Selection,
    output: &Output,
    has_trigger: bool,
) -> Result<(), Refused> {
    if !selection.keeps_pieces() {
        return Ok(());
    }
    let is_pcap = matches!(
        output,
        Output::File { format: FileFormat::Pcap, .. }
            | Output::Stream { format: FileFormat::Pcap, .. }
    );
    match (is_pcap, has_trigger) {
        (true, _) => Err(Refused::PiecesInPcap),
        (false, true) => Err(Refused::PiecesBehindTrigger),
        (false, false) => Ok(()),
    }
}
