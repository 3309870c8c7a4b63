//! The TCP flows of one thread, followed from segment to segment, so that a payload pattern is
//! found that begins in one and ends in another.
//!
//! Nothing is put together, and nothing is held back. Of each direction of a flow the next sequence
//! number is kept, and the last bytes, as many as the longest pattern needs. A segment that begins
//! there *continues* the direction, and so do the new bytes of one that begins before and reaches
//! beyond. One that has no new bytes is *repeated*, or came late: it is looked at alone and changes
//! nothing. Behind a *gap* a direction begins anew, with the segment behind it. So a pattern is
//! never found across bytes that did not come one after the other. There is no clock in it: which
//! flow was seen last follows from the order of segments.

use crate::patterns::{Seam, Seams, Sought, Stream};
use ringside_core::RecentTable;
use ringside_core::recent::Gone;
use ringside_inspect::DissectedFrame;
use ringside_wire::{FlowDirection, FlowKey, LayerKind, Level, Tcp};

/// Flows that are followed on one thread: several times what a busy link has at once, some 11 MB
/// in addition to their bytes. One more takes the place of one of the oldest, which begins anew if
/// it goes on: until its next segment but one each is looked at alone.
const FLOWS_MAX: usize = 65_536;

/// The fewest, for the longest patterns.
const FLOWS_MIN: usize = 1_024;

/// Bytes that are kept of all flows together. Patterns of up to 129 bytes leave room for all; with
/// one of 1,024 there are 8,192.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// How far behind a segment may lie that is taken for a repeated or late one: the largest window
/// without scaling. What lies further behind begins the direction anew, so that a wrong sequence
/// number far ahead, of an attacker for one, does not keep a flow from being followed for long.
const BEHIND_BYTES_MAX: u32 = 65_535;

/// The flows that are followed.
#[derive(Debug)]
pub struct Streams {
    sought: Sought,
    flows: RecentTable<(FlowKey, Level), Flow>,
    /// Segments so far, by which flows are old or young.
    segments: u64,
}

/// Both directions: from the lower endpoint, and from the higher.
#[derive(Debug, Default)]
struct Flow {
    sides: [Side; 2],
}

/// One direction of a flow.
#[derive(Debug, Default)]
struct Side {
    /// Sequence number of what comes next, if anything has come.
    next: Option<u32>,
    stream: Stream,
}

/// A segment with a payload.
struct Segment<'f> {
    /// Sequence number of its first byte.
    first: u32,
    payload: &'f [u8],
    /// Its end was captured too.
    is_whole: bool,
}

impl Streams {
    /// For rules that look for this in payloads; none if nothing can lie across segments.
    pub fn new(sought: Sought) -> Option<Streams> {
        let keep = sought.longest().checked_sub(1).filter(|&bytes| bytes > 0)?;
        let flows = (KEPT_BYTES_MAX / (2 * keep)).clamp(FLOWS_MIN, FLOWS_MAX);
        let flows = RecentTable::new(1 << flows.ilog2());
        Some(Streams { sought, flows, segments: 0 })
    }

    /// What it was made for.
    pub fn sought(&self) -> Sought {
        self.sought
    }

    /// Flows that there is room for.
    pub fn flows_max(&self) -> usize {
        self.flows.values_max()
    }

    /// Takes in a frame, where it is a TCP segment of this level, and puts into `seams` what came
    /// before its payload. Every segment of a flow is to be taken in; one that is not is a gap.
    /// True if another flow, which may go on, had to be given up for it.
    pub fn take_in(&mut self, frame: &DissectedFrame<'_>, level: Level, seams: &mut Seams) -> bool {
        let Some(tcp) = tcp(frame, level) else { return false };
        let Some(payload) = frame.payload(level) else { return false };
        let (is_syn, is_end) = (tcp.has(Tcp::SYN), tcp.has(Tcp::FIN) || tcp.has(Tcp::RST));
        if payload.is_empty() && !is_syn && !is_end {
            return false;
        }
        let Some((key, way)) = FlowKey::of(frame.bytes(), frame.layers(), level) else {
            return false;
        };
        let mut gave_up = false;
        let entered = match payload.is_empty() {
            // Without a payload there is nothing to remember: a flood of SYNs displaces no flow.
            true => self.flows.get(&(key, level)),
            false => {
                self.segments += 1;
                let fresh = |gone: Option<Gone<_, Flow>>| {
                    gave_up = gone.as_ref().is_some_and(|gone| gone.seen > 0);
                    gone.map_or_else(Flow::default, |gone| gone.value.anew())
                };
                Some(self.flows.enter((key, level), self.segments, fresh))
            }
        };
        let Some(entered) = entered else { return false };
        if is_end {
            // The next flow that needs a place may have this one's.
            *entered.seen = 0;
        }
        let sides = &mut entered.value.sides;
        let sent = usize::from(way == FlowDirection::HighToLow);
        if is_syn {
            sides[sent].restart();
            if !tcp.has(Tcp::ACK) {
                sides[1 - sent].restart();
            }
        }
        if !payload.is_empty() {
            let first = tcp.sequence().wrapping_add(is_syn.into());
            let is_whole = frame.bytes().len() >= frame.wire_bytes() as usize;
            let segment = Segment { first, payload, is_whole };
            sides[sent].take_in(&segment, self.sought.longest(), seams.at_mut(level));
        }
        gave_up
    }
}

impl Flow {
    /// Another flow in the memory of this one.
    fn anew(mut self) -> Flow {
        self.sides.iter_mut().for_each(Side::restart);
        self
    }
}

impl Side {
    fn restart(&mut self) {
        self.next = None;
        self.stream.restart();
    }

    fn take_in(&mut self, segment: &Segment<'_>, longest: usize, seam: &mut Seam) {
        let Segment { first, payload, is_whole } = *segment;
        let behind = self.next.map_or(0, |next| next.wrapping_sub(first));
        let new = match payload.get(behind as usize..) {
            // It begins where the direction ended, or before and goes on.
            Some(new @ [_, ..]) => new,
            _ if behind <= BEHIND_BYTES_MAX => return,
            // Ahead, or far behind.
            _ => {
                self.restart();
                payload
            }
        };
        self.stream.take_in(new, longest, seam);
        self.next = Some(first.wrapping_add(payload.len() as u32));
        if !is_whole {
            self.restart();
        }
    }
}

fn tcp<'f>(frame: &DissectedFrame<'f>, level: Level) -> Option<Tcp<'f>> {
    let layers = frame.layers();
    if level == Level::Inner && !layers.is_tunnelled() {
        return None;
    }
    let transport = layers.transport(level).filter(|layer| layer.kind == LayerKind::Tcp)?;
    Tcp::new(frame.from(transport)).ok()
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
