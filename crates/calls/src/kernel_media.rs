//! Media that are counted in the kernel: rules that come and go with calls.

use crate::codec::{Codec, Content};
use crate::stream::{Endpoint, Stream, StreamKey};
use ringside_core::InterfaceId;
use ringside_ebpf::rtp::{KINDS, Kinds, PAYLOAD_TYPES, RtpMeter, RuleNumber, StreamState};
use serde::Serialize;
use std::collections::HashMap;

/// How long the kernel goes on to count without a word from here. What stands still for longer
/// is taken for dead, and media go where they go without it.
const ALIVE_NS: u64 = 10_000_000_000;

/// The programs that count the media of calls, one on each interface of a run, and their rules.
/// There is one rule for each endpoint of media that a call announces, for as long as the call
/// lasts: who sends there is not known before the first packet.
#[derive(Debug)]
pub struct KernelMedia {
    /// In the order of interfaces.
    meters: Vec<RtpMeter>,
    /// The program's stamps are ahead by this.
    ahead_ns: u64,
    rules: HashMap<Endpoint, Rule>,
    /// The codec of each kind but the first, which is unknown.
    codecs: Vec<Codec>,
    /// Kinds of the payload types that mean the same everywhere.
    usual: Kinds,
    added: u64,
    refused: u64,
}

/// An endpoint whose media are counted, on each interface that had room.
#[derive(Debug)]
struct Rule {
    call: u64,
    numbers: Vec<Option<RuleNumber>>,
}

/// How the programs do, and where every frame is that they saw:
/// `frames = counted + other + no_room + busy + stalled`; all but the counted ones went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelStatus {
    /// Endpoints that have a rule now.
    pub rules: usize,
    /// Rules that came.
    pub added: u64,
    /// Endpoints for which there was no room: their media are counted in user space.
    pub refused: u64,
    /// Frames that the programs saw.
    pub frames: u64,
    /// Packets of streams, which ended there.
    pub counted: u64,
    /// No media of a rule.
    pub other: u64,
    /// Media of more streams than a rule has room for.
    pub no_room: u64,
    /// Media of a rule that another CPU had for too long.
    pub busy: u64,
    /// Media while this process stood still.
    pub stalled: u64,
}

impl KernelMedia {
    /// By these meters, one for each interface in the order of their numbers. Their stamps are
    /// `ahead_ns` ahead of those of frames.
    pub fn new(meters: Vec<RtpMeter>, ahead_ns: u64) -> KernelMedia {
        let mut media = KernelMedia {
            meters,
            ahead_ns,
            rules: HashMap::new(),
            codecs: Vec::new(),
            usual: [0; PAYLOAD_TYPES],
            added: 0,
            refused: 0,
        };
        for payload_type in 0..PAYLOAD_TYPES as u8 {
            let kind = Codec::of_static(payload_type).and_then(|codec| media.kind(&codec));
            media.usual[usize::from(payload_type)] = kind.unwrap_or(0);
        }
        media
    }

    /// The programs.
    pub fn meters(&self) -> &[RtpMeter] {
        &self.meters
    }

    /// Says that this process lives.
    pub(crate) fn keep_alive(&self, monotonic_ns: u64) {
        let until_ns = monotonic_ns.saturating_add(ALIVE_NS);
        self.meters.iter().for_each(|meter| meter.table().keep_alive_until(until_ns));
    }

    /// The number of a codec, where there is room for it.
    fn kind(&mut self, codec: &Codec) -> Option<u8> {
        if let Some(at) = self.codecs.iter().position(|known| known == codec) {
            return Some(at as u8 + 1);
        }
        let kind = u8::try_from(self.codecs.len() + 1).ok().filter(|&k| usize::from(k) < KINDS)?;
        let content = match codec.content() {
            Content::Media => 0,
            Content::ComfortNoise => 1,
            Content::TelephoneEvent => 2,
        };
        for meter in &self.meters {
            meter.table().set_kind(kind, codec.clock_rate, content);
        }
        self.codecs.push(codec.clone());
        Some(kind)
    }

    fn kinds(&mut self, codecs: &[(u8, Codec)]) -> Option<Kinds> {
        let mut kinds = self.usual;
        for (payload_type, codec) in codecs {
            let kind = self.kind(codec)?;
            if let Some(place) = kinds.get_mut(usize::from(*payload_type)) {
                *place = kind;
            }
        }
        Some(kinds)
    }

    /// A call announces an endpoint, which is no other call's: its media are counted from now on.
    pub(crate) fn announce(&mut self, endpoint: Endpoint, call: u64, codecs: &[(u8, Codec)]) {
        let Some(kinds) = self.kinds(codecs) else {
            self.refused += 1;
            return;
        };
        if let Some(rule) = self.rules.get(&endpoint) {
            for (meter, number) in self.meters.iter().zip(&rule.numbers) {
                if let Some(number) = number {
                    meter.table().set_kinds(number, &kinds);
                }
            }
            return;
        }
        let meters = self.meters.iter_mut();
        let numbers: Vec<_> = meters.map(|meter| meter.table_mut().add(endpoint, &kinds)).collect();
        self.added += numbers.iter().filter(|number| number.is_some()).count() as u64;
        self.refused += numbers.iter().filter(|number| number.is_none()).count() as u64;
        self.rules.insert(endpoint, Rule { call, numbers });
    }

    /// The endpoint is its call's no more: the streams that were counted there.
    pub(crate) fn take(&mut self, endpoint: &Endpoint) -> Vec<Stream> {
        let Some(Rule { call, numbers }) = self.rules.remove(endpoint) else { return Vec::new() };
        let mut streams = Vec::new();
        for (at, (meter, number)) in self.meters.iter_mut().zip(numbers).enumerate() {
            let states = number.map(|number| meter.table_mut().close(number));
            let states = states.into_iter().flatten();
            let (ahead_ns, codecs) = (self.ahead_ns, &self.codecs);
            streams.extend(states.map(|state| {
                let codec = usize::from(state.kind).checked_sub(1).and_then(|at| codecs.get(at));
                stream(&state.earlier_by(ahead_ns), InterfaceId(at as u32), call, codec)
            }));
        }
        streams
    }

    /// When the last packet to or from these endpoints was counted; 0 if none was.
    pub(crate) fn last_ns(&self, endpoints: &[Endpoint]) -> u64 {
        let rules = endpoints.iter().filter_map(|endpoint| self.rules.get(endpoint));
        let last_ns = |(meter, number): (&RtpMeter, &Option<RuleNumber>)| {
            number.as_ref().map(|number| meter.table().last_ns(number))
        };
        let stamps =
            rules.flat_map(|rule| self.meters.iter().zip(&rule.numbers).filter_map(last_ns));
        stamps.max().unwrap_or(0).saturating_sub(self.ahead_ns)
    }

    /// Packets of rules that are in force. Looks at all of them.
    pub(crate) fn packets_open(&self) -> u64 {
        self.meters.iter().map(|meter| meter.table().frames_open()).sum()
    }

    /// How the programs do.
    pub(crate) fn status(&self) -> KernelStatus {
        let mut status = KernelStatus {
            rules: self.meters.iter().map(|meter| meter.table().len()).sum(),
            added: self.added,
            refused: self.refused,
            ..KernelStatus::default()
        };
        for counts in self.meters.iter().map(|meter| meter.table().counts()) {
            status.frames += counts.counted + counts.passed();
            status.counted += counts.counted;
            status.other += counts.other;
            status.no_room += counts.no_room;
            status.busy += counts.busy;
            status.stalled += counts.stalled;
        }
        status
    }
}

fn stream(state: &StreamState, interface: InterfaceId, call: u64, codec: Option<&Codec>) -> Stream {
    let StreamState { source, destination, ssrc, .. } = *state;
    let key = StreamKey { source, destination, ssrc, interface };
    Stream::counted(key, call, state, codec)
}
