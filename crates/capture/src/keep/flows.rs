//! When enough of a flow was kept: after so many bytes, or after its TLS handshake, only headers
//! follow (Maier et al., "Enriching network security analysis with time travel", SIGCOMM 2008).

use super::tls::TlsSide;
use foldhash::fast::RandomState;
use ringside_core::Timestamp;
use ringside_rules::Sight;
use ringside_wire::{FlowDirection, FlowKey, LayerKind, Level, Tcp};
use std::hash::BuildHasher;

/// Flows that are remembered in each lane, some 8 MB: several times what a busy link has at once.
/// One more takes the place of the oldest of its set, which is then counted from 0 again if it goes
/// on: more of it is kept, never less.
const FLOWS_MAX: usize = 65_536;
/// Flows of a set; one is found by a look at these.
const SET_FLOWS: usize = 8;
/// A flow that was silent for so long, by the stamps of frames, is another one.
const IDLE_NS: u64 = 300_000_000_000;

/// TCP's flags.
const SYN: u16 = 0x02;
const ACK: u16 = 0x10;

/// When a flow has been seen enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCutoff {
    /// After so many bytes of payload, both directions together.
    Bytes(u64),
    /// In each direction of a TLS connection where its application data begins.
    Tls,
}

/// A flow that is remembered.
#[derive(Clone, Debug)]
struct Flow {
    key: FlowKey,
    seen_ns: u64,
    bytes: u64,
    /// From the lower endpoint, and from the higher.
    tls: [TlsSide; 2],
}

/// The flows of a lane.
pub(super) struct Flows {
    cutoff: FlowCutoff,
    flows: Box<[Option<Flow>]>,
    hasher: RandomState,
}

impl Flows {
    pub(super) fn new(cutoff: FlowCutoff) -> Flows {
        let (flows, hasher) = (vec![None; FLOWS_MAX].into(), RandomState::default());
        Flows { cutoff, flows, hasher }
    }

    /// Cuts a frame whose flow has been seen enough of to its headers, or to what is left of its
    /// bytes. What is of no flow is left as it is.
    pub(super) fn cut(&mut self, frame: &Sight<'_>, now: Timestamp, limit: &mut u32) {
        let layers = frame.layers();
        let Some((key, way)) = FlowKey::of(frame.bytes(), layers, Level::Inner) else { return };
        let payload = layers.payload();
        let bytes = frame.bytes().get(payload.clone()).unwrap_or_default();
        let tcp = layers
            .transport(Level::Inner)
            .filter(|layer| layer.kind == LayerKind::Tcp)
            .and_then(|layer| Tcp::new(frame.bytes().get(layer.start()..)?).ok());
        let is_new = tcp.as_ref().is_some_and(|tcp| tcp.flags() & (SYN | ACK) == SYN);
        let cutoff = self.cutoff;
        let flow = self.flow(key, now, is_new);
        let kept = match cutoff {
            FlowCutoff::Bytes(most) => {
                let left = most.saturating_sub(flow.bytes);
                let missing = (frame.wire_bytes() as usize).saturating_sub(frame.bytes().len());
                flow.bytes += (bytes.len() + missing) as u64;
                (left < bytes.len() as u64).then_some(left as usize)
            }
            FlowCutoff::Tls => {
                let side = &mut flow.tls[usize::from(way == FlowDirection::HighToLow)];
                tcp.and_then(|tcp| side.see(tcp.sequence(), bytes))
            }
        };
        if let Some(kept) = kept {
            *limit = (*limit).min((payload.start + kept) as u32);
        }
    }

    /// The flow of this key; as one that was never seen if it `is_new`.
    fn flow(&mut self, key: FlowKey, Timestamp(now): Timestamp, is_new: bool) -> &mut Flow {
        let set = self.hasher.hash_one(key) as usize % (FLOWS_MAX / SET_FLOWS) * SET_FLOWS;
        let set = &mut self.flows[set..set + SET_FLOWS];
        let known = set.iter().position(|flow| flow.as_ref().is_some_and(|flow| flow.key == key));
        let place = known.unwrap_or_else(|| {
            let age = |flow: &Option<Flow>| flow.as_ref().map_or(0, |flow| flow.seen_ns);
            (0..SET_FLOWS).min_by_key(|&place| age(&set[place])).expect("a set has places")
        });
        let slot = &mut set[place];
        let goes_on = known.is_some() && !is_new;
        let fresh = || Flow { key, seen_ns: now, bytes: 0, tls: [TlsSide::default(); 2] };
        let flow = match slot.take() {
            Some(flow) if goes_on && now.saturating_sub(flow.seen_ns) <= IDLE_NS => flow,
            _ => fresh(),
        };
        let flow = slot.insert(flow);
        flow.seen_ns = flow.seen_ns.max(now);
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_wire::{Discriminator, IpProtocol, Port};
    use std::net::{IpAddr, Ipv4Addr};

    fn key(number: u32) -> FlowKey {
        let address = |value: u32| IpAddr::V4(Ipv4Addr::from_bits(value));
        FlowKey {
            low: address(number),
            high: address(u32::MAX),
            protocol: IpProtocol::UDP,
            discriminator: Discriminator::Ports { low: Port(1), high: Port(2) },
            vlan: None,
            tunnel: None,
        }
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_goes() {
        let mut flows = Flows::new(FlowCutoff::Bytes(1));
        let count = 4 * FLOWS_MAX as u32;
        for number in 0..count {
            flows.flow(key(number), Timestamp(u64::from(number)), false).bytes = 1;
        }
        let left = flows.flows.iter().flatten();
        let newest = left.clone().filter(|flow| flow.seen_ns >= u64::from(count) - 4_000).count();
        assert!(left.count() <= FLOWS_MAX);
        assert_eq!(newest, 4_000, "none of the newest is gone");
    }

    #[test]
    fn a_flow_begins_anew_after_silence_or_a_syn() {
        let mut flows = Flows::new(FlowCutoff::Bytes(1));
        flows.flow(key(1), Timestamp(5), false).bytes = 7;
        assert_eq!(flows.flow(key(1), Timestamp(6), false).bytes, 7);
        assert_eq!(flows.flow(key(1), Timestamp(0), false).bytes, 7, "time went back");
        assert_eq!(flows.flow(key(1), Timestamp(6), true).bytes, 0);
        flows.flow(key(1), Timestamp(6), false).bytes = 7;
        assert_eq!(flows.flow(key(1), Timestamp(7 + IDLE_NS), false).bytes, 0);
    }
}
