//! When enough of a flow was kept: after a number of bytes, or after its TLS handshake. Then only
//! headers follow (Maier et al., "Enriching network security analysis with time travel", SIGCOMM
//! 2008).

use super::tls::TlsSide;
use ringside_core::{RecentTable, Timestamp};
use ringside_inspect::DissectedFrame;
use ringside_wire::{FlowDirection, FlowKey, LayerKind, Level, Tcp};

/// Flows that are remembered in each lane, some 14 MB: several times what a busy link has at once.
/// One more takes the place of one that was silent for long, which is then counted from 0 again if
/// it goes on: more of it is kept, never less.
const FLOWS_MAX: usize = 65_536;
/// A flow that was silent for so long, by the stamps of frames, is another one.
const IDLE_NS: u64 = 300_000_000_000;

/// When a flow has been seen enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCutoff {
    /// After this number of bytes of payload, both directions together.
    Bytes(u64),
    /// In each direction of a TLS connection where its application data begins.
    Tls,
}

/// What is remembered of a flow.
#[derive(Debug, Default)]
struct Flow {
    bytes: u64,
    /// From the lower endpoint, and from the higher.
    tls: [TlsSide; 2],
}

/// The flows of a lane.
pub(super) struct Flows {
    cutoff: FlowCutoff,
    flows: RecentTable<FlowKey, Flow>,
}

impl Flows {
    pub(super) fn new(cutoff: FlowCutoff) -> Flows {
        Flows { cutoff, flows: RecentTable::new(FLOWS_MAX) }
    }

    /// Cuts a frame whose flow has been seen enough of to its headers, or to what is left of its
    /// bytes. What is of no flow is left as it is.
    pub(super) fn cut(&mut self, frame: &DissectedFrame<'_>, now: Timestamp, limit: &mut u32) {
        let layers = frame.layers();
        let Some((key, way)) = FlowKey::of(frame.bytes(), layers, Level::Inner) else { return };
        let payload = layers.payload();
        let bytes = frame.bytes().get(payload.clone()).unwrap_or_default();
        let tcp = layers
            .transport(Level::Inner)
            .filter(|layer| layer.kind == LayerKind::Tcp)
            .and_then(|layer| Tcp::new(frame.bytes().get(layer.start()..)?).ok());
        let is_new =
            tcp.as_ref().is_some_and(|tcp| tcp.flags() & (Tcp::SYN | Tcp::ACK) == Tcp::SYN);
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
        let entered = self.flows.enter(key, now, |_| Flow::default());
        let is_idle = |seen: u64| now.saturating_sub(seen) > IDLE_NS;
        if is_new || entered.seen_before.is_some_and(is_idle) {
            *entered.value = Flow::default();
        }
        entered.value
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
