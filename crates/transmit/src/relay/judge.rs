//! What becomes of one frame.

use super::NotRelayed;
use super::{Fragmenting, RelayConfig};
use crate::interface::{HEADER_BYTES as ETHERNET_BYTES, TAG_BYTES, has_tag};
use ringside_core::{Frame, LinkType};
use ringside_segment::{
    Checksum, Cut, HEADER_BYTES_MAX, Position, SegPlan, SegmentError, Segmenter, Settings,
    Template, TemplateError,
};
use ringside_wire::{LayerKind, Layers, Level, Verdict, verify_network, verify_transport};
use std::ops::Range;

/// Least payload of a frame that is cut, in bytes: RFC 791 has fragments of 8 on the smallest MTU.
/// Smaller pieces would make thousands of frames of one.
const PIECE_BYTES_MIN: usize = 8;

/// What becomes of a frame.
pub(super) enum Fate {
    /// Its first bytes go as they are: all, or all but padding of the link.
    Whole(usize),
    /// It is cut; its payload lies there.
    Cut(Box<Segmenter>, Range<usize>),
}

/// What the next link takes.
pub(super) struct Judge {
    mtu_bytes: usize,
    /// Longest frame that the sink takes, with a tag.
    frame_bytes_max: usize,
    fragmenting: Fragmenting,
}

impl Judge {
    pub fn new(config: &RelayConfig, frame_bytes_max: usize) -> Judge {
        let RelayConfig { mtu_bytes, fragmenting, .. } = *config;
        Judge { mtu_bytes, frame_bytes_max, fragmenting }
    }

    /// Says what becomes of `frame`; `fragment_id` is for its fragments over IPv6.
    pub fn fate(&self, frame: &Frame<'_>, fragment_id: u32) -> Result<Fate, NotRelayed> {
        let bytes = frame.bytes;
        if bytes.len() < frame.meta.wire_bytes as usize {
            return Err(NotRelayed::Truncated);
        }
        if bytes.len() < ETHERNET_BYTES {
            return Err(NotRelayed::TooShort);
        }
        if bytes.len() <= self.room(bytes, ETHERNET_BYTES) {
            return Ok(Fate::Whole(bytes.len()));
        }
        let link_bytes = link_bytes(bytes);
        let room = self.room(bytes, link_bytes);
        if bytes.len() <= room {
            return Ok(Fate::Whole(bytes.len()));
        }
        let (template, payload) = Template::of_frame(bytes).map_err(no_template)?;
        if payload.end <= room {
            return Ok(Fate::Whole(payload.end));
        }
        let mtu_bytes = room.checked_sub(link_bytes).ok_or(NotRelayed::HeadersTooLong)?;
        let cut = self.cut(&template, fragment_id)?;
        let settings = Settings { cut, ..Settings::mtu(mtu_bytes) };
        let segmenter = Segmenter::new(&template, settings).map_err(no_segments)?;
        if segmenter.mss_bytes() < PIECE_BYTES_MIN {
            return Err(NotRelayed::HeadersTooLong);
        }
        let plan = segmenter.plan(Position::default(), payload.len()).map_err(no_segments)?;
        if is_damaged(bytes, template.layers(), &plan) {
            return Err(NotRelayed::BadChecksum);
        }
        Ok(Fate::Cut(Box::new(segmenter), payload))
    }

    /// Longest frame like this one, `link_bytes` of which do not count against the MTU.
    fn room(&self, bytes: &[u8], link_bytes: usize) -> usize {
        let tag = if has_tag(bytes) { 0 } else { TAG_BYTES };
        (self.mtu_bytes + link_bytes).min(self.frame_bytes_max.saturating_sub(tag))
    }

    fn cut(&self, template: &Template, id: u32) -> Result<Cut, NotRelayed> {
        if template.is_tcp() {
            return Ok(Cut::Segments);
        }
        let is_v6 = template
            .layers()
            .network(Level::Inner)
            .is_some_and(|network| network.kind == LayerKind::Ipv6);
        match self.fragmenting {
            Fragmenting::None => Err(NotRelayed::FragmentsOff),
            Fragmenting::Ipv4 if is_v6 => Err(NotRelayed::DontFragment),
            Fragmenting::Ipv4 | Fragmenting::All => Ok(Cut::Fragments { id }),
        }
    }
}

/// Bytes of Ethernet and its VLAN tags, which do not count against an MTU.
fn link_bytes(bytes: &[u8]) -> usize {
    use LayerKind::{Ethernet, QinQ, Vlan};
    let layers = ringside_wire::dissect(bytes, LinkType::ETHERNET);
    let link = layers.iter().take_while(|layer| matches!(layer.kind, Ethernet | QinQ | Vlan));
    link.last().map_or(ETHERNET_BYTES, |layer| layer.end())
}

/// True if a checksum of the frame is wrong. One that the sender left to its interface, as a host
/// does on a virtual link, is not.
fn is_damaged(bytes: &[u8], layers: &Layers, plan: &SegPlan<'_>) -> bool {
    let is_wrong = |verdict| matches!(verdict, Verdict::Wrong { .. });
    // A tunnel over IPv6 may go without (RFC 6935).
    let is_summed_wrong = |verdict| matches!(verdict, Verdict::Wrong { found: 1.., .. });
    let levels = [Level::Outer, Level::Inner];
    levels.iter().any(|&level| is_wrong(verify_network(bytes, layers, level)))
        || is_wrong(verify_transport(bytes, layers, Level::Inner)) && !is_unfinished(bytes, plan)
        || layers.is_tunnelled() && is_summed_wrong(verify_transport(bytes, layers, Level::Outer))
}

/// True if the checksum of the frame is the sum of its pseudo header alone.
fn is_unfinished(bytes: &[u8], plan: &SegPlan<'_>) -> bool {
    let mut header = [0; HEADER_BYTES_MAX];
    let Ok(uncut) = plan.uncut() else { return false };
    let Ok(written) = uncut.write_header(&mut header, Checksum::Offload) else { return false };
    written.offload.is_some_and(|left| {
        let at = usize::from(left.start) + usize::from(left.offset);
        bytes.get(at..at + 2) == header.get(at..at + 2)
    })
}

fn no_template(error: TemplateError) -> NotRelayed {
    match error {
        TemplateError::TooLong { .. } => NotRelayed::HeadersTooLong,
        TemplateError::Truncated { .. } | TemplateError::Cut { .. } => NotRelayed::Truncated,
        TemplateError::Malformed { .. } | TemplateError::Trailing { .. } => NotRelayed::Malformed,
        TemplateError::Unsupported { .. } | TemplateError::NoTransport { .. } => {
            NotRelayed::Protocol
        }
        TemplateError::Fragment { .. } => NotRelayed::Fragment,
        TemplateError::Jumbo => NotRelayed::NotDivisible,
    }
}

fn no_segments(error: SegmentError) -> NotRelayed {
    match error {
        SegmentError::NoRoom { .. } => NotRelayed::HeadersTooLong,
        SegmentError::DontFragment => NotRelayed::DontFragment,
        SegmentError::NotUdp => NotRelayed::Protocol,
        // A datagram that fragments cannot say.
        SegmentError::TooLong { .. } | SegmentError::NotDivisible { .. } => {
            NotRelayed::NotDivisible
        }
        // Of sizes that are not chosen here, and of buffers.
        _ => NotRelayed::HeadersTooLong,
    }
}
