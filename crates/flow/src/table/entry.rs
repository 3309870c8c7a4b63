//! What is kept of a flow. Every packet writes to the entry of the table, the first two cache lines
//! of it, and the third if it is TCP; the rest is for first packets, handshakes and records.

use super::counted::Counted;
use super::tcp::{Follow, Handshake};
use crate::{Application, EndReason, Key, Packet, Record, Side};
use ringside_core::recent;
use ringside_wire::Tcp;

/// A flow in the table, with its key and the table's time of its last packet.
pub(super) type Entry = recent::Entry<Key, Flow>;

/// The first part. Pairs are by direction here, from the lower endpoint and from the higher.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Flow {
    /// The table's time of the first packet since the last record.
    pub begun_ns: u64,
    packets: [u64; 2],
    octets: [u64; 2],
    ip_octets: [u64; 2],
    last_ns: [u64; 2],
    pub tcp: Follow,
    tos: [u8; 2],
    pub application: Option<Application>,
    about: About,
}

/// The second part.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    flow_id: u64,
    first_ns: [u64; 2],
    handshake: Handshake,
    /// As many labels as there are, and [`NO_LABEL`].
    mpls_label: [u32; 2],
    /// Records that were made.
    parts: u16,
    /// Some packets since the last record were added up elsewhere.
    is_unfollowed: bool,
}

/// Above all labels of MPLS, which have 20 bits.
const NO_LABEL: u32 = u32::MAX;

/// Who began a flow, and how many packets were looked at for a message.
#[derive(Clone, Copy, Debug)]
struct About(u8);

impl About {
    /// The initiator's direction.
    const INITIATOR: u8 = 1;
    const IS_INITIATOR_KNOWN: u8 = 2;
    /// One packet that was looked at; up to 63 have room.
    const LOOKED_AT: u8 = 4;
}

/// The lines that a packet writes to, without TCP and with it.
pub(super) const LINES_BYTES: [usize; 2] = [128, 192];

const _: () = assert!(size_of::<Entry>() == LINES_BYTES[1] && size_of::<Rest>() == 56);

impl Flow {
    /// A flow that its first packet begins, which is yet to be added.
    pub fn begin(packet: &Packet, flow_id: u64, now_ns: u64) -> (Flow, Rest) {
        let flags = packet.segment.map_or(0, |segment| segment.flags);
        let is_syn = flags & Tcp::SYN != 0;
        let is_answer = is_syn && flags & Tcp::ACK != 0;
        let is_initiator_known = is_syn || packet.is_question;
        let flow = Flow {
            begun_ns: now_ns,
            packets: [0; 2],
            octets: [0; 2],
            ip_octets: [0; 2],
            last_ns: [0; 2],
            tcp: Follow::default(),
            tos: [0; 2],
            application: None,
            about: About(
                (u8::from(packet.from_high != is_answer) * About::INITIATOR)
                    | (u8::from(is_initiator_known) * About::IS_INITIATOR_KNOWN),
            ),
        };
        (flow, Rest { flow_id, ..Rest::default() })
    }

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
    pub fn add(&mut self, rest: &mut Rest, packet: &Packet, now_ns: u64, stamp_ns: u64) {
        let side = usize::from(packet.from_high);
        if self.packets() == 0 {
            self.begun_ns = now_ns;
        }
        if self.packets[side] == 0 {
            rest.first_ns[side] = stamp_ns;
            self.last_ns[side] = stamp_ns;
            self.tos[side] = packet.tos;
            rest.mpls_label[side] = packet.mpls_label.unwrap_or(NO_LABEL);
        } else if stamp_ns >= self.last_ns[side] {
            self.last_ns[side] = stamp_ns;
        } else {
            rest.first_ns[side] = rest.first_ns[side].min(stamp_ns);
        }
        self.packets[side] += 1;
        self.octets[side] += u64::from(packet.wire_bytes);
        self.ip_octets[side] += u64::from(packet.ip_bytes);
        if let Some(segment) = &packet.segment {
            self.tcp.see(&mut rest.handshake, side, segment, stamp_ns);
        }
    }

    /// Adds packets that were added up elsewhere. The first was received at `now_ns` by the table's
    /// time and at `first_ns` by its stamp. The table's time of the last of them.
    pub fn add_counted(
        &mut self,
        rest: &mut Rest,
        counted: &Counted,
        now_ns: u64,
        first_ns: u64,
    ) -> u64 {
        let side = usize::from(counted.from_high);
        let last_ns = counted.last.0.max(first_ns);
        if self.packets() == 0 {
            self.begun_ns = now_ns;
        }
        if self.packets[side] == 0 {
            rest.first_ns[side] = first_ns;
            self.tos[side] = counted.tos;
            rest.mpls_label[side] = counted.mpls_label.unwrap_or(NO_LABEL);
        }
        rest.first_ns[side] = rest.first_ns[side].min(first_ns);
        self.last_ns[side] = self.last_ns[side].max(last_ns);
        self.packets[side] += counted.packets;
        self.octets[side] += counted.octets;
        self.ip_octets[side] += counted.ip_octets;
        self.tcp.see_flags(side, counted.tcp_flags);
        rest.is_unfollowed = true;
        now_ns.saturating_add(last_ns - first_ns)
    }

    /// True, and counted, if a message may begin in the packet that was added last: it is among the
    /// first `packets_max` of the flow, and none was found.
    #[inline]
    pub fn may_begin_message(&mut self, packets_max: u8) -> bool {
        // Behind this number of packets since the last record there were as many in all: then the
        // third line is not looked at.
        if self.packets() > packets_max.into() || self.application.is_some() {
            return false;
        }
        if self.about.0 >= packets_max * About::LOOKED_AT {
            return false;
        }
        self.about.0 += About::LOOKED_AT;
        true
    }

    /// The record of what was added since the last, and a new beginning.
    pub fn take_record(&mut self, key: &Key, rest: &mut Rest, end: EndReason) -> Record {
        let (low, high) = (key.low(), key.high());
        let forward = usize::from(self.about.0 & About::INITIATOR);
        let (from, to) = if forward == 0 { (low, high) } else { (high, low) };
        let (rtt_responder_ns, rtt_initiator_ns) = rest.handshake.rtt_ns(forward);
        rest.parts = rest.parts.saturating_add(1);
        let record = Record {
            flow_id: rest.flow_id,
            part: rest.parts,
            end,
            interface: key.interface(),
            source: from.0,
            destination: to.0,
            source_port: from.1,
            destination_port: to.1,
            is_initiator_known: self.about.0 & About::IS_INITIATOR_KNOWN != 0,
            is_one_way: key.is_one_way(),
            is_followed: !rest.is_unfollowed,
            protocol: key.protocol(),
            vlan: key.vlan(),
            tunnel: key.tunnel(),
            forward: self.side(rest, forward),
            reverse: self.side(rest, 1 - forward),
            application: self.application,
            rtt_responder_ns,
            rtt_initiator_ns,
        };
        (self.packets, self.octets, self.ip_octets) = Default::default();
        (self.last_ns, rest.first_ns) = Default::default();
        self.tcp.begin_record();
        rest.is_unfollowed = false;
        record
    }

    fn side(&self, rest: &Rest, side: usize) -> Side {
        if self.packets[side] == 0 {
            return Side::default();
        }
        let counts = self.tcp.counts(side);
        Side {
            packets: self.packets[side],
            octets: self.octets[side],
            ip_octets: self.ip_octets[side],
            first_ns: rest.first_ns[side],
            last_ns: self.last_ns[side],
            tos: self.tos[side],
            mpls_label: Some(rest.mpls_label[side]).filter(|&label| label != NO_LABEL),
            ..counts
        }
    }
}
