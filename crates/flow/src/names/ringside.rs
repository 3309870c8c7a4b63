//! Our own names: all that a record has.

use super::Column;
use crate::{Record, Side};
use ringside_wire::IpProtocol;
use serde_json::Value;

pub(super) const COLUMNS: &[Column] = &[
    ("flow_id", |row| row.record.flow_id.into()),
    ("part", |row| row.record.part.into()),
    ("community_id", |row| row.community_id()),
    ("interface", |row| row.interface()),
    ("vlan", |row| row.record.vlan.into()),
    ("tunnel", |row| row.record.tunnel.map(|tunnel| tunnel.name()).into()),
    ("tunnel_id", |row| row.record.tunnel.map(|tunnel| tunnel.number()).into()),
    ("protocol", |row| row.record.protocol.0.into()),
    ("src", |row| row.record.source.to_string().into()),
    ("dst", |row| row.record.destination.to_string().into()),
    ("src_port", |row| row.port(row.record.source_port)),
    ("dst_port", |row| row.port(row.record.destination_port)),
    ("icmp_type", |row| row.record.icmp().map(|(kind, _)| kind).into()),
    ("icmp_code", |row| row.record.icmp().map(|(_, code)| code).into()),
    ("initiator_known", |row| row.record.is_initiator_known.into()),
    ("application", |row| row.application()),
    ("end", |row| row.record.end.name().into()),
    ("first_ns", |row| row.record.first_ns().into()),
    ("last_ns", |row| row.record.last_ns().into()),
    ("rtt_responder_ns", |row| row.record.rtt_responder_ns.into()),
    ("rtt_initiator_ns", |row| row.record.rtt_initiator_ns.into()),
    ("packets", |row| row.record.forward.packets.into()),
    ("bytes", |row| row.record.forward.octets.into()),
    ("ip_bytes", |row| row.record.forward.ip_octets.into()),
    ("forward_first_ns", |row| seen(&row.record.forward, row.record.forward.first_ns)),
    ("forward_last_ns", |row| seen(&row.record.forward, row.record.forward.last_ns)),
    ("tos", |row| seen(&row.record.forward, row.record.forward.tos)),
    ("mpls_label", |row| row.record.forward.mpls_label.into()),
    ("tcp_flags", |row| row.flags(row.record.forward.tcp_flags)),
    ("retransmissions", |row| tcp(row.record, row.record.forward.retransmissions)),
    ("out_of_order", |row| tcp(row.record, row.record.forward.out_of_order)),
    ("zero_windows", |row| tcp(row.record, row.record.forward.zero_windows)),
    ("reverse_packets", |row| row.record.reverse.packets.into()),
    ("reverse_bytes", |row| row.record.reverse.octets.into()),
    ("reverse_ip_bytes", |row| row.record.reverse.ip_octets.into()),
    ("reverse_first_ns", |row| seen(&row.record.reverse, row.record.reverse.first_ns)),
    ("reverse_last_ns", |row| seen(&row.record.reverse, row.record.reverse.last_ns)),
    ("reverse_tos", |row| seen(&row.record.reverse, row.record.reverse.tos)),
    ("reverse_mpls_label", |row| row.record.reverse.mpls_label.into()),
    ("reverse_tcp_flags", |row| row.flags(row.record.reverse.tcp_flags)),
    ("reverse_retransmissions", |row| tcp(row.record, row.record.reverse.retransmissions)),
    ("reverse_out_of_order", |row| tcp(row.record, row.record.reverse.out_of_order)),
    ("reverse_zero_windows", |row| tcp(row.record, row.record.reverse.zero_windows)),
];

/// What is known of a direction once it had a packet.
fn seen(side: &Side, value: impl Into<Value>) -> Value {
    if side.packets > 0 { value.into() } else { Value::Null }
}

/// What TCP alone has, if its segments were looked at.
fn tcp(record: &Record, count: u32) -> Value {
    let is_known = record.protocol == IpProtocol::TCP && record.is_followed;
    if is_known { count.into() } else { Value::Null }
}
