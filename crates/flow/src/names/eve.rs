//! Names of Suricata's eve.json, events of type `flow`.

use super::*;
use ringside_core::time::NANOS_PER_SEC;

pub(super) const COLUMNS: &[Column<Record>] = &[
    LAST.called("timestamp"),
    FLOW_ID.called("flow_id"),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |_| "flow".into()),
    Column::new("vlan", Kind::List, |row| row.record.vlan.map(|id| vec![id]).into()),
    SOURCE.called("src_ip"),
    SOURCE_PORT.called("src_port"),
    DESTINATION.called("dest_ip"),
    DESTINATION_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |row| transport(row.record).to_uppercase().into()),
    ICMP_TYPE.called("icmp_type"),
    ICMP_CODE.called("icmp_code"),
    APPLICATION.called("app_proto"),
    COMMUNITY_ID.called("community_id"),
    PACKETS.called("flow.pkts_toserver"),
    REVERSE_PACKETS.called("flow.pkts_toclient"),
    BYTES.called("flow.bytes_toserver"),
    REVERSE_BYTES.called("flow.bytes_toclient"),
    FIRST.called("flow.start"),
    LAST.called("flow.end"),
    // Whole seconds.
    Column::new("flow.age", Kind::Count, |row| (duration_ns(row.record) / NANOS_PER_SEC).into()),
    Column::new("flow.state", Kind::Text, |row| state(row.record).into()),
    Column::new("flow.reason", Kind::Text, |row| reason(row.record.end).into()),
    Column::new("tcp.tcp_flags", Kind::Text, |row| {
        hex(row.record, row.record.forward.tcp_flags | row.record.reverse.tcp_flags)
    }),
    Column::new("tcp.tcp_flags_ts", Kind::Text, |row| {
        hex(row.record, row.record.forward.tcp_flags)
    }),
    Column::new("tcp.tcp_flags_tc", Kind::Text, |row| {
        hex(row.record, row.record.reverse.tcp_flags)
    }),
];

fn state(record: &Record) -> &'static str {
    match record {
        record if is_closed(record) => "closed",
        record if record.forward.packets > 0 && record.reverse.packets > 0 => "established",
        _ => "new",
    }
}

/// Suricata knows no active time-out: that one is ours.
fn reason(end: EndReason) -> &'static str {
    match end {
        EndReason::Idle | EndReason::End => "timeout",
        EndReason::Active => "active_timeout",
        EndReason::Forced => "shutdown",
        EndReason::LackOfResources => "forced",
    }
}

fn hex(record: &Record, flags: u16) -> Value {
    of_tcp(record, format!("{:02x}", flags & 0xff))
}
