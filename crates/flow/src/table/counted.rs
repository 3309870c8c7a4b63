//! Packets that were added up before they came here: in the kernel, for one.

use super::FlowTable;
use crate::{Key, NoFlow, Packet, Record, Segment, Sums};
use ringside_core::Timestamp;
use ringside_wire::IpProtocol;

/// Packets of one direction of a flow, added up. What only a look at each packet tells is unknown:
/// see [`Record::is_followed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Their flow.
    pub key: Key,
    /// True if the key's higher endpoint sent them.
    pub from_high: bool,
    /// True if the first is known to be a question: a message of ICMP that has an answer.
    pub is_question: bool,
    /// Packets, at least 1.
    pub packets: u64,
    /// Octets of their frames on the wire.
    pub octets: u64,
    /// Octets of the IP packets.
    pub ip_octets: u64,
    /// When the first was received.
    pub first: Timestamp,
    /// When the last was received.
    pub last: Timestamp,
    /// Type of service, or traffic class, of the first.
    pub tos: u8,
    /// Label at the top of the first one's MPLS stack.
    pub mpls_label: Option<u32>,
    /// Flags of all TCP headers together.
    pub tcp_flags: u16,
    /// Flags of the first one's.
    pub first_flags: u16,
}

impl Counted {
    /// One packet.
    pub fn one(packet: &Packet) -> Counted {
        let flags = packet.segment.map_or(0, |segment| segment.flags);
        Counted {
            key: packet.key,
            from_high: packet.from_high,
            is_question: packet.is_question,
            packets: 1,
            octets: packet.wire_bytes.into(),
            ip_octets: packet.ip_bytes.into(),
            first: packet.stamp,
            last: packet.stamp,
            tos: packet.tos,
            mpls_label: packet.mpls_label,
            tcp_flags: flags,
            first_flags: flags,
        }
    }

    /// The first packet, as far as a flow begins by it.
    fn first_packet(&self) -> Packet {
        let (flags, is_tcp) = (self.first_flags, self.key.protocol() == IpProtocol::TCP);
        let segment = Segment { sequence: 0, flags, window: 0, payload_bytes: 0 };
        Packet {
            key: self.key,
            from_high: self.from_high,
            is_question: self.is_question,
            stamp: self.first,
            wire_bytes: 0,
            ip_bytes: 0,
            tos: self.tos,
            mpls_label: self.mpls_label,
            segment: is_tcp.then_some(segment),
        }
    }
}

impl FlowTable {
    /// Adds packets of one direction of a flow at once, as if all had come when the first did, and
    /// nothing since the last. Records of flows that are over, or must go, are given out first.
    pub fn add_counted(&mut self, counted: &Counted, out: &mut dyn FnMut(Record)) {
        let (now, first) = self.clock.at(counted.first);
        if self.dues.has_passed(now) {
            self.look_at_due(now, out);
        }
        self.ledger.received += Sums { packets: counted.packets, octets: counted.octets };
        let packet = counted.first_packet();
        let hash = self.hash(&packet);
        let known = self.flows.find(&packet.key, hash);
        let known = known.filter(|&at| self.goes_on(at, &packet, now, out));
        let at = known.unwrap_or_else(|| self.begin(&packet, hash, now, out));
        let entry = self.flows.at_mut(at);
        let was_over = entry.value.tcp.is_ended();
        let last = entry.value.add_counted(&mut self.rest[at], counted, now, first);
        entry.seen = entry.seen.max(last);
        let is_tcp = counted.key.protocol() == IpProtocol::TCP;
        if is_tcp && self.flows.at(at).value.tcp.is_ended() && !was_over {
            // It is due earlier.
            self.dues.set(at, self.due(at));
        }
    }

    /// Counts packets that are in no flow.
    pub fn count_no_flow(&mut self, cause: NoFlow, sums: Sums) {
        self.ledger.received += sums;
        self.ledger.no_flow[cause as usize] += sums;
    }

    /// Counts more fragments that came without their ports.
    pub fn add_fragments_without_ports(&mut self, fragments: u64) {
        self.ledger.fragments_without_ports += fragments;
    }
}
