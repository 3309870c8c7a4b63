//! All that is counted of one stream.

use super::bursts::Bursts;
use super::jitter_buffer::JitterBuffer;
use super::sequence::{Order, Sequence};
use super::timing::Timing;
use crate::codec::Content;
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
        }
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
        let units = i64::from(rtp.timestamp.wrapping_sub(origin) as i32);
        let due_ns = i128::from(units) * 1_000_000_000 / i128::from(rate.max(1));
        let transit_ns = i128::from(now_ns) - i128::from(origin_ns) - due_ns;
        let transit_ns = transit_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        if !self.buffer.plays(now_ns, transit_ns)
            && let Some(sequence) = &mut self.sequence
        {
            sequence.discard(rtp.sequence);
        }
        // The timestamp turns round every day or so: the origin goes along.
        if units > 1 << 30 {
            let moved = origin_ns.saturating_add(due_ns.max(0) as u64);
            self.origin = Some((moved, rtp.timestamp));
        }
    }

    /// Packets that were sent, by their numbers.
    pub fn expected(&self) -> u64 {
        self.sequence.as_ref().map_or(0, Sequence::expected)
    }

    /// Packets that never came.
    pub fn lost(&self) -> u64 {
        self.expected() + self.duplicates + self.stray - self.packets
    }

    /// Bursts and gaps, of all packets so far.
    pub fn bursts(&self) -> Bursts {
        let mut bursts = self.bursts;
        if let Some(sequence) = &self.sequence {
            sequence.flush(&mut |fate| bursts.take(fate));
        }
        bursts.finished()
    }
}
