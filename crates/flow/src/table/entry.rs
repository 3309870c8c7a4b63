//! What is kept of a flow. Every packet writes to the first part, two cache lines; the second is
//! for TCP, for first packets and for records.

use super::tcp::Follow;
use crate::{Application, EndReason, Key, Packet, Record, Side};
use ringside_wire::Tcp;

/// The first part.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Hot {
    pub key: Key,
    /// The table's time of the last packet.
    pub seen_ns: u64,
    /// The table's time of the first packet since the last record.
    pub begun_ns: u64,
    /// By direction, from the lower endpoint and from the higher, as all pairs here.
    packets: [u64; 2],
    octets: [u64; 2],
    ip_octets: [u64; 2],
    last_ns: [u64; 2],
}

/// The second part.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub flow_id: u64,
    first_ns: [u64; 2],
    pub tcp: Follow,
    mpls_label: [Option<u32>; 2],
    tcp_flags: [u16; 2],
    tos: [u8; 2],
    /// The initiator's direction.
    initiator: u8,
    is_initiator_known: bool,
    pub application: Option<Application>,
    /// Packets of the flow among which a message was looked for.
    pub looked_at: u8,
    /// Records that were made.
    parts: u16,
}

// The hot part is two lines; with links and index a flow takes some 290 bytes.
const _: () = assert!(size_of::<Hot>() == 128 && size_of::<Cold>() <= 136);

/// A flow that its first packet begins, which is yet to be added.
pub(super) fn begin(packet: &Packet, flow_id: u64, now_ns: u64) -> (Hot, Cold) {
    let flags = packet.segment.map_or(0, |segment| segment.flags);
    let is_syn = flags & Tcp::SYN != 0;
    let is_answer = is_syn && flags & Tcp::ACK != 0;
    let hot = Hot {
        key: packet.key,
        seen_ns: now_ns,
        begun_ns: now_ns,
        packets: [0; 2],
        octets: [0; 2],
        ip_octets: [0; 2],
        last_ns: [0; 2],
    };
    let cold = Cold {
        flow_id,
        first_ns: [0; 2],
        tcp: Follow::default(),
        mpls_label: [None; 2],
        tcp_flags: [0; 2],
        tos: [0; 2],
        initiator: u8::from(packet.from_high != is_answer),
        is_initiator_known: is_syn || packet.is_question,
        application: None,
        looked_at: 0,
        parts: 0,
    };
    (hot, cold)
}

impl Hot {
    /// Packets since the last record.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.packets[0] + self.packets[1]
    }

    /// Octets on the wire since the last record.
    pub fn octets(&self) -> u64 {
        self.octets[0] + self.octets[1]
    }

    /// Adds a packet, received at `now_ns` by the table's time and at `stamp_ns` by its stamp.
    #[inline]
    pub fn add(&mut self, cold: &mut Cold, packet: &Packet, now_ns: u64, stamp_ns: u64) {
        let side = usize::from(packet.from_high);
        if self.packets() == 0 {
            self.begun_ns = now_ns;
        }
        if self.packets[side] == 0 {
            cold.first_ns[side] = stamp_ns;
            self.last_ns[side] = stamp_ns;
            cold.tos[side] = packet.tos;
            cold.mpls_label[side] = packet.mpls_label;
        } else if stamp_ns >= self.last_ns[side] {
            self.last_ns[side] = stamp_ns;
        } else {
            cold.first_ns[side] = cold.first_ns[side].min(stamp_ns);
        }
        self.seen_ns = self.seen_ns.max(now_ns);
        self.packets[side] += 1;
        self.octets[side] += u64::from(packet.wire_bytes);
        self.ip_octets[side] += u64::from(packet.ip_bytes);
        if let Some(segment) = &packet.segment {
            cold.tcp_flags[side] |= segment.flags;
            cold.tcp.see(side, segment, stamp_ns);
        }
    }

    /// The record of what was added since the last, and a new beginning.
    pub fn take_record(&mut self, cold: &mut Cold, end: EndReason) -> Record {
        let (low, high) = (self.key.low(), self.key.high());
        let forward = usize::from(cold.initiator);
        let (from, to) = if forward == 0 { (low, high) } else { (high, low) };
        let (rtt_responder_ns, rtt_initiator_ns) = cold.tcp.rtt_ns(forward);
        cold.parts = cold.parts.saturating_add(1);
        let record = Record {
            flow_id: cold.flow_id,
            part: cold.parts,
            end,
            interface: self.key.interface(),
            source: from.0,
            destination: to.0,
            source_port: from.1,
            destination_port: to.1,
            is_initiator_known: cold.is_initiator_known,
            is_one_way: self.key.is_one_way(),
            protocol: self.key.protocol(),
            vlan: self.key.vlan(),
            tunnel: self.key.tunnel(),
            forward: self.side(cold, forward),
            reverse: self.side(cold, 1 - forward),
            application: cold.application,
            rtt_responder_ns,
            rtt_initiator_ns,
        };
        (self.packets, self.octets, self.ip_octets) = Default::default();
        (self.last_ns, cold.first_ns, cold.tcp_flags) = Default::default();
        cold.tcp.begin_record();
        record
    }

    fn side(&self, cold: &Cold, side: usize) -> Side {
        if self.packets[side] == 0 {
            return Side::default();
        }
        let counts = &cold.tcp.counts[side];
        Side {
            packets: self.packets[side],
            octets: self.octets[side],
            ip_octets: self.ip_octets[side],
            first_ns: cold.first_ns[side],
            last_ns: self.last_ns[side],
            tcp_flags: cold.tcp_flags[side],
            tos: cold.tos[side],
            mpls_label: cold.mpls_label[side],
            retransmissions: counts.retransmissions,
            out_of_order: counts.out_of_order,
            zero_windows: counts.zero_windows.into(),
        }
    }
}
