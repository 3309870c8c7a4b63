//! The one definition of what is known of a stream of media.

use crate::codec::{Codec, Content};
use crate::emodel::{self, Impairments};
use crate::limits::{CANDIDATE_IDLE_NS, CONSECUTIVE_MIN, DIGITS_MAX, STREAM_IDLE_NS};
use crate::rtp::{JitterBuffer, Statistics};
use crate::timed::Due;
use ringside_core::InterfaceId;
use ringside_ebpf::rtp::StreamState;
use ringside_proto::Rtp;
use ringside_proto::rtcp::{Part, ReceptionReport, SenderReport, VoipMetrics};
use ringside_proto::rtp::TelephoneEvent;
use std::net::IpAddr;

/// One end of a stream: address and port.
pub type Endpoint = (IpAddr, u16);

/// What tells streams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// Who sends.
    pub source: Endpoint,
    /// To whom.
    pub destination: Endpoint,
    /// The sender's number.
    pub ssrc: u32,
    /// Interface that received the packets.
    pub interface: InterfaceId,
}

/// A stream of RTP: one sender, one way.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What tells it from others.
    pub key: StreamKey,
    /// Number of its call; none of a stream that no call announced.
    pub call: Option<u64>,
    /// What most of it is in, as far as that is known: the last that was no noise and no event.
    pub codec: Option<Codec>,
    /// Its payload type.
    pub payload_type: u8,
    /// When the first and the last packet came.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// What was counted.
    pub statistics: Statistics,
    /// Keys that were pressed (RFC 4733).
    pub digits: String,
    /// What its parties said of it.
    pub rtcp: Rtcp,
    /// The timestamp of the last telephone event.
    event: Option<u32>,
    /// Packets with consecutive numbers, and the last number, until it is known to be a stream.
    consecutive: (u8, u16),
}

/// What RTCP said of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rtcp {
    /// Reports of its sender, and of its receiver.
    pub sender_reports: u64,
    /// See `sender_reports`.
    pub reception_reports: u64,
    /// The receiver's last report.
    pub reception: Option<ReceptionReport>,
    /// The receiver's last extended report.
    pub voip: Option<VoipMetrics>,
    /// Round trip from here to the receiver, by its last report that answers one that was seen.
    pub round_trip_ns: Option<u64>,
    /// The middle of the time in the last report of the sender, and when it came here.
    last_sender_report: Option<(u32, u64)>,
}

/// The quality of a stream, with everything that it was made of. Narrowband codecs of known
/// robustness alone have one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Impairment of the codec.
    pub ie: f64,
    /// Robustness of the codec.
    pub bpl: f64,
    /// Packets that were not played, in percent of those expected.
    pub loss_percent: f64,
    /// BurstR.
    pub burst_ratio: f64,
    /// R, without delay.
    pub r: f64,
    /// Quality of listening.
    pub mos: f64,
}

impl Rtcp {
    /// A report of the sender came.
    pub fn take_sender(&mut self, now_ns: u64, report: &SenderReport) {
        self.sender_reports += 1;
        self.last_sender_report = Some(((report.ntp >> 16) as u32, now_ns));
    }

    /// A report of the receiver came.
    pub fn take_reception(&mut self, now_ns: u64, report: &ReceptionReport) {
        self.reception_reports += 1;
        self.reception = Some(*report);
        let Some((middle, then_ns)) = self.last_sender_report else { return };
        if middle == report.last_sender_report && middle != 0 {
            let held_ns = ((u128::from(report.delay) * 1_000_000_000) >> 16) as u64;
            self.round_trip_ns = now_ns.saturating_sub(then_ns).checked_sub(held_ns);
        }
    }
}

impl Rtcp {
    /// Takes what a party said.
    pub(crate) fn take(&mut self, now_ns: u64, part: &Part) {
        match part {
            Part::Sender(report) => self.take_sender(now_ns, report),
            Part::Reception(report) => self.take_reception(now_ns, report),
            Part::Voip(metrics) => self.voip = Some(*metrics),
            Part::Bye { .. } => {}
        }
    }
}

impl Stream {
    /// A stream without packets.
    pub fn new(key: StreamKey, call: Option<u64>, now_ns: u64) -> Stream {
        Stream {
            key,
            call,
            codec: None,
            payload_type: 0,
            first_ns: now_ns,
            last_ns: now_ns,
            statistics: Statistics::new(JitterBuffer::DEPTH_NS),
            digits: String::new(),
            rtcp: Rtcp::default(),
            event: None,
            consecutive: (0, 0),
        }
    }

    /// A stream of a call, as the kernel counted it.
    pub(crate) fn counted(
        key: StreamKey,
        call: u64,
        state: &StreamState,
        codec: Option<&Codec>,
    ) -> Stream {
        Stream {
            codec: codec.cloned(),
            payload_type: state.payload_type,
            last_ns: state.last_ns,
            statistics: Statistics::counted(state),
            ..Stream::new(key, Some(call), state.first_ns)
        }
    }

    /// Adds what was counted elsewhere of it.
    pub(crate) fn join(&mut self, mut other: Stream) {
        if other.first_ns < self.first_ns {
            std::mem::swap(&mut self.statistics, &mut other.statistics);
        } else if other.codec.is_some() {
            (self.codec, self.payload_type) = (other.codec, other.payload_type);
        }
        self.statistics.join(&other.statistics);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Takes a packet, which is of this codec, if that is known.
    pub fn take(&mut self, now_ns: u64, rtp: &Rtp<'_>, codec: Option<&Codec>) {
        self.last_ns = self.last_ns.max(now_ns);
        let content = codec.map_or(Content::Media, Codec::content);
        if !rtp.is_malformed {
            self.look_at(rtp, codec, content);
        }
        self.statistics.take(now_ns, rtp, content, codec.map(|codec| codec.clock_rate));
    }

    fn look_at(&mut self, rtp: &Rtp<'_>, codec: Option<&Codec>, content: Content) {
        let (count, last) = self.consecutive;
        let follows = count > 0 && rtp.sequence == last.wrapping_add(1);
        if !self.is_known() {
            let count = if follows { count + 1 } else { 1 };
            self.consecutive = (count, rtp.sequence);
        }
        match content {
            Content::Media => {
                if self.codec.as_ref() != codec {
                    self.codec = codec.cloned();
                }
                self.payload_type = rtp.payload_type;
            }
            Content::ComfortNoise => {}
            Content::TelephoneEvent => {
                let is_new = self.event.replace(rtp.timestamp) != Some(rtp.timestamp);
                let event = TelephoneEvent::new(rtp.payload).filter(|_| is_new);
                let digit = event.and_then(|event| event.digit());
                self.digits.extend(digit.filter(|_| self.digits.len() < DIGITS_MAX));
            }
        }
    }

    /// True if it is a stream for certain: announced, or by its numbers.
    pub fn is_known(&self) -> bool {
        self.call.is_some() || self.consecutive.0 >= CONSECUTIVE_MIN
    }

    /// Its quality, if it is known what it depends on.
    pub fn quality(&self) -> Option<Quality> {
        let codec = self.codec.as_ref()?;
        let robustness = codec.robustness()?;
        let bursts = self.statistics.bursts();
        if bursts.packets == 0 {
            return None;
        }
        let loss_percent = 100.0 * bursts.unplayed() as f64 / bursts.packets as f64;
        let burst_ratio = bursts.burst_ratio().unwrap_or(1.0).max(1.0);
        let (ie, bpl) = (robustness.ie, robustness.bpl);
        let r =
            emodel::r_factor(&Impairments { delay_ms: 0.0, ie, bpl, loss_percent, burst_ratio });
        Some(Quality { ie, bpl, loss_percent, burst_ratio, r, mos: emodel::mos(r) })
    }
}

impl Quality {
    /// R and quality of conversation, with a delay of one way from mouth to ear.
    pub fn with_delay(&self, delay_ms: f64) -> (f64, f64) {
        let Quality { ie, bpl, loss_percent, burst_ratio, .. } = *self;
        let r = emodel::r_factor(&Impairments { delay_ms, ie, bpl, loss_percent, burst_ratio });
        (r, emodel::mos(r))
    }
}

impl Due for Stream {
    fn due_ns(&self) -> u64 {
        match (self.call, self.is_known()) {
            // It goes with its call.
            (Some(_), _) => u64::MAX,
            (None, true) => self.last_ns.saturating_add(STREAM_IDLE_NS),
            (None, false) => self.last_ns.saturating_add(CANDIDATE_IDLE_NS),
        }
    }
}
