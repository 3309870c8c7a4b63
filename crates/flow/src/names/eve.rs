//! Names of Suricata's eve.json, events of type `flow`.

use super::{Column, Row, time};
use crate::EndReason;
use ringside_core::time::NANOS_PER_SEC;
use ringside_wire::IpProtocol;
use serde_json::Value;

/// Microseconds and the zone, as Suricata writes it.
const FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.6f+0000";

pub(super) const COLUMNS: &[Column] = &[
    ("timestamp", |row| time(row.record.last_ns(), FORMAT)),
    ("flow_id", |row| row.record.flow_id.into()),
    ("in_iface", |row| row.interface()),
    ("event_type", |_| "flow".into()),
    ("vlan", |row| row.record.vlan.map(|id| vec![id]).into()),
    ("src_ip", |row| row.record.source.to_string().into()),
    ("src_port", |row| row.port(row.record.source_port)),
    ("dest_ip", |row| row.record.destination.to_string().into()),
    ("dest_port", |row| row.port(row.record.destination_port)),
    ("proto", |row| row.transport().to_uppercase().into()),
    ("icmp_type", |row| row.record.icmp().map(|(kind, _)| kind).into()),
    ("icmp_code", |row| row.record.icmp().map(|(_, code)| code).into()),
    ("app_proto", |row| row.application()),
    ("community_id", |row| row.community_id()),
    ("flow.pkts_toserver", |row| row.record.forward.packets.into()),
    ("flow.pkts_toclient", |row| row.record.reverse.packets.into()),
    ("flow.bytes_toserver", |row| row.record.forward.octets.into()),
    ("flow.bytes_toclient", |row| row.record.reverse.octets.into()),
    ("flow.start", |row| time(row.record.first_ns(), FORMAT)),
    ("flow.end", |row| time(row.record.last_ns(), FORMAT)),
    ("flow.age", |row| (row.duration_ns() / NANOS_PER_SEC).into()),
    ("flow.state", |row| state(row).into()),
    ("flow.reason", |row| reason(row.record.end).into()),
    ("tcp.tcp_flags", |row| hex(row, row.record.forward.tcp_flags | row.record.reverse.tcp_flags)),
    ("tcp.tcp_flags_ts", |row| hex(row, row.record.forward.tcp_flags)),
    ("tcp.tcp_flags_tc", |row| hex(row, row.record.reverse.tcp_flags)),
];

fn state(row: &Row<'_>) -> &'static str {
    match row.record {
        _ if row.is_closed() => "closed",
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

fn hex(row: &Row<'_>, flags: u16) -> Value {
    match row.record.protocol {
        IpProtocol::TCP => format!("{:02x}", flags & 0xff).into(),
        _ => Value::Null,
    }
}
