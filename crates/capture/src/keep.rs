//! What of which frames a run keeps: rules, and selective storage without them.
//!
//! Every frame of a batch passes one place, `Selector::choose`, before it is copied or counted. A
//! filter of the source's own is asked first, then the rules; what they take is cut by their trims,
//! and by each cap that was asked for. The shortest cut wins. What comes out are slots of the same
//! memory, so that the copy is the packer's, as ever, and a run without a selection has no cost.

mod adaptive;
mod digests;
mod flows;
mod marks;
mod mirrors;
mod pieces;
mod pre_filters;
mod rules;
mod text;
mod tls;

pub use adaptive::{AdaptiveBounds, CAP_BYTES_MIN};
pub use digests::{DigestCounts, DigestMiss, DigestOutput, DigestSums};
pub(crate) use digests::{DigestQueue, DigestWriter, Patience};
pub use flows::FlowCutoff;
pub use marks::{PinMark, PinMarks};
pub use mirrors::{MirrorCounts, MirrorError, MirrorFailure, Mirrors, NoMirror};
pub use pre_filters::{InterfacePreFilter, PreFilterRequest, PreFilterStatus};
pub use rules::{ChangeError, Rules, RulesBuilder, RulesError, RulesReport, SideEffects, passes};

use crate::control::Control;
use crate::packer::{Offered, Pieced};
use adaptive::AdaptiveCap;
use digests::{DigestReader, Digester};
use flows::Flows;
use marks::Marker;
use mirrors::MirrorSender;
use pieces::Lists;
use ringside_core::{Batch, FrameSlot, LaneId, LinkType, SourceInterface};
use ringside_filter::Prepared;
use ringside_inspect::DissectedFrame;
use ringside_ring::CaptureRing;
use ringside_rules::engine::{BuildError, Follows};
use ringside_store::StoreError;
use rules::{RuleJudge, Ruling};
use std::path::PathBuf;
use std::sync::Arc;

/// What is asked for.
#[derive(Default)]
pub struct SelectionOptions {
    /// Which frames are taken, and what of each.
    pub rules: Option<RulesBuilder>,
    /// Where rules send copies.
    pub mirrors: Option<Mirrors>,
    /// Where records of frames that rules digest are written.
    pub digests: Option<DigestOutput>,
    /// Filters by interface, for sources that have none of their own; empty for none.
    pub filters: Vec<Prepared>,
    /// Bytes that are kept of a payload that is no text.
    pub binary_cap: Option<u32>,
    /// When a flow has been seen enough of.
    pub flow_cutoff: Option<FlowCutoff>,
    /// A cap that follows the fill of the ring.
    pub adaptive_cap: Option<AdaptiveBounds>,
}

/// A run's selection: makes a `Selector` for each thread of a lane.
pub struct Selection {
    interfaces: Vec<SourceInterface>,
    lists: Lists,
    rules: Option<Rules>,
    /// Its rules were put to work.
    options: SelectionOptions,
    digests: DigestReader,
    marks: PinMarks,
}

impl Selection {
    /// For frames of these interfaces, on which the rules are put to work. Adds to them one for
    /// each list of pieces that rules keep of a frame and each interface: such frames bear its id,
    /// so that a file says what was cut.
    ///
    /// # Errors
    /// The rules are too many, one has a wrong filter, they keep too many different lists, or need
    /// what was not asked for.
    pub fn new(
        mut options: SelectionOptions,
        interfaces: &mut Vec<SourceInterface>,
    ) -> Result<Selection, RulesError> {
        let named = interfaces.clone();
        let digests = DigestReader::default();
        let keeps: Vec<_> = options.rules.iter().flat_map(RulesBuilder::keeps).collect();
        let lists = Lists::new(keeps.iter(), interfaces)?;
        let (mirrors, digest_reader) = (
            options.mirrors.as_ref().map(Mirrors::reader),
            options.digests.as_ref().map(|_| digests.clone()),
        );
        let work = |rules: RulesBuilder| {
            let links = named.iter().map(|interface| interface.link_type);
            rules.with_mirrors(mirrors).with_digests(digest_reader).build(links)
        };
        let rules = options.rules.take().map(work).transpose()?;
        Ok(Selection {
            interfaces: named,
            lists,
            rules,
            options,
            digests,
            marks: PinMarks::default(),
        })
    }

    /// The rules, which may be changed while the run goes on.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// When frames came that rules pin.
    pub fn marks(&self) -> &PinMarks {
        &self.marks
    }

    /// True if frames may be recorded as pieces, which a pcap file cannot say.
    pub fn keeps_pieces(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Files that are written next to the output of the run.
    pub fn files(&self) -> Option<PathBuf> {
        match &self.options.digests {
            Some(DigestOutput::File(path)) => Some(path.clone()),
            _ => None,
        }
    }

    /// True if frames are turned away here, after their source has counted them.
    pub(crate) fn turns_away(&self) -> bool {
        self.rules.is_some() || !self.options.filters.is_empty()
    }

    /// What each rule has counted.
    pub(crate) fn rules_report(&self) -> Option<RulesReport> {
        self.rules.as_ref().map(Rules::report)
    }

    /// Opens where records are written, if some are; with it the queue that leads there.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn open_digests(
        &mut self,
        interfaces: &[SourceInterface],
        control: &Arc<Control>,
    ) -> Result<Option<(DigestWriter, DigestQueue)>, StoreError> {
        let Some(output) = self.options.digests.take() else { return Ok(None) };
        DigestWriter::open(output, interfaces, &self.digests, control.clone()).map(Some)
    }

    /// For one of the `threads` of the lane `lane` of `ring`, whose source has these interfaces.
    pub(crate) fn selector(
        &self,
        interfaces: &[SourceInterface],
        snaplen: u32,
        threads: usize,
        ring: Option<(&Arc<CaptureRing>, usize)>,
        digests: Option<DigestQueue>,
    ) -> Result<Selector, BuildError> {
        let links = interfaces.iter().map(|interface| interface.link_type);
        // Several threads share the segments of a flow in no order.
        let follows = if threads > 1 { Follows::Nothing } else { Follows::Flows };
        Ok(Selector {
            interfaces: self.interfaces.clone(),
            snaplen,
            filters: self.options.filters.clone(),
            rules: self.rules.as_ref().map(|rules| rules.judge(links, follows)).transpose()?,
            mirrors: self.options.mirrors.as_ref().map(Mirrors::sender),
            digester: digests.map(Digester::new),
            marker: ring.map(|(_, lane)| Marker::new(LaneId(lane as u16), self.marks.clone())),
            flows: self.options.flow_cutoff.map(Flows::new),
            binary_cap: self.options.binary_cap,
            adaptive: self
                .options
                .adaptive_cap
                .zip(ring)
                .map(|(bounds, (ring, lane))| AdaptiveCap::new(bounds, ring.clone(), lane)),
            lists: self.lists.clone(),
            slots: Vec::new(),
            pieced: Vec::new(),
        })
    }
}

/// What is kept of one frame.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// At most this number of its first bytes.
    limit: u32,
    /// Of these the pieces of a list.
    list: Option<u16>,
}

/// Frames that were not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnedAway {
    /// Not to be taken: the filter rejects them, or rules leave them to the host.
    pub(crate) filtered: u64,
    /// A rule drops them.
    pub(crate) by_rule: u64,
}

/// Chooses and cuts the frames of a thread.
pub(crate) struct Selector {
    /// Those of the run.
    interfaces: Vec<SourceInterface>,
    snaplen: u32,
    filters: Vec<Prepared>,
    rules: Option<RuleJudge>,
    mirrors: Option<MirrorSender>,
    digester: Option<Digester>,
    marker: Option<Marker>,
    flows: Option<Flows>,
    binary_cap: Option<u32>,
    adaptive: Option<AdaptiveCap>,
    lists: Lists,
    slots: Vec<FrameSlot>,
    pieced: Vec<Pieced>,
}

impl Selector {
    /// To be called where no frames come.
    pub(crate) fn rest(&mut self) {
        self.rules.iter_mut().for_each(RuleJudge::refresh);
    }

    /// Looks at all frames of a batch; [`offered`](Self::offered) are then those that were chosen.
    pub(crate) fn choose(&mut self, batch: &Batch<'_>) -> TurnedAway {
        self.rest();
        let mut turned_away = TurnedAway::default();
        self.slots.clear();
        self.pieced.clear();
        if let (Some(adaptive), Some(last)) = (&mut self.adaptive, batch.slots().last()) {
            adaptive.look(last.timestamp());
        }
        for (index, slot) in batch.slots().iter().enumerate() {
            let frame = slot.lend(batch.memory());
            let (meta, interface) = (&frame.meta, frame.meta.interface.0 as usize);
            let filter = self.filters.get(interface);
            if filter.is_some_and(|filter| !filter.accepts(frame.bytes, meta.wire_bytes)) {
                turned_away.filtered += 1;
                continue;
            }
            let link = SourceInterface::of(meta, &self.interfaces);
            let link = link.map_or(LinkType::UNKNOWN, |interface| interface.link_type);
            let dissected = DissectedFrame::new(frame.bytes, meta.wire_bytes, link);
            let mut cut = Cut { limit: slot.captured_bytes().min(self.snaplen), list: None };
            let ruling = match &mut self.rules {
                Some(rules) => {
                    let ruled = rules.judge(&dissected, &self.lists, &mut cut);
                    if let (1.., Some(sender)) = (ruled.mirrors, &mut self.mirrors) {
                        sender.note(ruled.mirrors, index);
                    }
                    if let (Some(rule), Some(digester)) = (ruled.digest, &mut self.digester) {
                        digester.add(rule, &dissected, meta);
                    }
                    if let (Some(rule), Ruling::Take, Some(marker)) =
                        (ruled.pin, ruled.ruling, &mut self.marker)
                    {
                        marker.add(rule, meta.timestamp);
                    }
                    ruled.ruling
                }
                None => Ruling::Take,
            };
            match ruling {
                Ruling::Take => {}
                Ruling::Leave => {
                    turned_away.filtered += 1;
                    continue;
                }
                Ruling::Drop => {
                    turned_away.by_rule += 1;
                    continue;
                }
            }
            self.cap(&dissected, slot, &mut cut);
            self.push(slot, cut);
        }
        self.mirrors.iter_mut().for_each(|mirrors| mirrors.send(batch));
        self.digester.iter_mut().for_each(|digester| digester.end_batch(batch));
        self.marker.iter_mut().for_each(Marker::end_batch);
        turned_away
    }

    /// The frames that were chosen of `batch`.
    pub(crate) fn offered<'c>(&'c self, batch: &'c Batch<'_>) -> Offered<'c> {
        Offered::chosen(batch.memory(), &self.slots, &self.pieced, self.lists.pieces())
    }

    /// Cuts by what was asked for in addition to rules.
    fn cap(&mut self, dissected: &DissectedFrame<'_>, slot: &FrameSlot, cut: &mut Cut) {
        if let Some(flows) = &mut self.flows {
            flows.cut(dissected, slot.timestamp(), &mut cut.limit);
        }
        if let Some(payload_bytes) = self.binary_cap {
            let payload = dissected.layers().payload();
            let end = (payload.start as u32).saturating_add(payload_bytes);
            if end < cut.limit && !text::is_text(&dissected.bytes()[payload]) {
                cut.limit = end;
            }
        }
        if let Some(cap) = self.adaptive.as_ref().map(AdaptiveCap::bytes)
            && cap < cut.limit
        {
            // Headers are never lost to it.
            cut.limit = cut.limit.min(cap.max(dissected.layers().payload_offset() as u32));
        }
    }

    fn push(&mut self, slot: &FrameSlot, cut: Cut) {
        let Some(list) = cut.list else {
            return self.slots.push(slot.cut_to(cut.limit));
        };
        let kept = pieces::bytes_below(&self.lists.pieces()[usize::from(list)], cut.limit);
        let interface = self.lists.interface(slot.meta().interface, list);
        self.pieced.push(Pieced { index: self.slots.len() as u32, list });
        self.slots.push(slot.cut_to(kept).of_interface(interface));
    }
}

#[cfg(test)]
mod tests;
