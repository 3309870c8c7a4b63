//! Our own names: all that a record has.

use super::*;

pub(super) const COLUMNS: &[Column<Record>] = &[
    FLOW_ID.called("flow_id"),
    Column::new("part", Kind::Count, |row| row.record.part.into()),
    COMMUNITY_ID.called("community_id"),
    INTERFACE.called("interface"),
    VLAN.called("vlan"),
    Column::new("tunnel", Kind::Text, |row| row.record.tunnel.map(|tunnel| tunnel.name()).into()),
    Column::new("tunnel_id", Kind::Count, |row| {
        row.record.tunnel.map(|tunnel| tunnel.number()).into()
    }),
    Column::new("protocol", Kind::Count, |row| row.record.protocol.0.into()),
    SOURCE.called("src"),
    DESTINATION.called("dst"),
    SOURCE_PORT.called("src_port"),
    DESTINATION_PORT.called("dst_port"),
    ICMP_TYPE.called("icmp_type"),
    ICMP_CODE.called("icmp_code"),
    Column::new("initiator_known", Kind::Bool, |row| row.record.is_initiator_known.into()),
    APPLICATION.called("application"),
    END.called("end"),
    FIRST.called("first_ns"),
    LAST.called("last_ns"),
    Column::new("rtt_responder_ns", Kind::Duration, |row| row.record.rtt_responder_ns.into()),
    Column::new("rtt_initiator_ns", Kind::Duration, |row| row.record.rtt_initiator_ns.into()),
    PACKETS.called("packets"),
    BYTES.called("bytes"),
    IP_BYTES.called("ip_bytes"),
    Column::new("forward_first_ns", Kind::Time, |row| {
        seen(&row.record.forward, row.record.forward.first_ns)
    }),
    Column::new("forward_last_ns", Kind::Time, |row| {
        seen(&row.record.forward, row.record.forward.last_ns)
    }),
    Column::new("tos", Kind::Count, |row| seen(&row.record.forward, row.record.forward.tos)),
    Column::new("mpls_label", Kind::Count, |row| row.record.forward.mpls_label.into()),
    Column::new("tcp_flags", Kind::Count, |row| of_tcp(row.record, row.record.forward.tcp_flags)),
    Column::new("retransmissions", Kind::Count, |row| {
        followed(row.record, row.record.forward.retransmissions)
    }),
    Column::new("out_of_order", Kind::Count, |row| {
        followed(row.record, row.record.forward.out_of_order)
    }),
    Column::new("zero_windows", Kind::Count, |row| {
        followed(row.record, row.record.forward.zero_windows)
    }),
    REVERSE_PACKETS.called("reverse_packets"),
    REVERSE_BYTES.called("reverse_bytes"),
    REVERSE_IP_BYTES.called("reverse_ip_bytes"),
    Column::new("reverse_first_ns", Kind::Time, |row| {
        seen(&row.record.reverse, row.record.reverse.first_ns)
    }),
    Column::new("reverse_last_ns", Kind::Time, |row| {
        seen(&row.record.reverse, row.record.reverse.last_ns)
    }),
    Column::new("reverse_tos", Kind::Count, |row| {
        seen(&row.record.reverse, row.record.reverse.tos)
    }),
    Column::new("reverse_mpls_label", Kind::Count, |row| row.record.reverse.mpls_label.into()),
    Column::new("reverse_tcp_flags", Kind::Count, |row| {
        of_tcp(row.record, row.record.reverse.tcp_flags)
    }),
    Column::new("reverse_retransmissions", Kind::Count, |row| {
        followed(row.record, row.record.reverse.retransmissions)
    }),
    Column::new("reverse_out_of_order", Kind::Count, |row| {
        followed(row.record, row.record.reverse.out_of_order)
    }),
    Column::new("reverse_zero_windows", Kind::Count, |row| {
        followed(row.record, row.record.reverse.zero_windows)
    }),
];

/// What is known of a direction once it had a packet.
fn seen(side: &Side, value: impl Into<Value>) -> Value {
    if side.packets > 0 { value.into() } else { Value::Null }
}

/// What TCP alone has, if its segments were looked at.
fn followed(record: &Record, count: u32) -> Value {
    if record.is_followed { of_tcp(record, count) } else { Value::Null }
}
