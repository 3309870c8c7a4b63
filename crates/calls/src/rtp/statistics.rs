//! All that is counted of one stream.

use super::bursts::Bursts;
use super::jitter_buffer::JitterBuffer;
use super::sequence::{Order, Sequence};
use super::timing::{Timing, nominal_ns};
use crate::codec::Content;
use ringside_ebpf::rtp::StreamState;
use ringside_proto::Rtp;

/// Statistics of one stream: one sender, one way.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Packets that came: `expected - lost + duplicates + stray`.
    pub packets: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Came twice.
    pub duplicates: u64,
    /// Came after a later one.
    pub out_of_order: u64,
    /// Had a number far from all others.
    pub stray: u64,
    /// How often the numbers began anew.
    pub restarts: u64,
    /// Had a header that contradicts itself. None of these is in `packets`.
    pub malformed: u64,
    /// When they came.
    pub timing: Timing,
    sequence: Option<Sequence>,
    bursts: Bursts,
    buffer: JitterBuffer,
    /// Stamp less timestamp, of the packet from which times under way are counted.
    origin: Option<(u64, u32)>,
    /// It has ended, and what is in the window is in the bursts.
    is_joined: bool,
}

impl Statistics {
    /// Of no packet yet, with a jitter buffer of a depth.
    pub fn new(buffer_ns: u64) -> Statistics {
        Statistics {
            packets: 0,
            payload_bytes: 0,
            duplicates: 0,
            out_of_order: 0,
            stray: 0,
            restarts: 0,
            malformed: 0,
            timing: Timing::default(),
            sequence: None,
            bursts: Bursts::default(),
            buffer: JitterBuffer::new(buffer_ns),
            origin: None,
            is_joined: false,
        }
    }

    /// As the kernel left them, with a jitter buffer of the usual depth.
    pub fn counted(state: &StreamState) -> Statistics {
        Statistics {
            packets: state.packets,
            payload_bytes: state.payload_bytes,
            duplicates: state.duplicates,
            out_of_order: state.out_of_order,
            stray: state.stray,
            restarts: state.restarts,
            malformed: state.malformed,
            timing: Timing::counted(state),
            sequence: state.sequence.as_ref().map(Sequence::counted),
            bursts: Bursts::counted(&state.bursts),
            buffer: JitterBuffer::counted(state.fastest, state.span_begun_ns),
            origin: state.origin,
            is_joined: false,
        }
    }

    /// Adds what was counted elsewhere of the same stream: of packets that came later or, some of
    /// them, meanwhile. Counts are exact, and so is what is expected; jitter begins anew there.
    pub fn join(&mut self, later: &Statistics) {
        let mut bursts = self.bursts();
        let between = match (&mut self.sequence, &later.sequence) {
            (Some(here), Some(there)) => here.join(there),
            (here, there) => {
                *here = here.clone().or(there.clone());
                0
            }
        };
        bursts.join(&later.bursts(), between);
        self.bursts = bursts;
        self.is_joined = true;
        self.timing.join(&later.timing);
        self.packets += later.packets;
        self.payload_bytes += later.payload_bytes;
        self.duplicates += later.duplicates;
        self.out_of_order += later.out_of_order;
        self.stray += later.stray;
        self.restarts += later.restarts;
        self.malformed += later.malformed;
    }

    /// Takes a packet.
    pub fn take(&mut self, now_ns: u64, rtp: &Rtp<'_>, content: Content, clock_rate: Option<u32>) {
        if rtp.is_malformed {
            self.malformed += 1;
            return;
        }
        self.packets += 1;
        self.payload_bytes += rtp.payload.len() as u64;
        let bursts = &mut self.bursts;
        let order = match &mut self.sequence {
            Some(sequence) => sequence.take(rtp.sequence, &mut |fate| bursts.take(fate)),
            None => {
                self.sequence = Some(Sequence::new(rtp.sequence));
                Order::Ahead
            }
        };
        match order {
            Order::Ahead => {}
            Order::Late => self.out_of_order += 1,
            Order::Duplicate => {
                self.duplicates += 1;
                return;
            }
            Order::Stray => {
                self.stray += 1;
                return;
            }
            Order::Restart => {
                self.stray -= 1;
                self.restarts += 1;
                self.timing.restart();
                self.origin = None;
            }
        }
        self.timing.take(now_ns, rtp, content, clock_rate);
        self.buffer(now_ns, rtp, content, clock_rate);
    }

    /// Whether the packet comes in time to be played. A telephone event is not.
    fn buffer(&mut self, now_ns: u64, rtp: &Rtp<'_>, content: Content, clock_rate: Option<u32>) {
        let Some(rate) = clock_rate.filter(|_| content != Content::TelephoneEvent) else { return };
        let (origin_ns, origin) = *self.origin.get_or_insert_with(|| {
            self.buffer.restart();
            (now_ns, rtp.timestamp)
        });
        let units = rtp.timestamp.wrapping_sub(origin) as i32;
        let due_ns = nominal_ns(units, rate);
        let transit_ns = (now_ns.wrapping_sub(origin_ns) as i64).wrapping_sub(due_ns);
        if !self.buffer.plays(now_ns, transit_ns)
            && let Some(sequence) = &mut self.sequence
        {
            sequence.discard(rtp.sequence);
        }
        // The timestamp turns round every day or so: the origin goes along.
        if units > 1 << 30 {
            let moved = origin_ns.wrapping_add(due_ns as u64);
            self.origin = Some((moved, rtp.timestamp));
        }
    }

    /// Packets that were sent, by their numbers.
    pub fn expected(&self) -> u64 {
        self.sequence.as_ref().map_or(0, Sequence::expected)
    }

    /// Packets that never came.
    pub fn lost(&self) -> u64 {
        // What came twice, once in each of two places where it was counted, is no duplicate.
        (self.expected() + self.duplicates + self.stray).saturating_sub(self.packets)
    }

    /// Bursts and gaps, of all packets so far.
    pub fn bursts(&self) -> Bursts {
        let mut bursts = self.bursts;
        if let Some(sequence) = self.sequence.as_ref().filter(|_| !self.is_joined) {
            sequence.flush(&mut |fate| bursts.take(fate));
        }
        bursts.finished()
    }
}
