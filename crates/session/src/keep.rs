//! Which frames a capture keeps, and what of each.

use crate::driver_rules::RulesAhead;
use crate::open::{OpenOptions, Opened};
use crate::refused::Refused;
use anyhow::Context;
use ringside_capture::config::{FileFormat, Output};
use ringside_capture::keep::{
    AdaptiveBounds, DigestOutput, FlowCutoff, Mirrors, Rules, RulesBuilder, RulesError, Selection,
    SelectionOptions,
};
use ringside_core::Shown;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_filter::Prepared;
use ringside_keeper::filter_child::filter_compiler;
use ringside_netdev as netdev;
use ringside_rules::language::{self, RuleSet};
use std::path::PathBuf;

/// What is asked about the frames to keep. By default all frames are, as they are.
#[derive(Default)]
pub struct KeepOptions {
    /// Rules that judge each frame, after the filter.
    pub rules: Option<RulesFrom>,
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

/// Where rules come from.
#[derive(Clone, Debug)]
pub enum RulesFrom {
    /// A file.
    File(PathBuf),
    /// The caller, who has a name for them.
    Set(&'static str, RuleSet),
}

impl KeepOptions {
    /// The rules, checked: `None` without some.
    pub(crate) fn rules(&self) -> anyhow::Result<Option<RulesBuilder>> {
        let Some(from) = &self.rules else { return Ok(None) };
        let (name, set) = match from {
            RulesFrom::File(path) => (path.shown().to_string(), language::load(path)?),
            RulesFrom::Set(name, set) => ((*name).to_owned(), set.clone()),
        };
        let rules = RulesBuilder::new(set, filter_compiler()?);
        let rules = rules.with_context(|| name.clone())?;
        if let (Some(id), None) = (rules.digests(), &self.digests) {
            return Err(RulesError::Digest { id }).with_context(|| name);
        }
        Ok(Some(rules))
    }

    /// What is to be done with the frames of what was opened, to whose interfaces it may add some;
    /// `None` if all are to be kept as they are. `filters` are asked first. Each lane has
    /// `threads`.
    pub(crate) fn selection(
        self,
        rules: Option<RulesBuilder>,
        filters: Vec<Prepared>,
        threads: usize,
        opened: &mut Opened,
    ) -> anyhow::Result<Option<Selection>> {
        let may_pass = self.rules_in_driver || opened.in_driver.is_empty();
        let KeepOptions { digests, binary_cap, flow_cutoff, adaptive_cap, .. } = self;
        let is_idle = (binary_cap, flow_cutoff, adaptive_cap) == (None, None, None);
        if is_idle && rules.is_none() && filters.is_empty() {
            return Ok(None);
        }
        let sends = rules.as_ref().filter(|rules| !rules.mirrors().is_empty());
        let threads = threads * opened.lanes.len();
        let mirrors = sends.map(|rules| Mirrors::open(rules, &opened.interfaces, threads));
        let mirrors = mirrors.transpose()?;
        let pre_filters = std::mem::take(&mut opened.pre_filters);
        let rules = rules.map(|rules| rules.with_pre_filters(pre_filters));
        let rules = rules.map(|rules| if may_pass { rules } else { rules.forbid_pass() });
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

/// The rules in the drivers of interfaces. In each there is room for `room` exact rules, and as
/// many others.
pub(crate) fn ahead(
    rules: &Rules,
    room: usize,
    interfaces: &[String],
) -> anyhow::Result<RulesAhead> {
    if interfaces.is_empty() {
        return Err(Refused::NoDriver.into());
    }
    let mut ahead = RulesAhead::new(rules.clone(), room);
    for name in interfaces {
        let device = netdev::by_name(name)?.with_context(|| format!("{name} is gone"))?;
        ahead.add_interface(name, device.ifindex)?;
    }
    Ok(ahead)
}

/// Refuses rules that send copies of frames where there are none to send, or not whole ones.
pub(crate) fn check_mirrors(rules: &RulesBuilder, options: &OpenOptions) -> Result<(), Refused> {
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

/// Refuses what an output cannot say of a frame.
pub(crate) fn check_output(
    selection: &Selection,
    output: &Output,
    has_trigger: bool,
) -> Result<(), Refused> {
    if let Some(rule) = selection.rules().and_then(Rules::pins)
        && !matches!(output, Output::Directory { .. })
    {
        return Err(Refused::PinWithoutRecording { rule });
    }
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
